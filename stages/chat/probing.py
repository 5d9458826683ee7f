"""Probing: which special pieces the markup of a Jinja template holds, found by small made-up dialogues.

A template may write a piece as it is, `<|user|>`, or put it together, `'<|' + message.role + '|>'`.
So its strings are searched, and so is the markup of dialogues: between the usual roles, between those
that it compares with, and of roles that pieces are named after. What it puts together in other dialogues
nobody can know; so there every piece that begins so counts as one.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice, permutations

from stages.chat.dialogue import ChatTurn, is_role
from stages.chat.template import MARKUP, ChatSection, RefusedError, Render, merged

_TALK = ("user", "assistant")
_OTHERS = ("system", "tool", "function", "developer", "ipython", "model", "human", "bot")
_MOST_OWN, _MOST_NAMES = 8, 256
"""Roles that a template compares with, and those that pieces are named after; most have a few."""
_ASKED, _ANSWERED, _OTHER = "x", "y", "z"
"""Contents: of a user or a system, of an assistant, of all others."""
_ENDS = (*"<[{(", *">]})", "\uff5c", "|", "#", "@", "$")
_SPELLED = re.compile(r"<[|\uff5c][^|\uff5c<>\s]+[|\uff5c]>")
"""What nobody writes but to name a special piece."""
_BEGUN = re.compile(r"<[|\uff5c][^|\uff5c<>\s]*$")
"""The beginning of such a piece, whose end is put behind it."""


Rendered = Sequence[Sequence[ChatSection]]
"""Dialogues as a template writes them."""


def probed(render: Render, own: Iterable[str] = (), pieces: Iterable[str] = ()) -> Rendered:
    """Return the dialogues that a template writes, of those that are tried.

    Args:
        render: writes a dialogue with it.
        own: roles that it compares with.
        pieces: that roles may be named after.
    """
    found = []
    for dialogue in _dialogues([*islice(own, _MOST_OWN)], [*islice(_named(pieces), _MOST_NAMES)]):
        try:
            found.append(render(dialogue))
        except RefusedError:  # it has no place for such a dialogue
            continue
    return found


def markup_of(rendered: Rendered) -> Iterator[str]:
    """Yield the markup of dialogues."""
    return (one.text for sections in rendered for one in sections if one.flags & MARKUP)


def known_markup(strings: Iterable[str], rendered: Rendered, known: Collection[str]) -> set[str]:
    """Return the known pieces that a template writes as they are, as far as one can tell.

    A piece counts if it is enclosed, as `<|user|>` and `[INST]` are. Line feeds, spaces, words and signs
    stay what they are in texts, though a tokenizer may set them apart and a template writes them.

    Args:
        strings: of its source.
        rendered: dialogues.
        known: what the tokenizer sets apart from text.
    """
    texts = "\0".join({*strings, *markup_of(rendered)})
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


def turn_pieces(rendered: Rendered, known: Collection[str]) -> set[str]:
    """Return those of some pieces by which a template opens or closes turns; all if it writes no turn.

    The first piece behind a content closes its turn; those before the content of a user or a system
    message open it. Before an answer, and around what other roles say, pieces in pairs such as <think>
    and </think> are of the content, but for a pair that holds a question or an answer between them.

    Args:
        rendered: dialogues.
        known: pieces of its markup.
    """
    longest_first = sorted(known, key=lambda one: (-len(one), one))
    pattern = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
    pairs = {piece for piece in known if partner_of(piece) in known}
    found: set[str] = set()
    for dialogue in rendered:
        sections = merged(one._replace(flags=one.flags & MARKUP) for one in dialogue)
        contents = [one.text.strip() for one in sections[1:]]
        pieces = [pattern.findall(one.text) if one.flags else [] for one in sections]
        for place, (section, before) in enumerate(zip(sections, [*contents, ""], strict=True)):
            if section.flags:
                found.update(_turns_in(pieces[place], pairs, behind=place > 0, before=before))
            elif section.text.strip() in (_ASKED, _ANSWERED) and 0 < place < len(sections) - 1:
                around = {*_still_open(pieces[place - 1])[-1:], *pieces[place + 1][:1]}
                found |= around if {*map(partner_of, around)} == around else set()
    found |= {partner_of(piece) for piece in found} & {*known}
    return found if rendered else {*known}


def _still_open(pieces: Iterable[str]) -> list[str]:
    """Return pieces without the pairs that are closed among them."""
    found: list[str] = []
    for piece in pieces:
        if found and piece[1:2] == "/" and partner_of(piece) == found[-1]:
            found.pop()
        else:
            found.append(piece)
    return found


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
    found = set()
    for dialogue in _talks():
        try:
            found |= {
                piece for text in markup_of([render(dialogue)]) for piece in _SPELLED.findall(text)
            }
        except RefusedError:
            continue
    return found


def _dialogues(own: Sequence[str], named: Sequence[str]) -> Iterator[list[ChatTurn]]:
    """Yield dialogues: of a user and an assistant, then with others beside them and in their places."""
    yield from _talks()
    talk = [ChatTurn(role, text) for role, text in zip(_TALK, (_ASKED, _ANSWERED), strict=True)]
    for role in [one for one in dict.fromkeys((*_OTHERS, *own, *named)) if one not in _TALK]:
        turn = ChatTurn(role, _ASKED if role == _OTHERS[0] else _OTHER)
        yield from ([turn, *talk], [turn, *talk, *talk], [*talk, turn, *talk])
        yield from ([talk[0], turn], [turn, talk[1]])
    yield [ChatTurn("human", _ASKED), ChatTurn("bot", _ANSWERED)]
    for pair in permutations(own, 2):
        turns = [ChatTurn(role, _OTHER) for role in pair]
        yield from (turns, turns * 2)


def _talks() -> Iterator[list[ChatTurn]]:
    talk = [ChatTurn(role, text) for role, text in zip(_TALK, (_ASKED, _ANSWERED), strict=True)]
    yield from (talk, talk * 2, talk * 2 + talk[:1])
    yield [*talk, *(turn._replace(weight=0) for turn in talk)]


def _named(pieces: Iterable[str]) -> Iterator[str]:
    """Yield the roles that pieces may be named after, "[CRITIC]" -> "CRITIC", "critic"."""
    for piece in sorted(pieces):
        inner = piece.strip("".join((*_ENDS, "/")))
        if _is_enclosed(piece) and is_role(inner) and not any(map(str.isdecimal, inner)):
            yield from dict.fromkeys((inner, inner.lower()))


def _is_enclosed(piece: str) -> bool:
    """Say whether a piece stands in brackets or such signs, with a letter or digit between."""
    return piece[:1] in _ENDS and piece[-1:] in _ENDS and any(map(str.isalnum, piece))
