"""Dialogues: the turns of a record, from the two ways in which records hold them.

[{"role": "user", "content": "Hi"}, ..]      user      Hi
[{"from": "human", "value": "Hi"}, ..]       user      Hi         (ShareGPT: human, gpt, system)

What a model thought before it answered is beside the content, as `reasoning_content`, `reasoning` or
`thinking`. A template gets it under the name that the record has, and under those that templates read.
"""

import re
from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import NamedTuple

MOST_TURNS = 16_384
"""Of a dialogue: each is an object of some hundred bytes, however short its content."""
_ROLE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_SHAREGPT = {"human": "user", "gpt": "assistant"}
_USUAL = ("messages", "conversations", "dialog", "chat")
"""Names that columns of dialogues have in most data sets."""
_CALLS = ("tool_calls", "function_call")
"""What a message may hold beside its content, and no template writes."""
REASONING = ("reasoning_content", "thinking", "reasoning")
"""Fields of a message that hold what a model thought, the first before the others."""
_UNREAD = ("loss", "train")
"""Fields by which other programs say whether a message is learned."""
BESIDE = "system"
"""A field of a record whose text other programs put before its messages."""
_SHOWN = 60


class ChatTurn(NamedTuple):
    """One message of a dialogue."""

    role: str
    content: str
    weight: int = 1
    """0 if it is never learned, whatever its role."""
    reasoning: tuple[tuple[str, str], ...] = ()
    """What was thought before it, by the field of the message: those of `REASONING` that it has."""
    unread: tuple[str, ...] = ()
    """Its fields that nothing reads: of whether it is learned, and whether there were thoughts."""

    @property
    def texts(self) -> tuple[str, ...]:
        """What was thought, and what was said."""
        return (*(text for _, text in self.reasoning), self.content)

    def for_template(self) -> dict[str, object]:
        """Return the message as templates get it: what was thought has the names that they read.

        Source: transformers 5.24, `utils/chat_template_utils.py`, `_alias_reasoning_fields`.
        """
        named = dict(self.reasoning)
        thought = next((named[key] for key in REASONING if key in named), None)
        if thought is None:
            return self.message()
        return {"thinking": thought, **self.message(), "reasoning_content": thought}

    def message(self) -> dict[str, object]:
        """Return the message as records have it."""
        own = {"role": self.role, "content": self.content, "weight": self.weight}
        return own | dict(self.reasoning)


TALK = (ChatTurn("user", "x"), ChatTurn("assistant", "y"))
TALKS = (TALK * 2, (ChatTurn("system", "z"), *TALK * 2))
"""With which is tried what a template does."""


class NoDialogueError(ValueError):
    """What a record holds is no dialogue; the message says which of its messages, and why."""


def is_role(name: str) -> bool:
    """Say whether a name can be that of a role: it holds no markup."""
    return _ROLE.fullmatch(name) is not None


def chat_setting(column: str) -> str:
    """Return what a source says so that a column is read as dialogues, for messages."""
    return f'chat = {{ column = "{column}", template = "chatml" }}'


def chat_hint(columns: Collection[str]) -> str:
    """Return how dialogues are read, if a column has the usual name of such; empty if none has."""
    found = next((name for name in _USUAL if name in columns), None)
    return f"; if {found!r} holds lists of messages, set {chat_setting(found)}" if found else ""


def dialogue_of(messages: list[object]) -> tuple[ChatTurn, ...]:
    """Return the turns that a list of messages holds.

    Raises:
        NoDialogueError: it is empty or too long, or one of the messages is none.
    """
    if not messages:
        raise NoDialogueError("it has no message")
    if len(messages) > MOST_TURNS:
        raise NoDialogueError(f"it has {len(messages):,} messages, over {MOST_TURNS:,}")
    return tuple(_turn(message, number) for number, message in enumerate(messages, 1))


def _turn(message: object, number: int) -> ChatTurn:
    if not isinstance(message, Mapping):
        raise NoDialogueError(f"message {number:,} is {_kind(message)}, not an object")
    if message.get("role") is None and message.get("from") is not None:
        role_key, content_key, names = "from", "value", _SHAREGPT
    else:
        role_key, content_key, names = "role", "content", {}
    role = message.get(role_key)
    if not isinstance(role, str):
        raise NoDialogueError(f"{role_key} of message {number:,} is {_kind(role)}, not a string")
    role = names.get(role, role)
    if not is_role(role):
        raise NoDialogueError(
            f"{role_key} of message {number:,} is {role[:_SHOWN]!r}; a role is a letter and up to 63"
            " letters, digits, '_' or '-'"
        )
    for key in _CALLS:
        if not _is_empty(message.get(key)):
            raise NoDialogueError(
                f"message {number:,} has {key}, which no template writes; write them into its"
                f" {content_key}, or empty {key}"
            )
    where = f"{content_key} of message {number:,} ({role})"
    reasoning = tuple(
        (key, _content(message[key], f"{key} of message {number:,} ({role})"))
        for key in REASONING
        if message.get(key) is not None and message[key] not in ([], {}) and not _is_switch(message[key])
    )
    unread = tuple(key for key in _UNREAD if message.get(key) is not None)
    unread += tuple(key for key in REASONING if _is_switch(message.get(key)) and message[key])
    content = _content(message.get(content_key), where)
    return ChatTurn(role, content, _weight(message, number), reasoning, unread)


def _is_switch(value: object) -> bool:
    """Say whether a field says that there were thoughts, or how many: no template gets these."""
    return isinstance(value, bool | int | float | Decimal)


def _is_empty(value: object) -> bool:
    """Say whether a value holds nothing; a table may hold an object whose fields are all null."""
    if isinstance(value, Mapping):
        return all(map(_is_empty, value.values()))
    return not value


def _weight(message: Mapping[str, object], number: int) -> int:
    """Return whether a message may be learned: 1, or 0."""
    weight = message.get("weight")
    if weight is None:
        return 1
    if isinstance(weight, int | float | Decimal) and weight in (0, 1):
        return int(weight)
    raise NoDialogueError(f"weight of message {number:,} is {str(weight)[:_SHOWN]}; it must be 0 or 1")


def _content(value: object, where: str) -> str:
    """Return the text of a message: a string, or parts of type "text", which are joined."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise NoDialogueError(f"{where} is {_kind(value)}, not a string")
    parts = []
    for number, part in enumerate(value, 1):
        kind = part.get("type") if isinstance(part, Mapping) else _kind(part)
        text = part.get("text") if isinstance(part, Mapping) and kind == "text" else None
        if not isinstance(text, str):
            said = f"of type {str(kind)[:_SHOWN]!r}" if isinstance(part, Mapping) and kind else "no text"
            raise NoDialogueError(
                f"{where} has parts, of which number {number:,} is {said}; parts of type 'text' alone"
                " are read: leave the others out, or write what they hold as text"
            )
        parts.append(text)
    return "".join(parts)


def _kind(value: object) -> str:
    return "absent" if value is None else f"of type {type(value).__name__}"
