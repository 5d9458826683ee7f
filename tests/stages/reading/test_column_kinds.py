"""Which kinds of columns hold texts, ids, messages or what filters read; nulls alone always do."""

import pyarrow as pa
import pytest

from stages.errors import ConfigError
from stages.reading.cells import _check
from stages.reading.dialogue_cells import holds_messages
from stages.reading.fields import _beside
from stages.reading.kept_values import loaded
from stages.reading.lines import Line
from stages.reading.nested import find_fields
from stages.reading.records import FieldsForFilters

TURN = pa.struct([("role", pa.string()), ("content", pa.string())])
SAID = pa.struct([("from", pa.string()), ("value", pa.string()), ("weight", pa.float64())])


@pytest.mark.parametrize(
    ("kind", "holds"),
    [
        (pa.null(), True),
        (pa.string(), True),
        (pa.dictionary(pa.int32(), pa.large_string()), True),
        (pa.list_(TURN), True),
        (pa.large_list(SAID), True),
        (pa.list_(TURN, 2), True),
        (pa.list_(pa.null()), True),
        (pa.list_(pa.string()), False),
        (pa.list_(pa.struct([("role", pa.string())])), False),
        (pa.int64(), False),
        (TURN, False),
    ],
    ids=str,
)
def test_messages_are_lists_of_turns_or_json(kind: pa.DataType, holds: bool) -> None:  # noqa: FBT001
    assert holds_messages(kind) is holds


@pytest.mark.parametrize("column", ["m", "m.a", "m.a.b", "s.m.a.b"])
def test_what_is_inside_of_nothing_but_nulls_is_null(column: str) -> None:
    schema = pa.schema([("m", pa.null()), ("s", pa.struct([("m", pa.null())]))])
    (field,) = find_fields(schema, column)
    assert (field.name, field.type) == ("m", pa.null())
    assert find_fields(schema, "s.n.a") == []


@pytest.mark.parametrize("kind", [pa.null(), pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_a_column_of_strings_or_of_nulls_alone_is_taken(kind: pa.DataType) -> None:
    _check(pa.schema([("a", kind)]), "a", "x.parquet", "text_column", integers=False)


def test_integers_are_taken_where_they_may_be_and_other_kinds_nowhere() -> None:
    schema = pa.schema([("a", pa.int16()), ("b", pa.float32())])
    _check(schema, "a", "x.parquet", "id_column", integers=True)
    for column, integers in (("a", False), ("b", True)):
        with pytest.raises(ConfigError, match=f"'{column}': x.parquet holds .* there; it must hold str"):
            _check(schema, column, "x.parquet", "id_column", integers=integers)


def test_what_filters_read_of_a_number_that_cannot_be_written_is_none() -> None:
    data = b'{"text": "a", "n": %s, "m": 36893488147419103233, "s": 1e999}' % (b"9" * 4_301)
    record = loaded(data)
    assert isinstance(record, dict)
    fields = FieldsForFilters(asked=("n", "m"), compared=("s", "gone"))
    found = _beside(record, Line(1, 0, data, len(data)), fields)
    assert found == (None, 36893488147419103233, None, None)
