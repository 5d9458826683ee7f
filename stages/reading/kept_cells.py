"""Kept cells: the columns of a table whose values go along with its documents.

JSON has a text for strings, numbers, booleans, and lists and structs of them; dates, times and decimals
go along as Arrow writes them, a time with a zone as that of UTC. Nothing else does.
"""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

KEPT_TYPES = "strings, numbers, booleans, dates or times, or lists and structs of the first three"
"""For messages."""
_SCALARS: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_null,
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
)
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_AS_STRINGS = (pa.types.is_date, pa.types.is_time, pa.types.is_timestamp, pa.types.is_decimal)
_DAY_OF = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}
_DAYS = -719_161, 2_932_895
"""Since 1970: from the second day of the year 1, and before the last one of 9999, in any zone."""
_BYTES = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}


def can_be_kept(kind: pa.DataType) -> bool:
    """Say whether the values of a column of this type may go along."""
    return pa.types.is_float16(kind) or _is(kind, _AS_STRINGS) or _is_json(kind)


def kept_column(column: pa.Array) -> pa.Array:
    """Return a column whose values are those of JSON; what is neither is a string.

    Raises:
        pa.ArrowInvalid: it leads out of its buffers.
    """
    column = checked_column(column)
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        column = column.cast(pa.timestamp(kind.unit, "UTC"))  # the same instants; no zone is looked up
    if pa.types.is_float16(kind):
        return column.cast(pa.float32())
    return column.cast(pa.string()) if _is(kind, _AS_STRINGS) else column


def checked_column(column: pa.Array) -> pa.Array:
    """Return a column that lies within its buffers, at all its levels; its strings may be no UTF-8.

    Raises:
        pa.ArrowInvalid: it does not.
    """
    column.validate()
    column.view(_as_bytes(column.type)).validate(full=True)
    return column


def python_times(column: pa.Array) -> pa.Array:
    """Return a column with times as Python holds them: microseconds, years 1 to 9999; others null."""
    kind = column.type
    if pa.types.is_date32(kind):
        numbers, per_day = column.cast(pa.int32()).cast(pa.int64()), 1
    elif pa.types.is_timestamp(kind):
        numbers, per_day = column.cast(pa.int64()), _DAY_OF[kind.unit]
    else:
        return column
    low, high = (max(day * per_day, -(1 << 63)) for day in _DAYS)
    inside = pc.and_(pc.greater_equal(numbers, low), pc.less(numbers, min(high, (1 << 63) - 1)))
    column = pc.if_else(inside, column, pa.scalar(None, kind))
    in_nanoseconds = pa.types.is_timestamp(kind) and kind.unit == "ns"
    return column.cast(pa.timestamp("us", kind.tz), safe=False) if in_nanoseconds else column


def _is(kind: pa.DataType, tests: tuple[Callable[[pa.DataType], bool], ...]) -> bool:
    return any(test(kind) for test in tests)


def _is_json(kind: pa.DataType) -> bool:
    """Say whether JSON has a text for each value of a type."""
    if pa.types.is_dictionary(kind):
        return _is(kind.value_type, _SCALARS)
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        return len(set(names)) == len(names) and all(_is_json(field.type) for field in kind)
    if pa.types.is_map(kind):
        return _is_json(kind.key_type) and _is_json(kind.item_type)
    return _is_json(kind.value_type) if _is(kind, _LISTS) else _is(kind, _SCALARS)


def _as_bytes(kind: pa.DataType) -> pa.DataType:
    """Return a type with bytes in the place of strings, at all its levels."""
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _as_bytes(kind.value_type), kind.ordered)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_as_bytes(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_as_bytes(kind.key_type), _as_bytes(kind.item_type))
    if _is(kind, _LISTS):
        value = _as_bytes(kind.value_type)
        size = kind.list_size if pa.types.is_fixed_size_list(kind) else -1
        return pa.large_list(value) if pa.types.is_large_list(kind) else pa.list_(value, size)
    return _BYTES.get(kind, kind)
