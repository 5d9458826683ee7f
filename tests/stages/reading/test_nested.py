"""What nested columns promise: a name that a message lists can be named, in JSON and in tables."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.reading.columns_seen import ColumnsSeen
from stages.reading.nested import (
    column_names,
    column_of,
    field_names,
    find_column,
    find_fields,
    top_column,
)
from stages.reading.records import FieldMapping

NAMES = st.text(st.sampled_from("ab."), min_size=1, max_size=3)
RECORDS = st.recursive(
    st.dictionaries(NAMES, st.integers(0, 9), min_size=1, max_size=3),
    lambda inner: st.dictionaries(NAMES, inner | st.integers(0, 9), min_size=1, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("record", "column", "found"),
    [
        ({"a.b": {"text": "t"}}, "a.b.text", "t"),
        ({"a": {"b.text": "t"}}, "a.b.text", "t"),
        ({"a": {"b": {"text": "t"}}}, "a.b.text", "t"),
        ({"a.b": {"x": 1}, "a": {"b.text": "t"}}, "a.b.text", "t"),
        ({"a.b": {"text": "outer"}, "a": {"b": {"text": "t"}}}, "a.b.text", "outer"),
        ({"a.b.text": "top", "a.b": {"text": "t"}}, "a.b.text", "top"),
    ],
)
def test_the_longest_name_outside_comes_first(record: dict[str, Any], column: str, found: str) -> None:
    assert find_column(record, column) == (True, found)
    batch = pa.RecordBatch.from_pylist([record])
    assert len(find_fields(batch.schema, column)) == 1
    assert column_of(batch, column).to_pylist() == [found]
    assert top_column(batch.schema, column) in record


@given(RECORDS)
def test_each_column_that_is_listed_is_found(record: dict[str, Any]) -> None:
    listed = list(column_names(record))
    assert listed
    assert all(find_column(record, name)[0] for name in listed)
    batch = pa.RecordBatch.from_pylist([record])
    for name in field_names(batch.schema):
        assert find_fields(batch.schema, name)
        assert column_of(batch, name).to_pylist() == [find_column(record, name)[1]]


def test_a_column_that_is_nowhere_is_not_found() -> None:
    record = {"a.b": {"text": "t"}, "a": {"b": 7}}
    for column in ("a.text", "a.b.c", "b", "a.b.text.x", "."):
        assert find_column(record, column) == (False, None)
        assert find_fields(pa.RecordBatch.from_pylist([record]).schema, column) == []


def test_a_name_is_listed_once() -> None:
    columns = ColumnsSeen(FieldMapping())
    columns.add({"a.b": 1, "a": {"b": 2}})
    assert columns.there == ["a.b"]
