"""Dialogue cells: lists of messages in the rows of Arrow record batches.

    list<struct<role: string, content: string>>    or from and value, or contents in lists of parts

Strings are taken as bytes and decoded message by message, so that bad UTF-8 costs one document.
"""

import pyarrow as pa

from stages.chat.dialogue import MOST_TURNS, ChatTurn, NoDialogueError, dialogue_of

_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_NAMES = ({"role", "content"}, {"from", "value"})


def holds_messages(kind: pa.DataType) -> bool:
    """Say whether a type is that of lists of messages; one of nulls alone may be."""
    if pa.types.is_null(kind):
        return True
    if not any(test(kind) for test in _LISTS):
        return False
    if pa.types.is_null(kind.value_type):  # of lists that are all empty, or hold nulls
        return True
    if not pa.types.is_struct(kind.value_type):
        return False
    there = {field.name for field in kind.value_type}
    return any(names <= there for names in _NAMES)


def checked_messages(column: pa.Array) -> pa.Array:
    """Return a column of messages with strings as binary, checked to lie within its buffers."""
    column.validate()
    binary = column.cast(_as_binary(column.type))
    binary.validate(full=True)
    return binary


def turns_at(column: pa.Array, row: int) -> tuple[ChatTurn, ...] | None:
    """Return the turns of a row, or None if it is null.

    Raises:
        NoDialogueError: it holds no dialogue.
        UnicodeDecodeError: a string of it is no UTF-8.
    """
    cell = column[row]
    if not cell.is_valid:
        return None
    if len(cell.values) > MOST_TURNS:  # before they are Python objects
        raise NoDialogueError(f"it has {len(cell.values):,} messages, over {MOST_TURNS:,}")
    return dialogue_of([_decoded(message) for message in cell.values.to_pylist()])


def _as_binary(kind: pa.DataType) -> pa.DataType:
    """Return a type with binary in place of strings."""
    same = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
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
