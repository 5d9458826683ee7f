"""Dialogue cells: lists of messages in the rows of Arrow record batches.

    list<struct<role: string, content: string>>    or from and value, or contents in lists of parts
    string                                         the same as JSON

Strings are taken as bytes and decoded message by message, so that bad UTF-8 costs one document.
"""

from collections.abc import Sequence

import pyarrow as pa

from stages.chat.dialogue import MOST_TURNS, ChatTurn, NoDialogueError
from stages.reading.messages import turns_of
from stages.reading.nested import column_of

_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_STRINGS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_NAMES = ({"role", "content"}, {"from", "value"})


def holds_messages(kind: pa.DataType) -> bool:
    """Say whether a column of a type may hold messages: lists, strings of JSON, or nulls alone."""
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    if any(test(value) for test in (pa.types.is_null, *_STRINGS)):
        return True
    if not any(test(kind) for test in _LISTS):
        return False
    if pa.types.is_null(kind.value_type):  # of lists that are all empty, or hold nulls
        return True
    if not pa.types.is_struct(kind.value_type):
        return False
    there = {field.name for field in kind.value_type}
    return any(names <= there for names in _NAMES)


def _checked(column: pa.Array) -> pa.Array:
    """Return a column of messages with strings as binary, checked to lie within its buffers."""
    column.validate()
    if pa.types.is_dictionary(column.type):
        column.validate(full=True)
        column = column.cast(column.type.value_type)
    binary = column.cast(_as_binary(column.type))
    binary.validate(full=True)
    return binary


class DialogueCells:
    """The dialogues of a record batch.

    Args:
        batch: of a table.
        names: of the columns with messages, that of a prompt before that of its completion.
    """

    def __init__(self, batch: pa.RecordBatch, names: Sequence[str]) -> None:
        self._columns = {name: _checked(column_of(batch, name)) for name in names}

    def size(self, row: int) -> int:
        """Return the bytes of a row."""
        return sum(column.slice(row, 1).nbytes for column in self._columns.values())

    def null(self, row: int) -> str | None:
        """Return the first column that is null in a row."""
        return next((name for name, one in self._columns.items() if not one[row].is_valid), None)

    def turns(self, row: int) -> tuple[ChatTurn, ...]:
        """Return the turns of a row.

        Raises:
            NoDialogueError: it holds no dialogue.
            UnicodeDecodeError: a string of it is no UTF-8.
        """
        return turns_of([(name, _value(name, one[row])) for name, one in self._columns.items()])


def _value(name: str, cell: pa.Scalar) -> object:
    if isinstance(cell, pa.BinaryScalar):
        return _decoded(cell.as_py())
    if len(cell.values) > MOST_TURNS:  # before they are Python objects
        raise NoDialogueError(f"{name!r}: it has {len(cell.values):,} messages, over {MOST_TURNS:,}")
    return [_decoded(message) for message in cell.values.to_pylist()]


def _as_binary(kind: pa.DataType) -> pa.DataType:
    """Return a type with binary in place of strings."""
    same = {
        pa.string(): pa.binary(),
        pa.large_string(): pa.large_binary(),
        pa.string_view(): pa.large_binary(),
    }
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_as_binary(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_as_binary(kind.value_type)))
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_as_binary(kind.value_type)))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_as_binary(kind.value_type)), kind.list_size)
    return same.get(kind, kind)


def _decoded(value: object) -> object:
    """Return a value of Arrow with its strings decoded."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, dict):
        return {name: _decoded(part) for name, part in value.items()}
    return [_decoded(part) for part in value] if isinstance(value, list) else value
