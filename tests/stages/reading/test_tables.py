"""What Parquet and Arrow files promise.

Each row gives its document or a drop, at its number in the file; whatever the string type, the size of
row groups and the slices, they are the same; a file that is cut, damaged or lacks a column is refused
by name.
"""

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.columns import Drop, DropReason
from stages.errors import ConfigError, DataError
from stages.reading import arrow, parquet
from stages.reading.cells import wanted_columns
from stages.reading.records import UNDETERMINED, FieldMapping, LanguageColumn, RawDocument, Record
from stages.reading.slices import Slice

NAME, KEY = "corpus/a.table", "sources.web"
FULL = FieldMapping(text_column="body", id_column="key", language=LanguageColumn(column="lang"))
STRINGS = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int32(), pa.large_string()),
]


@dataclass(frozen=True)
class Kind:
    """One of the formats: how tests write it, and its reader."""

    write: Callable[[pa.Table, int], bytes]
    slices: Callable[..., tuple[list[Slice], int]]
    records: Callable[..., Iterator[Record]]


def write_parquet(table: pa.Table, rows: int) -> bytes:
    """Return a table as Parquet with row groups of some rows."""
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=rows)
    return file.getvalue()


def write_arrow(table: pa.Table, rows: int) -> bytes:
    """Return a table as an Arrow file with record batches of some rows."""
    file = io.BytesIO()
    with pa.ipc.new_file(file, table.schema) as writer:
        for batch in table.unify_dictionaries().to_batches(rows):
            writer.write_batch(batch)
    return file.getvalue()


def write_stream(table: pa.Table, rows: int) -> bytes:
    """Return a table as an Arrow stream with record batches of some rows."""
    file = io.BytesIO()
    with pa.ipc.new_stream(file, table.schema) as writer:
        for batch in table.unify_dictionaries().to_batches(rows):
            writer.write_batch(batch)
    return file.getvalue()


KINDS = {
    "parquet": Kind(write_parquet, parquet.parquet_slices, parquet.parquet_records),
    "arrow": Kind(write_arrow, arrow.arrow_slices, arrow.arrow_records),
    "stream": Kind(write_stream, arrow.arrow_slices, arrow.arrow_records),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Each of the formats."""
    return KINDS[request.param]


def read(
    kind: Kind, data: bytes, fields: FieldMapping = FULL, *, unit: int = 1 << 20, max_bytes: int = 99
) -> list[Record]:
    """Return all records of a file, slice by slice."""

    def open_file() -> BinaryIO:
        return io.BytesIO(data)

    slices, rows = kind.slices(open_file(), fields, unit=unit, name=NAME, key=KEY)
    found = [
        record
        for part in slices
        for record in kind.records(open_file(), part, fields, max_bytes=max_bytes, name=NAME)
    ]
    assert len(found) == rows
    return found


def bodies(texts: list[str | None], kind: pa.DataType = STRINGS[0]) -> pa.Table:
    """Return a table of texts alone."""
    return pa.table({"body": pa.array(texts, pa.string()).cast(kind)})


BODY = FieldMapping(text_column="body")


@pytest.mark.parametrize("string", STRINGS, ids=str)
@pytest.mark.parametrize("rows", [1, 2, 100])
def test_rows_give_documents_and_drops_whatever_the_type_of_string(
    string: pa.DataType, rows: int, kind: Kind
) -> None:
    texts = ["a", "é😀\n", None, "x" * 100, "", "a"]
    table = pa.table(
        {
            "other": [[n] for n in range(6)],
            "lang": pa.array(["no", None, "th", "", "no", "no"], pa.string()).cast(string),
            "body": pa.array(texts, pa.string()).cast(string),
            "key": pa.array(["k0", "k1", None, "k3", "k4", ""], pa.string()).cast(string),
        }
    )
    assert read(kind, kind.write(table, rows)) == [
        RawDocument(1, 0, "a", "k0", "no"),
        RawDocument(2, 1, "é😀\n", "k1", UNDETERMINED),
        Drop(3, 2, DropReason.MISSING_TEXT, "column 'body' is null"),
        Drop(4, 3, DropReason.TOO_LARGE, "100 bytes, over ingest.max_document_bytes"),
        RawDocument(5, 4, "", "k4", "no"),
        RawDocument(6, 5, "a", "", "no"),
    ]


def test_a_text_of_the_most_bytes_is_kept_and_one_more_is_not(kind: Kind) -> None:
    kept, dropped = read(kind, kind.write(bodies(["é" * 3, "é" * 3 + "a"]), 2), BODY, max_bytes=6)
    assert kept == RawDocument(1, 0, "é" * 3, None, UNDETERMINED)
    assert dropped == Drop(2, 1, DropReason.TOO_LARGE, "7 bytes, over ingest.max_document_bytes")


def test_a_column_that_is_taken_twice_is_asked_for_once() -> None:
    fields = FieldMapping(text_column="a", id_column="b", language=LanguageColumn(column="b"))
    assert wanted_columns(fields) == ["a", "b"]


@pytest.mark.parametrize("encoded", [False, True])
@pytest.mark.parametrize("integer", [pa.int8(), pa.uint64()], ids=str)
def test_an_id_may_be_an_integer(integer: pa.DataType, encoded: bool, kind: Kind) -> None:  # noqa: FBT001  # a parameter of the test
    keys = pa.array([7, None], integer)
    keys = keys.dictionary_encode() if encoded else keys
    table = pa.table({"body": ["a", "b"], "key": keys})
    fields = FieldMapping(text_column="body", id_column="key")
    found = read(kind, kind.write(table, 9), fields)
    assert [record.own_id for record in found if isinstance(record, RawDocument)] == ["7", None]


def test_bad_utf8_in_a_cell_costs_that_row_alone(kind: Kind) -> None:
    ends = np.array([0, 2, 4, 5], np.int32)
    buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(b"okb\xffk")]
    bad = pa.Array.from_buffers(pa.string(), 3, buffers)
    names = pa.array(["x", "y", "z"])
    for table, row in (
        (pa.table({"body": bad, "key": names, "lang": names}), 1),
        (pa.table({"body": names, "key": bad, "lang": names}), 1),
        (pa.table({"body": names, "key": names, "lang": bad}), 1),
    ):
        found = read(kind, kind.write(table, 9))
        drops = [record for record in found if isinstance(record, Drop)]
        assert drops == [
            Drop(row + 1, row, DropReason.BAD_UTF8, "byte 1 of the record, 0xff: invalid start byte")
        ]
        assert len(found) == 3


@pytest.mark.parametrize("unit", [1, 200, 1_000, 1 << 20])
@pytest.mark.parametrize("rows", [1, 7, 100])
def test_slices_of_any_size_give_every_row_once_in_order(unit: int, rows: int, kind: Kind) -> None:
    texts = [str(n) * (n % 13) for n in range(100)]
    found = read(kind, kind.write(bodies([*texts]), rows), BODY, unit=unit)
    expected = [RawDocument(n + 1, n, text, None, UNDETERMINED) for n, text in enumerate(texts)]
    assert found == expected


def test_small_units_make_many_slices(kind: Kind) -> None:
    data = kind.write(bodies(["some text"] * 100), 10)
    counts = [
        len(kind.slices(io.BytesIO(data), BODY, unit=unit, name=NAME, key=KEY)[0])
        for unit in (1, 1 << 20)
    ]
    assert counts == [10, 1]


def test_rows_are_read_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str | None] = ["text " * (n % 9) for n in range(500)]
    whole = read(KINDS["parquet"], write_parquet(bodies(texts), 500), BODY)
    monkeypatch.setattr(parquet, "BATCH_BYTES", 100)
    assert read(KINDS["parquet"], write_parquet(bodies(texts), 500), BODY) == whole
    assert len(whole) == 500


def test_a_file_without_rows_is_empty(kind: Kind) -> None:
    assert read(kind, kind.write(bodies([]), 9), BODY) == []
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, pa.schema([("body", pa.string())])) as writer:
        for texts in ([], ["a"], [], ["b"]):
            writer.write_table(bodies([*texts]))
    found = read(KINDS["parquet"], sink.getvalue(), BODY, unit=1)
    assert [(record.position, record.text) for record in found if isinstance(record, RawDocument)] == [
        (0, "a"),
        (1, "b"),
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            FieldMapping(),
            "'text': corpus/a.table has no such column; columns there: body, meta.body, n, half, a.b",
        ),
        (
            FieldMapping(text_column="meta.b"),
            "sources.web.text_column = 'meta.b': corpus/a.table has no",
        ),
        (FieldMapping(text_column="meta.body.x"), "'meta.body.x': corpus/a.table has no such column"),
        (
            FieldMapping(text_column="n"),
            "sources.web.text_column = 'n': corpus/a.table holds int64 there; it must hold strings",
        ),
        (FieldMapping(text_column="meta"), "struct<body: string> there; it must hold strings"),
        (
            FieldMapping(text_column="body", id_column="half"),
            "id_column = 'half': corpus/a.table holds double there; it must hold strings or integers",
        ),
        (FieldMapping(text_column="body", id_column="key"), "sources.web.id_column = 'key'"),
        (
            FieldMapping(text_column="body", language=LanguageColumn(column="n")),
            "sources.web.language.column = 'n': corpus/a.table holds int64",
        ),
    ],
)
def test_a_table_without_the_columns_that_its_source_takes_is_refused(
    fields: FieldMapping, message: str, kind: Kind
) -> None:
    table = pa.table(
        {"body": ["a"], "meta": [{"body": "b"}], "n": [1], "half": [0.5], "a.b": ["dotted"]}
    )
    data = kind.write(table, 9)
    with pytest.raises(ConfigError) as caught:
        kind.slices(io.BytesIO(data), fields, unit=9, name=NAME, key=KEY)
    assert message in str(caught.value)
    found = read(kind, data, FieldMapping(text_column="a.b"))
    assert found == [RawDocument(1, 0, "dotted", None, UNDETERMINED)]


def test_a_column_that_stands_twice_is_refused() -> None:
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["body", "body"])
    with pytest.raises(
        ConfigError, match=r"text_column = 'body': corpus/a.table has such a column twice"
    ):
        read(KINDS["arrow"], write_arrow(table, 9), BODY)


def test_a_file_cut_anywhere_is_refused_by_name(kind: Kind) -> None:
    data = kind.write(bodies(["some text", "more"] * 20), 10)
    refused = 0
    for length in range(0, len(data), 7):
        with pytest.raises(DataError, match=rf"{NAME}: "):
            read(kind, data[:length], BODY)
        refused += 1
    assert refused > 50


def test_a_damaged_file_is_refused_by_name_or_gives_rows(kind: Kind) -> None:
    data = kind.write(bodies([f"some text {n}" for n in range(40)], STRINGS[3]), 10)
    refused = 0
    for place in range(0, len(data), 5):
        damaged = bytearray(data)
        damaged[place] ^= 0xFF
        try:
            read(kind, bytes(damaged), BODY)
        except (DataError, ConfigError) as error:
            assert NAME in str(error)  # noqa: PT017  # each of a hundred
            refused += 1
    assert refused > 50


def test_a_stream_that_is_cut_between_two_batches_is_refused() -> None:
    data = write_stream(bodies(["some text", "more"] * 20), 10)
    borders = [place for place in range(len(data)) if data.startswith(b"\xff\xff\xff\xff", place)]
    assert len(borders) == 6
    for border in borders[1:]:
        with pytest.raises(DataError, match=r"a.table: has no mark of the stream's end after .* bytes"):
            read(KINDS["stream"], data[:border], BODY)
    with pytest.raises(DataError, match=r"a.table: goes on behind the end of its stream after"):
        read(KINDS["stream"], data + data, BODY)


SECTIONS = FieldMapping(text_column="body", section_columns=("target", "other"))


def test_sections_continue_the_text_and_count_as_one_document(kind: Kind) -> None:
    columns = {"other": ["c", "c", "x" * 60], "target": ["b", None, "y" * 40], "body": ["a", "a", "a"]}
    assert read(kind, kind.write(pa.table(columns), 2), SECTIONS) == [
        RawDocument(1, 0, "a", None, UNDETERMINED, ("b", "c")),
        Drop(2, 1, DropReason.MISSING_TEXT, "column 'target' is null"),
        Drop(3, 2, DropReason.TOO_LARGE, "101 bytes, over ingest.max_document_bytes"),
    ]


def test_a_section_that_is_not_there_is_refused_by_its_key(kind: Kind) -> None:
    data = kind.write(pa.table({"body": ["a"], "target": ["b"]}), 1)
    with pytest.raises(
        ConfigError, match=r"sources.web.section_columns = 'other': .* has no such column"
    ):
        read(kind, data, SECTIONS)


NESTED = FieldMapping(
    text_column="data.text", id_column="data.meta.id", language=LanguageColumn(column="meta.lang")
)


@pytest.mark.parametrize("string", STRINGS[:2], ids=str)
@pytest.mark.parametrize("rows", [1, 2, 100])
def test_columns_inside_of_others_are_read_and_nothing_is_inside_of_null(
    string: pa.DataType, rows: int, kind: Kind
) -> None:
    inner = pa.struct([("id", pa.int32()), ("other", pa.string())])
    data = [
        {"text": "a", "meta": {"id": 7, "other": "x" * 50}},
        {"text": None, "meta": None},
        None,
        {"text": "b", "meta": None},
        {"text": "c", "meta": {"id": None, "other": None}},
    ]
    table = pa.table(
        {
            "meta": pa.array([{"lang": "no"}, None, {"lang": "th"}, {"lang": None}, {"lang": "no"}]),
            "data": pa.array(data, pa.struct([("text", pa.string()), ("meta", inner)])).cast(
                pa.struct([("text", string), ("meta", inner)])
            ),
        }
    )
    assert read(kind, kind.write(table, rows), NESTED) == [
        RawDocument(1, 0, "a", "7", "no"),
        Drop(2, 1, DropReason.MISSING_TEXT, "column 'data.text' is null"),
        Drop(3, 2, DropReason.MISSING_TEXT, "column 'data.text' is null"),
        RawDocument(4, 3, "b", None, UNDETERMINED),
        RawDocument(5, 4, "c", None, "no"),
    ]


def test_a_column_whose_own_name_holds_dots_comes_first(kind: Kind) -> None:
    table = pa.table({"a": [{"b": "nested"}], "a.b": ["dotted"]})
    (found,) = read(kind, kind.write(table, 1), FieldMapping(text_column="a.b"))
    assert found == RawDocument(1, 0, "dotted", None, UNDETERMINED)


def test_a_column_inside_of_a_list_is_refused(kind: Kind) -> None:
    data = kind.write(pa.table({"body": ["a"], "l": [[{"x": "b"}]]}), 1)
    with pytest.raises(ConfigError, match=r"text_column = 'l.x': corpus/a.table has no such column"):
        read(kind, data, FieldMapping(text_column="l.x"))


def test_a_damaged_file_of_nested_columns_is_refused_by_name_or_gives_rows(kind: Kind) -> None:
    rows = [{"text": f"some text {n}", "meta": {"id": n}} for n in range(40)]
    data = kind.write(pa.table({"data": rows, "meta": [{"lang": "no"}] * 40}), 10)
    refused = 0
    for place in range(0, len(data), 5):
        damaged = bytearray(data)
        damaged[place] ^= 0xFF
        try:
            read(kind, bytes(damaged), NESTED)
        except (DataError, ConfigError) as error:
            assert NAME in str(error)  # noqa: PT017  # each of a hundred
            refused += 1
    assert refused > 50
