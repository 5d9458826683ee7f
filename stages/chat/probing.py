"""Probing: which special pieces the markup of a Jinja template holds, found by small made-up dialogues.

A template may write a piece as it is, `<|user|>`, or put it together, `'<|' + message.role + '|>'`.
So its strings are searched, and so is the markup of dialogues between the usual roles. What it puts
together in other dialogues nobody can know; so there every piece that begins so counts as one.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from stages.chat.dialogue import ChatTurn
from stages.chat.template import MARKUP, RefusedError, Render, merged

_TALK = ("user", "assistant")
_OTHERS = ("system", "tool", "function", "developer", "ipython", "model", "human", "bot")
_ASKED, _ANSWERED, _OTHER = "x", "y", "z"
"""Contents: of a user or a system, of an assistant, of all others."""
_ENDS = (*"<[{(", *">]})", "\uff5c", "|", "#", "@", "$")
_SPELLED = re.compile(r"<[|\uff5c][^|\uff5c<>\s]+[|\uff5c]>")
"""What nobody writes but to name a special piece."""
_BEGUN = re.compile(r"<[|\uff5c][^|\uff5c<>\s]*$")
"""The beginning of such a piece, whose end is put behind it."""


def known_markup(strings: Iterable[str], render: Render, known: Collection[str]) -> set[str]:
    """Return the known pieces that a template writes as they are, as far as one can tell.

    A piece counts if it is enclosed, as `<|user|>` and `[INST]` are. Line feeds, spaces, words and signs
    stay what they are in texts, though a tokenizer may set them apart and a template writes them.

    Args:
        strings: of its source.
        render: writes a dialogue with it.
        known: what the tokenizer sets apart from text.
    """
    texts = "\0".join({*strings, *probed_markup(render)})
    return {piece for piece in known if _is_enclosed(piece) and piece in texts}


def built_markup(strings: Iterable[str], known: Collection[str]) -> set[str]:
    """Return the known pieces that a template may put together: '<|' + message.role + '|>'.

    Those are named after roles or turns. Which of them it writes in some dialogue nobody can know.

    Args:
        strings: of its source.
        known: what the tokenizer sets apart from text.
    """
    begins = tuple(found.group() for text in {*strings} if (found := _BEGUN.search(text)))
    return {piece for piece in known if piece.startswith(begins) and _SPELLED.fullmatch(piece)}


def turn_pieces(render: Render, known: Collection[str]) -> set[str]:
    """Return those of some pieces by which a template opens or closes turns.

    They are found in dialogues between the usual roles. The first piece behind a content closes its
    turn; those before the content of a user or a system message open it. Before an answer, and around
    what other roles say, pieces in pairs such as <think> and </think> are of the content.

    Args:
        render: writes a dialogue with it.
        known: pieces of its markup.
    """
    longest_first = sorted(known, key=lambda one: (-len(one), one))
    pattern = re.compile("|".join(map(re.escape, longest_first)) or "$^")
    pairs = {piece for piece in known if partner_of(piece) in known}
    found: set[str] = set()
    for dialogue in _between(_OTHERS):
        try:
            sections = merged(one._replace(flags=one.flags & MARKUP) for one in render(dialogue))
        except RefusedError:
            continue
        contents = [one.text.strip() for one in sections[1:]]
        for place, (section, before) in enumerate(zip(sections, [*contents, ""], strict=True)):
            if section.flags:
                pieces = pattern.findall(section.text)
                found.update(_turns_in(pieces, pairs, behind=place > 0, before=before))
    return found | {partner_of(piece) for piece in found} & {*known}


def _turns_in(pieces: list[str], pairs: Collection[str], *, behind: bool, before: str) -> Iterator[str]:
    """Yield the pieces of some markup that close the turn that it is behind, or open the one before it.

    Args:
        pieces: of the markup, as they stand there.
        pairs: those that have a partner.
        behind: whether a content is before the markup.
        before: the content behind it, if there is one.
    """
    if behind and pieces:
        closes = next((piece for piece in pieces if piece not in pairs), pieces[0])
        yield closes
        pieces = pieces[pieces.index(closes) + 1 :]
    if before:
        yield from (piece for piece in pieces if before == _ASKED or piece not in pairs)


def partner_of(piece: str) -> str:
    """Return the other of a pair: <think> and </think>, [INST] and [/INST]."""
    if piece[1:2] == "/":
        return piece[:1] + piece[2:]
    return f"{piece[:1]}/{piece[1:]}"


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
    talk = [ChatTurn(role, text) for role, text in zip(_TALK, (_ASKED, _ANSWERED), strict=True)]
    yield from (talk, talk * 2, talk * 2 + talk[:1])
    yield [*talk, *(turn._replace(weight=0) for turn in talk)]
    for role in others:
        turn = ChatTurn(role, _ASKED if role == _OTHERS[0] else _OTHER)
        yield from ([turn, *talk], [turn, *talk, *talk], [*talk, turn, *talk])
        yield from ([talk[0], turn], [turn, talk[1]])
    if others:
        yield [ChatTurn("human", _ASKED), ChatTurn("bot", _ANSWERED)]


def _is_enclosed(piece: str) -> bool:
    """Say whether a piece stands in brackets or such signs, with a letter or digit between."""
    return piece[:1] in _ENDS and piece[-1:] in _ENDS and any(map(str.isalnum, piece))
