"""Faults of what goes along of records: the values that lists of documents and the token store name."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.material.fault_copies import Copy, NoPlaceError
from tests.material.stored_faults import Plant

COLUMN = "record.url"
"""One that the source of every dataset keeps."""


def _in_list(change: Callable[[list[Any]], None]) -> Plant:
    """Change the values in a shard's list of documents."""
    return lambda copy: copy.change_documents(lambda table: _changed(table, change))


def _in_store(change: Callable[[list[Any]], None]) -> Plant:
    """Change the values in the token store, and make all anew from it."""

    def plant(copy: Copy) -> None:
        unit = copy.material.units[0]
        path = copy.root / unit.tokens / "documents.parquet"
        table = pq.read_table(path)
        changed = _changed(table, change)
        if changed.equals(table):
            raise NoPlaceError
        path.unlink()
        pq.write_table(changed, path)
        copy.units.add(unit.name)
        copy.remake()

    return plant


def _changed(table: pa.Table, change: Callable[[list[Any]], None]) -> pa.Table:
    place = table.schema.get_field_index(COLUMN)
    if place < 0:
        raise NoPlaceError
    values = table.column(place).to_pylist()
    change(values)
    return table.set_column(place, table.schema.field(place), pa.array(values, pa.string()))


def _other(values: list[Any]) -> None:
    number = _first(values)
    values[number] = f"{values[number]}/"


def _exchanged(values: list[Any]) -> None:
    first = _first(values)
    second = next((n for n, one in enumerate(values) if one not in (None, values[first])), None)
    if second is None:
        raise NoPlaceError
    values[first], values[second] = values[second], values[first]


def _null(values: list[Any]) -> None:
    values[_first(values)] = None


def _first(values: list[Any]) -> int:
    """Return the first document that has a value."""
    number = next((n for n, one in enumerate(values) if one is not None), None)
    if number is None:
        raise NoPlaceError
    return number


def _column_gone(table: pa.Table) -> pa.Table:
    return table.drop_columns([COLUMN])


def _column_more(table: pa.Table) -> pa.Table:
    return table.append_column("record.other", table.column(COLUMN))


OF_RECORDS: dict[str, Plant] = {
    "a value of a record replaced in the list": _in_list(_other),
    "values of two records exchanged in the list": _in_list(_exchanged),
    "a value of a record null in the list": _in_list(_null),
    "values of records not listed": lambda copy: copy.change_documents(_column_gone),
    "values of records listed that the run does not keep": lambda copy: copy.change_documents(
        _column_more
    ),
    "a value of a record replaced in the store and the list": _in_store(_other),
    "values of two records exchanged in the store and the list": _in_store(_exchanged),
}
"""What is planted into values that go along with documents."""
