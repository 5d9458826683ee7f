"""Probing: which special pieces the markup of a Jinja template holds, found by small made-up dialogues.

A template may write a piece as it is, `<|user|>`, or put it together, `'<|' + message.role + '|>'`.
So its strings are searched, and so is the markup of dialogues between the usual roles. What it writes in
other dialogues nobody can know; so every piece of the form `<|..|>` counts as one that it writes.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from stages.chat.dialogue import ChatTurn
from stages.chat.template import MARKUP, RefusedError, Render

_TALK = ("user", "assistant")
_OTHERS = ("system", "tool", "function", "developer", "ipython", "model", "human", "bot")
_ENDS = (*"<[{(", *">]})", "\uff5c", "|", "#", "@", "$")
_SPELLED = re.compile(r"<[|\uff5c][^|\uff5c<>\s]+[|\uff5c]>")
"""What nobody writes but to name a special piece."""


def known_markup(strings: Iterable[str], render: Render, known: Collection[str]) -> set[str]:
    """Return the known pieces that a template may write.

    A piece counts if it is enclosed, as `<|user|>` and `[INST]` are. Line feeds, spaces, words and signs
    stay what they are in texts, though a tokenizer may set them apart and a template writes them.

    Args:
        strings: of its source.
        render: writes a dialogue with it.
        known: what the tokenizer sets apart from text.
    """
    texts = "\0".join({*strings, *probed_markup(render)})
    return {
        piece for piece in known if _SPELLED.fullmatch(piece) or (_is_enclosed(piece) and piece in texts)
    }


def spelled_markup(render: Render) -> set[str]:
    """Return what a talk of user and assistant holds of the form of special pieces: <|user|>, ..."""
    return {piece for text in _markup(render, _between([])) for piece in _SPELLED.findall(text)}


def probed_markup(render: Render) -> Iterator[str]:
    """Yield the markup of dialogues between the usual roles."""
    return _markup(render, _between(_OTHERS))


def _markup(render: Render, dialogues: Iterable[list[ChatTurn]]) -> Iterator[str]:
    for dialogue in dialogues:
        try:
            sections = render(dialogue)
        except RefusedError:  # it has no place for such a dialogue
            continue
        yield from (section.text for section in sections if section.flags & MARKUP)


def _between(others: Sequence[str]) -> Iterator[list[ChatTurn]]:
    """Yield dialogues: of a user and an assistant, then with others beside them and in their places."""
    talk = [ChatTurn(role, "x") for role in _TALK]
    yield from (talk, talk * 2, talk * 2 + talk[:1])
    yield [*talk, *(turn._replace(weight=0) for turn in talk)]
    for role in others:
        turn = ChatTurn(role, "z")
        yield from ([turn, *talk], [turn, *talk, *talk], [*talk, turn, *talk])
        yield from ([talk[0], turn], [turn, talk[1]])
    if others:
        yield [ChatTurn("human", "x"), ChatTurn("bot", "y")]


def _is_enclosed(piece: str) -> bool:
    """Say whether a piece stands in brackets or such signs, with a letter or digit between."""
    return piece[:1] in _ENDS and piece[-1:] in _ENDS and any(map(str.isalnum, piece))
