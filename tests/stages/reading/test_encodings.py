"""What encodings promise: text is as Python decodes it, and a bad byte costs its record alone."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.columns import Drop, DropReason
from stages.reading.columns_seen import ColumnsSeen
from stages.reading.delimited import CSV
from stages.reading.encodings import foreign_encoding, known_encoding, transcoded
from stages.reading.faults import ContentError
from stages.reading.jsonl import JSON_LINES
from stages.reading.reader import StreamReader
from stages.reading.records import FieldMapping, RawDocument, Record
from stages.reading.text import PARAGRAPHS, WHOLE_TEXT

ENCODINGS = ["utf-8", "utf-16", "utf-16-be", "utf-32", "utf-32-le", "gb18030"]
SMALL = ["cp1252", "iso8859-1", "koi8-r", "shift_jis", "euc_jp", "big5", "mac-roman", "cp437"]
FIELDS = FieldMapping()
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40).filter(
    lambda text: not text.startswith("\0")  # behind a mark of UTF-16 it would be one of UTF-32
)


def chunked(data: bytes, size: int) -> list[bytes]:
    """Cut bytes into chunks."""
    return [data[start : start + size] for start in range(0, len(data), size)]


def read(reader: StreamReader, data: bytes, encoding: str, *, size: int = 1 << 20) -> list[Record]:
    """Return what a file in some encoding gives."""
    stream, columns = reader.open(FIELDS, 1 << 20), ColumnsSeen(FIELDS)
    chunks = transcoded(chunked(data, size), encoding)
    return [stream.parse(piece, columns) for piece in stream.lines(chunks)]


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(text=TEXTS, size=st.integers(1, 9))
def test_every_text_comes_through_in_chunks_of_any_size(encoding: str, text: str, size: int) -> None:
    data = text.encode(encoding)
    found = b"".join(transcoded(chunked(data, size), encoding)).decode()
    assert found.removeprefix("\ufeff") == text.removeprefix("\ufeff")


@pytest.mark.parametrize("encoding", SMALL)
@given(data=st.binary(max_size=40), size=st.integers(1, 9))
def test_whatever_bytes_come_good_ones_are_as_python_decodes_them(
    encoding: str, data: bytes, size: int
) -> None:
    found = b"".join(transcoded(chunked(data, size), encoding))
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        with pytest.raises(UnicodeDecodeError):
            found.decode()
    else:
        assert found == text.encode()


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-16-le", "cp1252", "utf-8"])
@pytest.mark.parametrize("size", [1, 5, 1 << 20])
def test_formats_are_read_in_the_encoding_of_their_source(encoding: str, size: int) -> None:
    lines = '{"text": "é"}\n{"text": "b"}\n'.encode(encoding)
    assert [
        r.text for r in read(JSON_LINES, lines, encoding, size=size) if isinstance(r, RawDocument)
    ] == [
        "é",
        "b",
    ]
    table = 'id,text\n1,"é\nb"\n'.encode(encoding)
    (row,) = read(CSV, table, encoding, size=size)
    assert isinstance(row, RawDocument)
    assert row.text == "é\nb"
    groups = read(PARAGRAPHS, "é\n\nb".encode(encoding), encoding, size=size)
    assert len(groups) == 2
    (text,) = read(WHOLE_TEXT, "é\nb".encode(encoding), encoding, size=size)
    assert isinstance(text, RawDocument)
    assert text.text.removeprefix("\ufeff") == "é\nb"


def test_a_bad_byte_costs_the_record_that_it_stands_in() -> None:
    data = b'{"text": "\xe9"}\n{"text": "\x81"}\n{"text": "c"}\n'
    first, bad, last = read(JSON_LINES, data, "cp1252")
    assert [first.position, bad.position, last.position] == [0, 15, 31]
    assert isinstance(bad, Drop)
    assert bad.reason is DropReason.BAD_UTF8
    assert isinstance(last, RawDocument)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "shift_jis"])
def test_a_file_that_is_cut_in_a_character_costs_its_last_record(encoding: str) -> None:
    data = '{"text": "a"}\n{"text": "あ"}'.encode(encoding)
    first, last = read(JSON_LINES, data[:-3] + data[-3:-2], encoding)
    assert isinstance(first, RawDocument)
    assert isinstance(last, Drop)


def test_a_lone_surrogate_of_utf_16_costs_its_record() -> None:
    data = '{"text": "\ud800"}\n{"text": "b"}'.encode("utf-16-le", "surrogatepass")
    bad, good = read(JSON_LINES, data, "utf-16-le")
    assert isinstance(bad, Drop)
    assert isinstance(good, RawDocument)


def test_utf_16_without_a_mark_needs_the_name_of_its_order() -> None:
    with pytest.raises(ContentError, match="has no byte order mark of utf-16; name utf-16-le or"):
        read(JSON_LINES, "text".encode("utf-16-le"), "utf-16")
    with pytest.raises(ContentError, match="has no byte order mark of utf-16"):
        read(JSON_LINES, "text".encode("utf-32"), "utf-16")
    assert read(JSON_LINES, b"", "utf-16") == []


def test_what_is_in_another_encoding_altogether_is_refused() -> None:
    with pytest.raises(ContentError, match="is no utf-32-le, after 0 bytes"):
        read(JSON_LINES, b"a plain text of ASCII", "utf-32-le")


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ("text".encode("utf-16"), "utf-16"),
        (codecs.BOM_UTF16_BE + b"\0t", "utf-16"),
        ("text".encode("utf-32"), "utf-32"),
        (codecs.BOM_UTF32_BE + b"\0\0\0t", "utf-32"),
        ("text".encode("utf-16-le"), "utf-16-le"),
        ("text".encode("utf-16-be"), "utf-16-be"),
        ("text".encode("utf-32-le"), "utf-32-le"),
        ("text".encode("utf-32-be"), "utf-32-be"),
        (b"\xef\xbb\xbftext and more", None),
        (b"text and more", None),
        (b"a\0b and a text of ASCII", None),
        (b"", None),
        (b"\0" * 64, None),
    ],
)
def test_utf_16_and_utf_32_are_told_apart(head: bytes, encoding: str | None) -> None:
    assert foreign_encoding(head) == encoding


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-16-le", "utf-32-be"])
def test_what_is_not_declared_is_named_with_the_key_to_set(encoding: str) -> None:
    kind = encoding[:6].upper()
    said = f"the file looks like {kind}; set encoding = {encoding!r} of its source"
    for reader, text in (
        (JSON_LINES, '{"text": "a"}'),
        (WHOLE_TEXT, "some text"),
        (PARAGRAPHS, "a text"),
    ):
        first = read(reader, text.encode(encoding), "utf-8")[0]
        assert isinstance(first, Drop)
        assert first.reason is DropReason.BAD_UTF8
        assert said in first.detail
    with pytest.raises(ContentError, match=f"looks like {kind}") as caught:
        read(CSV, "id,text\n1,a\n".encode(encoding), "utf-8")
    assert caught.value.setting == "encoding"


@pytest.mark.parametrize(
    ("name", "known"),
    [("UTF8", "utf-8"), ("utf-8-sig", "utf-8"), ("Windows-1252", "cp1252"), ("latin-1", "iso8859-1")],
)
def test_an_encoding_has_one_name(name: str, known: str) -> None:
    assert known_encoding(name) == known


@pytest.mark.parametrize(
    "name", ["", "utf-7", "rot13", "hz", "iso2022_jp", "idna", "none", "base64", "a\0"]
)
def test_an_encoding_that_is_not_read_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no encoding that is read"):
        known_encoding(name)
