"""Streams in encodings of the web: cut anywhere they read alike, and a bad byte costs its line alone."""

import random
from itertools import pairwise

import pytest

from stages.reading.encodings import known_encoding, transcoded
from stages.reading.page_charset import decoded_page
from stages.reading.web_decoder import decoded_web
from tests.campaign import examples
from tests.laws.test_web_encodings import LABELS, SAMPLES, STATEFUL

NAMES = sorted(SAMPLES)
LONE = range(0xDC00, 0xDD00)


def stream(data: bytes, name: str, cuts: list[int]) -> str:
    """Return what a source in an encoding gives, cut at some places."""
    parts = [data[begin:end] for begin, end in pairwise([0, *sorted(cuts), len(data)])]
    return b"".join(transcoded(parts, f"whatwg-{name}")).decode("utf-8", "surrogatepass")


def characters(name: str) -> list[bytes]:
    """Return characters of an encoding, of each length that it has."""
    digits, _ = SAMPLES[name]
    data, found, at = bytes.fromhex(digits), [], 0
    if name == STATEFUL:
        pairs = [data[at : at + 2] for at in range(3, len(data) - 3, 2)]
        return [b"\x1b$B" + pair + b"\x1b(B " for pair in pairs] + [
            b"\x1b(I1\x1b(B ",
            b"\x1b(J\\\x1b(B ",
        ]
    while at < len(data):
        for length in (1, 2, 3, 4):
            try:
                decoded_web(data[at : at + length], name)
            except UnicodeDecodeError:
                continue
            found.append(data[at : at + length])
            at += length
            break
        else:
            raise AssertionError(f"{name}: no character at {at}")
    return found


def line(name: str, draw: random.Random, *, blanks: bool) -> bytes:
    """Return a line of characters of an encoding and of ASCII, sometimes with bytes of any kind."""
    known = characters(name)
    ascii_bytes = [b"a", b"}", b'"', b" "] if blanks else [b"a", b"}"]
    parts = [
        draw.choice(known if draw.random() < 0.7 else ascii_bytes) for _ in range(draw.randint(0, 9))
    ]
    if draw.random() < 0.3:
        bad = bytes(byte for byte in draw.randbytes(draw.randint(1, 3)) if byte not in b"\n\x1b")
        parts.insert(draw.randint(0, len(parts)), bad)
    return b"".join(parts)


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_gives_the_same_text_wherever_it_is_cut(name: str) -> None:
    for seed in range(examples(80)):
        draw = random.Random(seed)  # noqa: S311  # which lines, no secret
        data = b"\n".join(line(name, draw, blanks=bool(seed % 2)) for _ in range(draw.randint(1, 6)))
        whole = stream(data, name, [])
        every = list(range(1, len(data)))
        some = draw.sample(every, min(len(every), draw.randint(0, 6)))
        assert stream(data, name, every) == whole
        assert stream(data, name, some) == whole


@pytest.mark.parametrize("name", NAMES)
def test_each_line_is_read_as_if_it_were_alone_or_is_bad(name: str) -> None:
    good = 0
    for seed in range(examples(80)):
        draw = random.Random(f"{name} {seed}")  # noqa: S311  # which lines, no secret
        lines = [line(name, draw, blanks=True) for _ in range(draw.randint(1, 6))]
        found = stream(b"\n".join(lines), name, [7] if len(lines[0]) > 7 else []).split("\n")
        assert len(found) == len(lines)
        for data, text in zip(lines, found, strict=True):
            try:
                wanted = decoded_web(data, name)
            except UnicodeDecodeError:
                assert any(ord(character) in LONE for character in text), (data, text)
            else:
                good += 1
                assert text == wanted
    assert good


def test_a_long_stream_without_blanks_is_read_whole() -> None:
    for name, codec in (("gb18030", "gb18030"), ("shift_jis", "cp932"), ("euc-jp", "euc_jp")):
        draw = random.Random(name)  # noqa: S311  # which text, no secret
        text = "".join(draw.choice("川船a東、b") for _ in range(150_000))
        data = text.encode(codec)
        assert stream(data, name, list(range(1, len(data), 65_536))) == text


def test_every_label_is_an_encoding_of_a_source_that_reads_its_text() -> None:
    """Those that Python knows keep Python's table, which reads the text of its own codec."""
    texts = {"utf-8": "川 é", "utf-16le": "川 é", "utf-16be": "川 é", "x-user-defined": "a\uf7e9"}
    read = 0
    for label, name in LABELS.items():
        if name == "replacement":
            with pytest.raises(ValueError, match="is no encoding that is read"):
                known_encoding(label)
            continue
        encoding = known_encoding(label)
        if encoding in ("utf-16", "utf-32"):
            continue  # which need their mark
        if not encoding.startswith("whatwg-"):
            text = texts.get(name, "ab")
            data = text.encode(encoding)
        elif name in texts:
            data, text = b"a\xe9", texts[name]
        else:
            data, text = bytes.fromhex(SAMPLES[name][0]), SAMPLES[name][1]
        parts = [data[at : at + 1] for at in range(len(data))]
        assert b"".join(transcoded(parts, encoding)).decode() == text, label
        read += 1
    assert read > 200


def test_an_ascii_byte_behind_a_bad_one_is_a_character() -> None:
    assert stream(b"\x81[a", "euc-kr", []) == "\udc81[a"


def test_a_state_that_is_left_open_is_said_of_each_of_its_lines() -> None:
    data = b"\x1b$B@n\nabcd\n\x1b(Bok\n\x1b$B@n\x1b(B\n"
    first, second, third, last, _ = stream(data, STATEFUL, []).split("\n")
    assert [any(ord(one) in LONE for one in text) for text in (first, second, third)] == [
        True,
        True,
        False,
    ]
    assert (third, last) == ("ok", "川")


def test_a_page_with_bytes_that_are_not_in_the_encoding_of_its_source_is_not_read_by_its_label() -> None:
    page = "<meta charset=windows-1252><p>déjà ".encode("cp1252") + b"\x81"
    for encoding in ("cp1252", "shift_jis", "whatwg-shift_jis"):
        coded = b"".join(transcoded([page], known_encoding(encoding)))
        with pytest.raises(ValueError, match="no characters of its encoding"):
            decoded_page(coded)
