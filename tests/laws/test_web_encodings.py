"""Charsets: each label and each character of the Encoding Standard, as another program reads them.

`web_encodings.json` beside this file was made of what `release/web_encodings.mjs` writes, which asks
that program. It has labels, a digest of all characters of each encoding, and a text that only this
encoding reads so. `python tests/laws/test_web_encodings.py WHOLE.json` makes it again.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from stages.columns import Drop, DropReason
from stages.reading.columns_seen import ColumnsSeen
from stages.reading.encodings import known_encoding, transcoded
from stages.reading.html import HTML
from stages.reading.records import FieldMapping, RawDocument, Record
from stages.reading.web_decoder import decoded_web
from stages.reading.web_encodings import REPLACEMENT, web_encoding
from tests.campaign import FULL, some_of

GOLDEN = Path(__file__).with_name("web_encodings.json")
CONTENT = json.loads(GOLDEN.read_text("utf-8")) if GOLDEN.exists() else {}
LABELS: dict[str, str] = CONTENT.get("labels", {})
SAMPLES: dict[str, tuple[str, str]] = CONTENT.get("samples", {})
STATEFUL = "iso-2022-jp"
UNICODE = ("utf-8", "utf-16le", "utf-16be")


def sequences(name: str) -> Iterator[bytes]:
    """Yield the bytes of all that may be a character of an encoding."""
    high = range(0x80, 0x100)
    if name == STATEFUL:
        yield from (bytes(pair) for pair in product(range(0x21, 0x7F), repeat=2))
        return
    yield from (bytes([byte]) for byte in high)
    if name not in ("gbk", "gb18030", "big5", "euc-jp", "euc-kr", "shift_jis"):
        return
    leads = [byte for byte in range(0x81, 0xFF) if decoded(name, bytes([byte])) is None]
    yield from (bytes(pair) for pair in product(leads, range(0x40, 0x100)))
    if name == "euc-jp":
        yield from (bytes((0x8F, *pair)) for pair in product(range(0xA1, 0xFF), repeat=2))
    if name.startswith("gb"):
        tens, leads = range(0x30, 0x3A), list(range(0x81, 0xFF))
        yield from (bytes(four) for four in product(range(0x81, 0x85), tens, leads, tens))


def decoded(name: str, data: bytes) -> str | None:
    """Return what our decoder makes of some bytes, None if they are no character."""
    around = b"\x1b$B" + data + b"\x1b(B" if name == STATEFUL else data
    try:
        return decoded_web(around, name)
    except UnicodeDecodeError:
        return None


def digest_of(characters: dict[str, str]) -> str:
    """Return the digest of all characters of an encoding, in the order of their bytes."""
    lines = (f"{digits} {text}\n" for digits, text in sorted(characters.items()))
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


@pytest.mark.parametrize("name", sorted(CONTENT.get("digests", {})))
def test_every_character_is_that_of_the_standard_and_nothing_else_is_one(name: str) -> None:
    found = {data.hex(): text for data in sequences(name) if (text := decoded(name, data)) is not None}
    assert digest_of(found) == CONTENT["digests"][name]


def page(label: str, data: bytes, *, form: str = '<meta charset="{0}">') -> Record:
    """Return what a page that names its charset gives."""
    head = form.format(label).encode("latin-1")
    stream = HTML.open(FieldMapping(), 1 << 20)
    (piece,) = stream.lines(
        [b"<html><head>" + head + b"</head><body><p>" + data + b"</p></body></html>"]
    )
    return stream.parse(piece, ColumnsSeen(FieldMapping()))


FORMS = (
    '<meta charset="{0}">',
    "<META charset={0} >",
    "<!-- <meta charset=utf-8> --><meta http-equiv='Content-Type' content='text/html; charset={0}'>",
    '<meta name=a content="b"><meta charset = " {0} ">',
)


@pytest.mark.parametrize("label", sorted(LABELS))
def test_each_label_of_the_standard_reads_the_text_that_only_its_table_reads(label: str) -> None:
    name = LABELS[label]
    assert web_encoding(label) == name
    assert web_encoding(f" \t{label.upper()}\n") == name
    if name == REPLACEMENT:
        for data in (b"ascii alone", b"\xb0\xa1", b"\x1b$)C\x0e!!\x0f"):
            found = page(label, data)
            assert isinstance(found, Drop)
            assert found.reason == DropReason.BAD_CHARSET
            assert repr(label) in found.detail
        return
    if name in UNICODE or name == "x-user-defined":
        return
    digits, text = SAMPLES[name]
    for form in some_of(FORMS, 2):
        found = page(label, bytes.fromhex(digits), form=form)
        assert isinstance(found, RawDocument), found
        assert found.text == text


def test_a_sample_is_read_otherwise_by_every_other_table() -> None:
    for (name, (digits, text)), other in product(SAMPLES.items(), SAMPLES):
        same = {name, other} in ({"gbk", "gb18030"}, {"iso-8859-8", "iso-8859-8-i"})
        if name != other and not same and other != STATEFUL:
            try:
                assert decoded_web(bytes.fromhex(digits), other) != text, (name, other)
            except UnicodeDecodeError:
                continue


@pytest.mark.parametrize("label", ["x-nobody", "utf8mb4", "windows-9999", "none"])
def test_a_label_that_nobody_knows_is_a_drop_that_names_it_if_the_page_needs_one(label: str) -> None:
    for data in (b"\xb0\xa1", b"\x1b$B@n\x1b(B"):
        found = page(label, data)
        assert isinstance(found, Drop)
        assert found.reason == DropReason.BAD_CHARSET
        assert repr(label) in found.detail
    ascii_alone, in_utf8 = page(label, b"a river"), page(label, "川と船".encode())
    assert isinstance(ascii_alone, RawDocument)
    assert isinstance(in_utf8, RawDocument)
    assert (ascii_alone.text, in_utf8.text) == ("a river", "川と船")


@pytest.mark.parametrize("label", ["shift_jis", "iso-2022-jp", "big5", "windows-1251", "replacement"])
def test_utf_8_wins_over_every_label(label: str) -> None:
    found = page(label, "川と船、déjà".encode())
    assert isinstance(found, RawDocument)
    assert found.text == "川と船、déjà"


def test_seven_bits_are_read_by_states_only_where_the_page_says_so() -> None:
    data = b"\x1b$B@n\x1b(B and \x1b(J\\~\x1b(B \x1b(I12\x1b(B"
    said, unsaid = page("iso-2022-jp", data), page("utf-8", data)
    assert isinstance(said, RawDocument)
    assert said.text == "川 and ¥‾ ｱｲ"
    assert isinstance(unsaid, RawDocument)
    assert "@n" in unsaid.text
    for wrong in (b"\x1b$B@", b"\x1b$B@n\nA", b"\x1b$B\x1b(B", b"\x1b(I\x7f"):
        broken = page("iso-2022-jp", wrong)
        assert isinstance(broken, Drop)
        assert broken.reason == DropReason.BAD_UTF8


CUTS = (1, 2, 3, 5, 64)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_a_declared_encoding_is_read_alike_however_the_stream_is_cut(name: str) -> None:
    digits, text = SAMPLES[name]
    line = bytes.fromhex(digits) + b" and ASCII\n"
    encoding = known_encoding(f"whatwg-{name}")
    assert known_encoding(encoding) == encoding
    wanted = (text + " and ASCII\n") * 7
    for cut in CUTS if FULL else CUTS[::2]:
        data = line * 7
        parts = [data[at : at + cut] for at in range(0, len(data), cut)]
        assert b"".join(transcoded(parts, encoding)).decode() == wanted


@pytest.mark.parametrize("name", ["windows-1252", "shift_jis", "big5", "euc-kr", "gb18030", "euc-jp"])
def test_a_byte_that_is_no_character_costs_its_record_alone(name: str) -> None:
    digits, text = SAMPLES[name]
    bad = {"windows-1252": b"", "shift_jis": b"\xa0", "euc-jp": b"\x80"}.get(name, b"\xff")
    data = bytes.fromhex(digits) + b"\n" + bad + b" x\n" + bytes.fromhex(digits) + b"\n"
    first, broken, last = b"".join(transcoded([data], f"whatwg-{name}")).splitlines()
    assert (first.decode(), last.decode()) == (text, text)
    if bad:
        with pytest.raises(UnicodeDecodeError):
            broken.decode()


def test_letters_of_a_label_are_ascii() -> None:
    assert web_encoding("KOI8-R") == "koi8-r"
    assert web_encoding("\u212aoi8-r") is None


def test_names_that_were_read_before_mean_what_they_meant() -> None:
    for name, known in (
        ("latin-1", "iso8859-1"),
        ("shift_jis", "shift_jis"),
        ("euc-jp", "euc_jp"),
        ("big5", "big5"),
        ("gbk", "gbk"),
        ("windows-1252", "cp1252"),
    ):
        assert known_encoding(name) == known
    assert known_encoding("ISO-2022-JP") == "whatwg-iso-2022-jp"
    assert known_encoding("Windows_31J") == "cp932"  # as Python 3.13 reads it
    assert known_encoding("x-sjis") == "whatwg-shift_jis"
    assert known_encoding("windows-874") == "whatwg-windows-874"
    for name in ("iso-2022-kr", "hz-gb-2312", "replacement", "x-nobody", "whatwg-x-nobody"):
        with pytest.raises(ValueError, match="is no encoding that is read"):
            known_encoding(name)


def write(place: Path) -> None:
    """Write the golden file from what another implementation said."""
    whole = json.loads(place.read_text("utf-8"))
    labels = {label: name for name, more in whole["labels"].items() for label in (name, *more)}
    tables: dict[str, dict[str, str]] = whole["characters"]
    samples = {name: sample_of(name, tables) for name in tables if name != "x-user-defined"}
    digests = {name: digest_of(table) for name, table in tables.items()}
    content = {"labels": labels, "samples": samples, "digests": digests}
    GOLDEN.write_text(json.dumps(content, indent=0, sort_keys=True) + "\n", "utf-8")


def sample_of(name: str, tables: dict[str, dict[str, str]]) -> tuple[str, str]:
    """Return bytes and their text that no other encoding reads so: characters of each difference."""
    own = tables[name]
    if name == STATEFUL:
        rare = [digits for digits, text in own.items() if text in "①㍻川船"]
        data = "1b2442" + "".join(rare) + "1b2842"
        return data, "".join(own[digits] for digits in rare)
    letters = {digits: text for digits, text in own.items() if text.isprintable() and text.strip()}
    chosen: list[str] = []
    for other, table in tables.items():
        different = [digits for digits, text in letters.items() if table.get(digits) != text]
        if other != name and different:
            chosen += [different[0], different[len(different) // 2], different[-1]]
    unique = list(dict.fromkeys(chosen))
    return "".join(unique), "".join(own[digits] for digits in unique)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
