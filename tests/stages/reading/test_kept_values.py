"""What the values that go along with documents promise: strings as they are, all else as JSON's text.

Whatever JSON holds comes back from its text, integers of any length with all their digits. What is over
the bounds is none, and said to be. Tables give the values that JSON lines give.
"""

import datetime as dt
import io
import json
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.errors import ConfigError, DataError
from stages.reading.arrow import ARROW
from stages.reading.columns_seen import ColumnsSeen
from stages.reading.jsonl import JSON_LINES, parse_line
from stages.reading.kept_values import DEEPEST, MOST_BYTES, KeptValues, kept_values
from stages.reading.lines import Line
from stages.reading.parquet import PARQUET
from stages.reading.records import FieldMapping, FieldsForFilters, RawDocument, Record

FIELDS = FieldMapping(keep_columns=("v", "meta.w"))
SHORT = st.text(st.characters(codec="utf-8"), max_size=20)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.integers(-(2**65), 2**65)
    | st.floats(allow_nan=False, allow_infinity=False)
    | SHORT
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(SHORT, inner, max_size=4)
)


def parse(record: dict[str, Any]) -> Record:
    """Return what a line of JSON gives."""
    data = json.dumps(record, ensure_ascii=False).encode()
    return JSON_LINES.open(FIELDS, 1 << 20).parse(Line(1, 7, data, len(data)), ColumnsSeen(FIELDS))


def kept_of(record: dict[str, Any]) -> KeptValues:
    """Return what goes along of a record."""
    found = parse({"text": "a text", **record})
    assert isinstance(found, RawDocument)
    return found.kept


def nested(levels: int) -> Any:
    """Return a list in a list, so many."""
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("", ""),
        ("7", "7"),
        ("null", "null"),
        (None, None),
        (7, "7"),
        (-0.0, "-0.0"),
        (0.1, "0.1"),
        (1e300, "1e+300"),
        (True, "true"),
        ([], "[]"),
        ({"a": [1, None, "é"], "b c": {"d": "\n"}}, '{"a":[1,null,"é"],"b c":{"d":"\\n"}}'),
        (10**30 + 1, "1000000000000000000000000000001"),
        (-(2**63) - 1, "-9223372036854775809"),
        (2**64, "18446744073709551616"),
        ({"n": [2**64 + 1]}, '{"n":[18446744073709551617]}'),
    ],
)
def test_a_string_is_itself_and_all_else_its_json_text(value: Any, text: str | None) -> None:
    assert kept_of({"v": value, "meta": {"w": 1}}) == KeptValues((text, "1"))


@given(VALUES, VALUES)
def test_what_json_holds_comes_back_from_its_text(value: Any, other: Any) -> None:
    kept = kept_of({"v": value, "meta": {"w": other}})
    for number, (one, text) in enumerate(zip((value, other), kept.texts, strict=True)):
        if number in kept.too_long:
            written = one if isinstance(one, str) else json.dumps(one, ensure_ascii=False)
            assert len(written.encode()) > MOST_BYTES
            assert text is None
        elif one is None:
            assert text is None
        elif isinstance(one, str):
            assert text == one
        else:
            assert text is not None
            assert repr(json.loads(text)) == repr(one)


@given(SCALARS)
def test_what_is_no_string_is_written_without_spaces(value: Any) -> None:
    assert kept_of({"v": [value, {"a": value}]}).texts[0] == json.dumps(
        [value, {"a": value}], ensure_ascii=False, separators=(",", ":")
    )


def test_what_is_absent_is_null() -> None:
    assert kept_of({}) == KeptValues((None, None))
    assert kept_of({"meta": {"other": 1}, "v": 1}) == KeptValues(("1", None))


@pytest.mark.parametrize(
    ("value", "stays"),
    [
        ("x" * MOST_BYTES, True),
        ("x" * (MOST_BYTES + 1), False),
        ("é" * (MOST_BYTES // 2), True),
        ("é" * (MOST_BYTES // 2 + 1), False),
        (["x" * (MOST_BYTES - 4)], True),
        (["x" * (MOST_BYTES - 3)], False),
        ([0] * (MOST_BYTES // 2 - 1), True),
        ([0] * (MOST_BYTES // 2), False),
        ([[0] * 20_000], False),
        (nested(DEEPEST), True),
        (nested(DEEPEST + 1), False),
        ({"a": nested(DEEPEST - 1)}, True),
        ({"a": nested(DEEPEST)}, False),
        (10**300, True),
        ([10**300] * 13, True),
        ([10**300] * 14, False),
    ],
)
def test_what_is_over_the_bounds_is_none_and_said_to_be(value: Any, *, stays: bool) -> None:
    kept = kept_of({"v": value, "meta": {"w": "beside"}})
    if stays:
        assert kept.too_long == ()
        assert kept.texts[0] == (value if isinstance(value, str) else json.dumps(value).replace(" ", ""))
    else:
        assert kept == KeptValues((None, "beside"), (0,))


def test_a_record_that_cannot_be_read_once_more_loses_that_value_alone() -> None:
    deep = "[" * 1_000 + "]" * 1_000  # more than Python's json reads
    for value, kept in (
        (2**64, KeptValues((None, "7"), (0,))),
        (2**63, KeptValues((str(2**63), "7"))),
    ):
        line = f'{{"text": "a text", "v": {value}, "meta": {{"w": 7}}, "other": {deep}}}'.encode()
        found = parse_line(Line(1, 0, line, len(line)), FIELDS)
        assert isinstance(found, RawDocument)
        assert found.kept == kept


ROWS: list[dict[str, Any]] = [
    {"v": "a", "meta": {"w": 0.5}},
    {"v": None, "meta": {"w": None}},
    {"v": "", "meta": None},
    {"v": "é" * 3000, "meta": {"w": 2.0}},
]


def write_parquet(table: pa.Table) -> io.BytesIO:
    """Return a table as Parquet."""
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=2)
    return io.BytesIO(file.getvalue())


def write_arrow(table: pa.Table) -> io.BytesIO:
    """Return a table as an Arrow file."""
    file = io.BytesIO()
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)
    return io.BytesIO(file.getvalue())


TABLES = {"parquet": (write_parquet, PARQUET), "arrow": (write_arrow, ARROW)}


def rows_of(name: str, table: pa.Table, fields: FieldMapping = FIELDS) -> list[Record]:
    """Return the records of a table in one of the formats."""
    write, reader = TABLES[name]
    file = write(table)
    slices, _ = reader.slices(file, fields, unit=1 << 20, name="a.table", key="sources.s")
    records = (reader.records(file, s, fields, max_bytes=99, name="a.table") for s in slices)
    return [record for part in records for record in part]


@pytest.mark.parametrize("name", TABLES)
def test_tables_give_what_json_lines_give(name: str) -> None:
    table = pa.Table.from_pylist([{"text": "a text", **row} for row in ROWS])
    found = [record.kept for record in rows_of(name, table) if isinstance(record, RawDocument)]
    assert found == [kept_of(row) for row in ROWS]
    assert [kept.too_long for kept in found] == [(), (), (), (0,)]


TYPED: list[tuple[pa.DataType, Any, str]] = [
    (pa.large_string(), "x", "x"),
    (pa.string_view(), "a longer text than a view holds", "a longer text than a view holds"),
    (pa.dictionary(pa.int8(), pa.string()), "x", "x"),
    (pa.dictionary(pa.int8(), pa.int64()), 7, "7"),
    (pa.bool_(), False, "false"),
    (pa.uint64(), 2**64 - 1, "18446744073709551615"),
    (pa.float32(), 0.5, "0.5"),
    (pa.float64(), float("nan"), "NaN"),
    (pa.list_(pa.string()), ["a", None], '["a",null]'),
    (pa.large_list(pa.int8()), [1], "[1]"),
    (pa.list_(pa.int8(), 2), [1, 2], "[1,2]"),
    (pa.struct([("a", pa.list_(pa.string())), ("b", pa.bool_())]), {"a": ["é"]}, '{"a":["é"],"b":null}'),
    (pa.map_(pa.string(), pa.int64()), [("k", 1)], '[["k",1]]'),
    (pa.date32(), 5, "1970-01-06"),
    (pa.timestamp("ns"), 1_234_567_890_123_456_789, "2009-02-13 23:31:30.123456789"),
    (pa.timestamp("ms", "America/New_York"), 5, "1970-01-01 00:00:00.005Z"),
    (pa.decimal128(10, 2), "1.10", "1.10"),
]


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(("kind", "value", "text"), TYPED, ids=[str(kind) for kind, _, _ in TYPED])
def test_columns_of_many_types_go_along(name: str, kind: pa.DataType, value: Any, text: str) -> None:
    if pa.types.is_decimal(kind):
        column = pa.array([value, None], pa.string()).cast(kind)
    else:
        column = pa.array([value, None], kind)
    table = pa.table({"text": ["a", "b"], "v": column})
    found = rows_of(name, table, FieldMapping(keep_columns=("v",)))
    assert [record.kept for record in found if isinstance(record, RawDocument)] == [
        KeptValues((text,)),
        KeptValues((None,)),
    ]


TIMES = [
    (pa.timestamp("ns"), 1_577_836_800_000_000_001, dt.datetime(2020, 1, 1)),  # noqa: DTZ001
    (pa.timestamp("ns", "UTC"), 1_577_836_800_000_001_999, dt.datetime(2020, 1, 1, 0, 0, 0, 1, dt.UTC)),
    (pa.timestamp("s"), 10**15, None),
    (pa.timestamp("us"), -(10**18), None),
    (pa.date32(), 2**31 - 1, None),
    (pa.date32(), 5, dt.date(1970, 1, 6)),
]


@pytest.mark.parametrize(("kind", "value", "given"), TIMES, ids=str)
def test_what_reads_a_column_beside_the_text_has_times_of_python(
    kind: pa.DataType, value: int, given: object
) -> None:
    numbers = pa.array([value, None], pa.int32() if pa.types.is_date32(kind) else pa.int64())
    table = pa.table({"text": ["a", "b"], "v": numbers.cast(kind)})
    found = rows_of(
        "parquet" if kind != pa.timestamp("s") else "arrow", table, FieldsForFilters(asked=("v",))
    )
    assert [one.values for one in found if isinstance(one, RawDocument)] == [(given,), (None,)]


OTHERS = [
    pa.binary(),
    pa.duration("s"),
    pa.list_(pa.timestamp("s")),
    pa.struct([("a", pa.binary())]),
    pa.struct([("a", pa.int8()), ("a", pa.int8())]),
    pa.map_(pa.string(), pa.binary()),
]


@pytest.mark.parametrize("kind", OTHERS, ids=str)
def test_a_column_that_json_has_no_text_for_is_refused(kind: pa.DataType) -> None:
    table = pa.table({"text": ["a"], "v": pa.nulls(1, kind)})
    with pytest.raises(ConfigError) as caught:
        rows_of("arrow", table, FieldMapping(keep_columns=("v",)))
    assert str(caught.value) == (
        f"sources.s.keep_columns = 'v': a.table holds {kind} there; it must hold strings, numbers,"
        " booleans, dates or times, or lists and structs of the first three"
    )


def test_values_of_bad_utf8_cost_one_document() -> None:
    bad = pa.array([b"\xff", b"a"], pa.binary()).view(pa.string())
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), bad)
    for column in (bad, lists):
        table = pa.table({"text": ["a", "b"], "v": column})
        dropped, found = rows_of("arrow", table, FieldMapping(keep_columns=("v",)))
        assert getattr(dropped, "reason", None) == "bad_utf8"
        assert isinstance(found, RawDocument)
        assert found.kept.texts[0] in ("a", '["a"]')


@pytest.mark.parametrize(
    "fields", [FieldMapping(keep_columns=("v",)), FieldsForFilters(asked=("v",))], ids=["kept", "asked"]
)
@pytest.mark.parametrize("nested_in_list", [False, True])
def test_a_damaged_column_is_refused_and_leads_nowhere(
    fields: FieldMapping, *, nested_in_list: bool
) -> None:
    values = pa.array(["hello", "there!", "you"])
    if nested_in_list:
        values = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), values)
    data = write_arrow(pa.table({"text": ["a", "b", "c"], "v": values})).getvalue()
    offsets, wild = (np.array(ends, "<i4").tobytes() for ends in ([0, 5, 11, 14], [0, 1 << 30, 11, 14]))
    assert data.count(offsets) == 1
    file = io.BytesIO(data.replace(offsets, wild))
    slices, _ = ARROW.slices(file, fields, unit=1 << 20, name="a.table", key="sources.s")
    with pytest.raises(DataError, match=r"a\.table: cannot be read as its ending says"):
        [*ARROW.records(file, slices[0], fields, max_bytes=99, name="a.table")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"keep_columns": [""]}, "keep_columns: '' names no field"),
        ({"keep_columns": ["a", "b", "a"]}, "keep_columns: 'a' stands twice"),
        ({"keep_columns": ["text"]}, "keep_columns: 'text' is a text of the document already"),
        (
            {"section_columns": ["b"], "keep_columns": ["b"]},
            "keep_columns: 'b' is a text of the document already",
        ),
        ({"keep_columns": [f"c{n}" for n in range(17)]}, "at most 16"),
    ],
)
def test_columns_that_cannot_go_along_are_refused(content: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FieldMapping.model_validate(content)


def test_nothing_is_looked_at_where_nothing_goes_along() -> None:
    data = orjson.dumps({"text": "t", "v": 1})
    fields = FieldMapping()
    found = JSON_LINES.open(fields, 99).parse(Line(1, 0, data, len(data)), ColumnsSeen(fields))
    assert isinstance(found, RawDocument)
    assert found.kept == kept_values([])
