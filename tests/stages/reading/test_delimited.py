"""What reading CSV promises: the records that Python's csv module finds, each where it begins.

Records are found without parsing them, so that a quote that is never closed costs no memory; the module
is the oracle of that. Bytes are cut into chunks anywhere.
"""

import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.columns import Drop, DropReason
from stages.reading.columns_seen import ColumnsSeen
from stages.reading.delimited import CSV, TSV, HeaderError, delimited_records, whole_lines
from stages.reading.delimiters import Quoting
from stages.reading.faults import ContentError
from stages.reading.lines import Line
from stages.reading.reader import StreamReader
from stages.reading.records import FieldMapping, LanguageColumn, RawDocument, Record

FIELDS = FieldMapping(id_column="id", language=LanguageColumn(column="lang"))
CELLS = st.text(st.sampled_from('ab", \n\té"'), max_size=8)
BYTES = st.lists(st.sampled_from([b'"', b",", b"\n", b"a", b" "]), max_size=30).map(b"".join)


def chunked(data: bytes, size: int) -> list[bytes]:
    """Cut bytes into chunks."""
    return [data[start : start + size] for start in range(0, len(data), size)]


def read(data: bytes, *, size: int = 1 << 20, max_bytes: int = 1 << 20) -> list[Record]:
    """Return what a CSV file gives."""
    stream = CSV.open(FIELDS, max_bytes)
    columns = ColumnsSeen(FIELDS)
    return [stream.parse(piece, columns) for piece in stream.lines(chunked(data, size))]


def test_a_quoted_field_goes_over_delimiters_quotes_and_line_ends() -> None:
    data = b'id,text,lang\n1,"a ""b"", c\nd",en\n2,plain "quotes" stay,\n'
    assert read(data) == [
        RawDocument(2, 13, 'a "b", c\nd', "1", "en"),
        RawDocument(4, 33, 'plain "quotes" stay', "2", "und"),
    ]


def test_the_records_of_the_docstring() -> None:
    records = delimited_records([b'a,"b\nc"\r\nd,e\n'], delimiter=b",", max_bytes=100)
    assert list(records) == [Line(1, 0, b'a,"b\nc"', 7, 2), Line(3, 9, b"d,e", 3)]


def test_the_lines_of_the_docstring() -> None:
    lines = whole_lines([b'a,"b\r\nc"\n'], max_bytes=100)
    assert list(lines) == [Line(1, 0, b'a,"b', 4), Line(2, 6, b'c"', 2)]


@pytest.mark.parametrize(("size", "held"), [(3, b""), (4, b"abcd")])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_line_is_as_long_as_it_is_without_its_end(size: int, held: bytes, end: bytes) -> None:
    (line,) = whole_lines([b"abcd" + end], max_bytes=size)
    assert line.data == held
    assert line.size in (4, 4 + (not held))


@pytest.mark.parametrize("chunk", [1, 3, 100])
@pytest.mark.parametrize("record", [b"abcd", b'"b\n"', b"a,bc"])
def test_a_record_is_as_long_as_it_is_without_its_line_feed(record: bytes, chunk: int) -> None:
    data = record + b"\n" + record + b"\n" + record
    lines = 1 + record.count(b"\n")
    for max_bytes, held in ((4, record), (3, b"")):
        found = list(delimited_records(chunked(data, chunk), delimiter=b",", max_bytes=max_bytes))
        wanted = [Line(1 + n * lines, 5 * n, held, 4, lines) for n in range(3)]
        assert found == wanted


def test_tabs_delimit_a_tsv() -> None:
    stream = TSV.open(FieldMapping(), 1 << 20)
    (piece,) = stream.lines([b"text\tid\na, b\t1\n"])
    assert stream.parse(piece, ColumnsSeen(FieldMapping())) == RawDocument(2, 8, "a, b", None, "und")


@pytest.mark.parametrize("reader", [CSV, TSV])
@pytest.mark.parametrize("delimiter", [";", "|", "\t", "\x01"])
def test_a_source_may_declare_what_delimits_fields(reader: StreamReader, delimiter: str) -> None:
    fields = FieldMapping(id_column="id", delimiter=delimiter, quoting=Quoting.CSV)
    rows = ["id;text", '1;"a; b, c"', "2;plain, text", ";;"]
    stream = reader.open(fields, 1 << 20)
    data = "\n".join(rows).replace(";", delimiter).encode()
    found = [stream.parse(piece, ColumnsSeen(fields)) for piece in stream.lines(chunked(data, 3))]
    drop = found.pop()
    assert isinstance(drop, Drop)
    assert (drop.reason, drop.detail) == (DropReason.BAD_RECORD, "3 fields, and the header has 2")
    assert [one.text for one in found if isinstance(one, RawDocument)] == [
        f"a{delimiter} b, c",
        "plain, text",
    ]


@pytest.mark.parametrize("delimiter", ["", ";;", "a", "7", '"', "\n", "\0", " ", "¦"])
def test_what_cannot_delimit_fields_is_refused(delimiter: str) -> None:
    with pytest.raises(ValueError, match="must be one ASCII character that is no letter"):
        FieldMapping(delimiter=delimiter)


def test_a_header_with_another_delimiter_is_refused_with_the_setting_that_reads_it() -> None:
    with pytest.raises(
        HeaderError, match=r'delimited by ";", not by ","; set delimiter = ";"'
    ) as caught:
        read(b'id;text;"a, b"\n1;a;b\n')
    assert caught.value.way_out.startswith("correct delimiter or the file")


@pytest.mark.parametrize(("reader", "line"), [(TSV, b"\t\t"), (CSV, b",,")])
def test_a_line_of_delimiters_alone_is_a_record_of_empty_fields(
    reader: StreamReader, line: bytes
) -> None:
    stream, header = reader.open(FieldMapping(), 1 << 20), line.replace(line[:1], b"text" + line[:1], 1)
    lines = [header, b"a" + line, line, b" ", b"", b"b" + line]
    found = [stream.parse(one, ColumnsSeen(FieldMapping())) for one in stream.lines([b"\n".join(lines)])]
    assert [one.text for one in found if isinstance(one, RawDocument)] == ["a", "", "b"]


def test_a_byte_order_mark_is_no_part_of_the_first_name() -> None:
    assert read(b"\xef\xbb\xbfid,text,lang\r\n1,a,en\r\n") == [RawDocument(2, 17, "a", "1", "en")]


@pytest.mark.parametrize(
    ("row", "reason", "detail"),
    [
        (b"1,a", DropReason.BAD_RECORD, "2 fields, and the header has 3"),
        (b"1,a,en,x", DropReason.BAD_RECORD, "4 fields, and the header has 3"),
        (b"1,\xff,en", DropReason.BAD_UTF8, "byte 2 of the record, 0xff: invalid start byte"),
        (b'1,"a"b,en', DropReason.BAD_RECORD, "',' expected after '\"'"),
        (b"1,a\rb,en", DropReason.BAD_RECORD, "a carriage return outside of quotes"),
        (b"1," + b"a" * 99 + b",en", DropReason.TOO_LARGE, "104 bytes, over ingest.max_document_bytes"),
    ],
)
def test_what_is_no_record_is_a_drop_and_the_next_is_read(
    row: bytes, reason: DropReason, detail: str
) -> None:
    found, following = read(b"id,text,lang\n" + row + b"\n2,b,en\n", max_bytes=90)
    assert isinstance(found, Drop)
    assert (found.line, found.position, found.reason) == (2, 13, reason)
    assert detail in found.detail
    assert following == RawDocument(3, 14 + len(row), "b", "2", "en")


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (b"id,te\rxt,lang", "no header (a carriage return outside of quotes"),
        (b"text\r1\r2\r3", "no header (a carriage return outside of quotes"),
        (b"i" * 99, "has 99 bytes, over ingest.max_document_bytes"),
        (b"\xff", "no header ('utf-8' codec can't decode byte 0xff"),
        (b'"text,id', "no header (unexpected end of data; it takes 2 lines)"),
        (b'text,"id"x', "no header (',' expected after '\"')"),
        (b"id,Text", "no column 'text'; columns there: id, Text"),
        (b"1,a,en", "no column 'text'; columns there: 1, a, en"),
    ],
)
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_header_without_the_text_s_column_is_refused(header: bytes, said: str, size: int) -> None:
    for rest in (b"", b"\n1,a,en\n"):
        if header.startswith(b'"') and not rest:
            continue  # the same of one line
        with pytest.raises(HeaderError, match=re.escape(said)):
            read(header + rest, max_bytes=90, size=size)


@pytest.mark.parametrize("data", [b"", b"\n", b"id,text,lang\n", b"id,text,lang\n\n \r\n"])
def test_a_file_without_records_gives_none(data: bytes) -> None:
    assert read(data) == []


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_a_quote_that_is_never_closed_is_one_record_that_is_not_held(size: int) -> None:
    data = b'id,text,lang\n1,"' + b"a line\n" * 1000
    (found,) = read(data, size=size, max_bytes=100)
    assert isinstance(found, Drop)
    assert (found.position, found.reason) == (13, DropReason.TOO_LARGE)
    assert "7,003 bytes" in found.detail


def test_a_quote_that_is_left_open_is_no_document_with_what_follows_in_it() -> None:
    (found,) = read(b'id,text,lang\n1,"open to the end\n2,b,en\n')
    assert isinstance(found, Drop)
    assert (found.line, found.reason) == (2, DropReason.BAD_RECORD)
    assert found.detail == "unexpected end of data; it takes 2 lines"


def test_a_field_that_is_missing_everywhere_is_counted() -> None:
    stream, columns = CSV.open(FIELDS, 100), ColumnsSeen(FIELDS)
    pieces = list(stream.lines([b"text,id\na,1\nb,2\n"]))
    assert [type(stream.parse(piece, columns)) for piece in pieces] == [RawDocument, RawDocument]
    assert (columns.records, columns.absent["lang"], columns.there) == (2, 2, ["text", "id"])


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=6), st.integers(1, 40))
def test_every_table_that_the_csv_module_writes_is_read_as_it_was(
    rows: list[tuple[str, str, str]], size: int
) -> None:
    written = io.StringIO()
    csv.writer(written).writerows([("id", "text", "lang"), *rows])
    data = written.getvalue().encode()
    found = read(data, size=size)
    texts = [one.text for one in found if isinstance(one, RawDocument)]
    assert texts == [text for _, text, _ in rows]
    assert [one.position for one in found] == sorted({one.position for one in found})


@pytest.mark.parametrize("column", ["text", "id", "lang"])
def test_a_column_that_is_taken_and_stands_twice_is_refused(column: str) -> None:
    names = f"id,text,lang,{column},more,more".encode()
    with pytest.raises(ContentError, match=f"its header has column '{column}' 2 times; rename all but"):
        read(names + b"\n1,a,en,b,c,d\n")
    found = read(b"id,text,lang,more,more\n1,a,en,c,d\n")
    assert isinstance(found[0], RawDocument)


@given(BYTES, st.integers(1, 30))
def test_records_end_where_the_csv_module_ends_them(data: bytes, size: int) -> None:
    lines = (line.decode() for line in io.BytesIO(data))
    wanted = [row for row in csv.reader(lines) if any(row)]
    pieces = delimited_records(chunked(data, size), delimiter=b",", max_bytes=1 << 20)
    texts = [piece.data.decode() for piece in pieces]
    found = [row for text in texts for row in csv.reader([text]) if any(row)]
    assert found == wanted


@given(BYTES, st.integers(1, 30))
def test_records_cover_the_file_and_lie_where_they_say(data: bytes, size: int) -> None:
    pieces = list(delimited_records(chunked(data, size), delimiter=b",", max_bytes=1 << 20))
    end = 0
    for piece in pieces:
        assert piece.position == end
        assert data[piece.position : piece.position + piece.size] == piece.data
        assert piece.number == 1 + data[: piece.position].count(b"\n")
        end = piece.position + piece.size
        end += len(data[end:]) - len(data[end:].removeprefix(b"\r").removeprefix(b"\n"))
    assert end == len(data)
