"""Nested columns: a column inside of another, by a path with dots.

    {"meta": {"id": 7}, "a.b": 1, "a": {"b": 2}}      meta.id -> 7      a.b -> 1

A name may hold dots itself. Of the columns that a path may be, that with the longest name outside comes
first: one at the top level whose own name is the path, then what is inside of `a.b`, then of `a`. Lists
are not entered.
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
    for outside, inside in _cuts(column):
        value = record.get(outside)
        if isinstance(value, Mapping):
            found, inner = find_column(value, inside)
            if found:
                return True, inner
    return False, None


def _cuts(column: str) -> Iterator[tuple[str, str]]:
    """Yield a path cut at each of its dots: "a.b.c" -> ("a.b", "c"), ("a", "b.c")."""
    outside, dot, inside = column.rpartition(".")
    while dot:
        yield outside, inside
        outside, dot, last = outside.rpartition(".")
        inside = f"{last}.{inside}"


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
    return [fields[-1] for fields in _paths_of(schema, column)]


def _paths_of(fields: pa.Schema | pa.StructType, column: str) -> list[list[pa.Field]]:
    """Return the ways to what a path may be, each as its fields from the outside in."""
    found = [[fields.field(number)] for number in fields.get_all_field_indices(column)]
    for outside, inside in () if found else _cuts(column):
        for number in fields.get_all_field_indices(outside):
            field = fields.field(number)
            if pa.types.is_struct(field.type):
                found += [[field, *path] for path in _paths_of(field.type, inside)]
            elif pa.types.is_null(field.type):  # what is inside of nothing but nulls is null
                found.append([field])
        if found:
            break
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
    paths = _paths_of(schema, column)
    return str(paths[0][0].name) if paths else column


def read_path(schema: pa.Schema, column: str) -> str:
    """Return the path that a column is read by: its own, or that of what it is inside of and is null."""
    paths = _paths_of(schema, column)
    return ".".join(field.name for field in paths[0]) if paths else column


def column_of(batch: pa.RecordBatch, column: str) -> pa.Array:
    """Return a column of a batch; inside of a null there is null.

    Raises:
        pa.ArrowInvalid: the lengths of what it is inside of are damaged.
    """
    top, *inside = _paths_of(batch.schema, column)[0]
    found = batch.column(top.name)
    for field in inside:
        found.validate()
        found = found.flatten()[found.type.get_field_index(field.name)]
    return found
