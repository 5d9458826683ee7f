r"""Messages: the turns of a record, of one field, or of a prompt's and a completion's.

messages    [{"role": "user", ..}, ..]               its turns
messages    "[{\"role\": \"user\", ..}, ..]"         the same, from a string of JSON
prompt      [{"role": "user", ..}]                   its turns with weight 0, then those of
completion  [{"role": "assistant", ..}]              the other
"""

from collections.abc import Sequence

import orjson

from stages.chat.dialogue import ChatTurn, NoDialogueError, dialogue_of
from stages.reading.structure import cost_beyond

_BASE, _FACTOR = 16 << 20, 2
"""Bytes that parsing a string may take: so many, and so many for each byte of it. The most messages that
a dialogue has take half of the first."""


def turns_of(fields: Sequence[tuple[str, object]]) -> tuple[ChatTurn, ...]:
    """Return the turns of a record.

    Args:
        fields: names and values of those with its messages, that of the prompt before that of the
            completion. The turns of a prompt are never learned.

    Raises:
        NoDialogueError: one of them holds no dialogue; the message says which.
    """
    found: list[ChatTurn] = []
    for name, value in fields:
        try:
            turns = dialogue_of(messages_of(value))
        except NoDialogueError as error:
            raise NoDialogueError(f"{name!r}: {error}") from error
        found = [turn._replace(weight=0) for turn in found] + list(turns)
    return tuple(found)


def messages_of(value: object) -> list[object]:
    """Return the list of messages that a field holds, or a string of JSON in it.

    Raises:
        NoDialogueError: it holds something else.
    """
    if isinstance(value, str):
        value = _parsed(value)
    if not isinstance(value, list):
        kind = "null" if value is None else f"of type {type(value).__name__}"
        raise NoDialogueError(f"it is {kind}, not a list of messages")
    return value


def are_messages(value: object) -> bool:
    """Say whether a field may hold messages: it is a list, or a string that begins as one."""
    return isinstance(value, list) or (isinstance(value, str) and value.lstrip()[:1] == "[")


def _parsed(text: str) -> object:
    if not are_messages(text):
        raise NoDialogueError("it is a string, not a list of messages")
    data = text.encode()
    limit = _BASE + _FACTOR * len(data)
    if (cost := cost_beyond(limit, data)) is not None:
        raise NoDialogueError(f"it is JSON that could take {cost:,} bytes to parse, over {limit:,}")
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        why = f"{error.msg}, at character {error.pos:,}"
        raise NoDialogueError(f"it is a string that begins with '[' and is no JSON: {why}") from error
