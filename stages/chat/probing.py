"""Probing: which special pieces the markup of a Jinja template holds, found by small made-up dialogues.

A template may write a piece as it is, `<|user|>`, or put it together, `'<|' + message.role + '|>'`.
So its strings are searched, and so is the markup of small dialogues between all roles there may be.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import chain

from stages.chat.dialogue import ChatTurn, is_role
from stages.chat.template import MARKUP, RefusedError, Render

_USUAL = (
    "user",
    "assistant",
    "system",
    "tool",
    "function",
    "developer",
    "ipython",
    "environment",
    "model",
)
_ENDS = (*"<[{(", *">]})", "\uff5c", "|", "#", "@", "$")
_SPELLED = re.compile(r"<[|\uff5c][^|\uff5c<>\s]+[|\uff5c]>")
"""What nobody writes but to name a special piece."""
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


def known_markup(strings: Iterable[str], render: Render, known: Collection[str]) -> set[str]:
    """Return the known pieces that a template writes.

    A piece counts if it is enclosed, as `<|user|>` and `[INST]` are. Line feeds, spaces, words and signs
    stay what they are in texts, though a tokenizer may set them apart and a template writes them.

    Args:
        strings: of its source.
        render: writes a dialogue with it.
        known: what the tokenizer sets apart from text.
    """
    enclosed = {piece for piece in known if _is_enclosed(piece)}
    roles = {word for piece in enclosed for word in _WORD.findall(piece) if is_role(word)}
    texts = "\0".join({*strings, *probed_markup(render, roles)})
    return {piece for piece in enclosed if piece in texts}


def spelled_markup(render: Render) -> set[str]:
    """Return what stands in the markup as special pieces are written: <|user|>, ..."""
    return {piece for text in probed_markup(render) for piece in _SPELLED.findall(text)}


def probed_markup(render: Render, roles: Collection[str] = ()) -> Iterator[str]:
    """Yield the markup of dialogues between the usual roles and those that are given."""
    for dialogue in _dialogues(roles):
        try:
            sections = render(dialogue)
        except RefusedError:  # it has no place for such a role
            continue
        yield from (section.text for section in sections if section.flags & MARKUP)


def _is_enclosed(piece: str) -> bool:
    """Say whether a piece stands in brackets or such signs, with a letter or digit between."""
    return piece[:1] in _ENDS and piece[-1:] in _ENDS and any(map(str.isalnum, piece))


def _dialogues(roles: Collection[str]) -> Iterator[list[ChatTurn]]:
    talk = [ChatTurn("user", "x"), ChatTurn("assistant", "y")]
    yield talk * 2
    yield [ChatTurn("system", "z"), *talk, *talk]
    for role in chain(_USUAL, sorted(set(roles) - set(_USUAL))):
        yield [ChatTurn(role, "z"), *talk]
        yield [*talk, ChatTurn(role, "z"), *talk]
