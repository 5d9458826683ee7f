"""Nested columns: a column inside of another, by a path with dots.

    {"meta": {"id": 7}, "a.b": 1, "a": {"b": 2}}      meta.id -> 7      a.b -> 1

A column at the top level whose own name holds the dots comes first. Lists are not entered.
"""

from collections.abc import Iterator, Mapping

import pyarrow as pa

_DEEPEST = 8
"""Levels that are looked into for names to tell."""


def find_column(record: Mapping[str, object], column: str) -> tuple[bool, object]:
    """Return whether a record has a column, and what it holds.

    ({"meta": {"id": 7}}, "meta.id") -> True, 7; ({"meta": None}, "meta.id") -> False, None
    """
    if column in record or "." not in column:
        return column in record, record.get(column)
    value: object = record
    for name in column.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return False, None
        value = value[name]
    return True, value


def column_names(record: Mapping[str, object], before: str = "") -> Iterator[str]:
    """Yield the columns of a record, in objects those inside: {"a": 1, "m": {"b": 2}} -> a, m.b."""
    for name, value in record.items():
        path = f"{before}{name}"
        if isinstance(value, Mapping) and value and path.count(".") < _DEEPEST:
            yield from column_names(value, f"{path}.")
        else:
            yield path


def find_fields(schema: pa.Schema, column: str) -> list[pa.Field]:
    """Return the fields of a table that a column may be: one, or none, or several of the same name."""
    found = [schema.field(number) for number in schema.get_all_field_indices(column)]
    if found or "." not in column:
        return found
    first, *rest = column.split(".")
    found = [schema.field(number) for number in schema.get_all_field_indices(first)]
    for name in rest:
        kinds = [field.type for field in found if pa.types.is_struct(field.type)]
        found = [kind.field(n) for kind in kinds for n in kind.get_all_field_indices(name)]
    return found


def field_names(fields: pa.Schema | pa.StructType, before: str = "") -> Iterator[str]:
    """Yield the columns of a table, in structs those inside."""
    for field in fields:
        path = f"{before}{field.name}"
        if pa.types.is_struct(field.type) and len(field.type) and path.count(".") < _DEEPEST:
            yield from field_names(field.type, f"{path}.")
        else:
            yield path


def top_column(schema: pa.Schema, column: str) -> str:
    """Return the column at the top level that a column is, or is inside of."""
    return column if column in schema.names else column.partition(".")[0]


def column_of(batch: pa.RecordBatch, column: str) -> pa.Array:
    """Return a column of a batch; inside of a null there is null.

    Raises:
        pa.ArrowInvalid: the lengths of what it is inside of are damaged.
    """
    top = top_column(batch.schema, column)
    found = batch.column(top)
    for name in column.removeprefix(top).split(".")[1:]:
        found.validate()
        found = found.flatten()[found.type.get_field_index(name)]
    return found
