"""Rendering: the template of a source, opened."""

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

from stages.chat.config import ChatConfig
from stages.chat.dialogue import TALK, TALKS, ChatTurn
from stages.chat.probing import (
    Rendered,
    built_markup,
    known_markup,
    markup_of,
    probed,
    spelled_markup,
    turn_pieces,
)
from stages.chat.table import TEMPLATES
from stages.chat.template import LEARNED, MARKUP, SPOKEN, ChatSection, RefusedError, Render

if TYPE_CHECKING:
    from stages.chat.jinja_file import JinjaTemplate

JINJA_VERSION = 2
"""Raised when dialogues are written in another way by the same template."""


def open_template(config: ChatConfig) -> Render:
    """Return what writes the dialogues of a source.

    Raises:
        ConfigError: a Jinja template that is none, or that does not say what is learned.
    """
    named = TEMPLATES.get(config.template)
    if named is not None:
        return partial(named.render, learn=frozenset(config.learn))
    return _jinja(config).render


def template_version(config: ChatConfig) -> int:
    """Return the version of what writes a source's dialogues, which enters its fingerprint from 2 on."""
    named = TEMPLATES.get(config.template)
    return JINJA_VERSION if named is None else named.version


def open_left_out(config: ChatConfig) -> Callable[[Sequence[ChatTurn]], list[str]]:
    """Return what names the fields of a dialogue's reasoning that its template leaves out."""
    if config.template in TEMPLATES:  # they write contents alone
        return lambda turns: [name for turn in turns for name, text in turn.reasoning if text.strip()]
    return _jinja(config).left_out


class MarkedPieces(NamedTuple):
    """What markup of a template stands in."""

    turns: set[str]
    """By which it opens or closes turns; of a named template all."""
    others: set[str]
    """What else a Jinja template names."""


def marked_pieces(config: ChatConfig, known: Collection[str]) -> MarkedPieces:
    """Return the pieces that markup of a template stands in, as far as a tokenizer knows them.

    Args:
        config: of the source.
        known: what the tokenizer sets apart from text.
    """
    named = TEMPLATES.get(config.template)
    if named is not None:
        return MarkedPieces(set(named.pieces) & set(known), set())
    template = _jinja(config)
    turns = {piece for piece in (config.bos_token, config.eos_token) if piece and piece in known}
    rendered = _probed(config, frozenset(known))
    found = known_markup(template.strings, rendered, known)
    turns |= built_markup(template.strings, known) | turn_pieces(rendered, found)
    return MarkedPieces(turns, found - turns)


def spelled_pieces(config: ChatConfig) -> list[str]:
    """Return what markup of a template holds that a tokenizer should have as special pieces."""
    named = TEMPLATES.get(config.template)
    if named is not None:
        return list(named.pieces)
    found = spelled_markup(_jinja(config).render)
    return sorted(found.union(filter(None, (config.bos_token, config.eos_token))))


def begins_with(config: ChatConfig) -> str | None:
    """Return the `bos_token` of a Jinja template if it begins a text and so is left to the framing."""
    template = _jinja(config)
    if config.bos_token is None or not template.is_begun:
        return None
    return config.bos_token


def never_learns_end(config: ChatConfig) -> bool:
    """Say whether a template learns contents, and of no turn what closes it, as far as one can tell."""
    if config.template in TEMPLATES:
        return False
    rendered = _probed(config, frozenset())
    learned = [one for one in rendered if any(part.flags & ~SPOKEN == LEARNED for part in one)]
    return bool(learned) and not any(map(_learns_end, learned))


def _learns_end(sections: Sequence[ChatSection]) -> bool:
    """Say whether of a dialogue what closes some turn is learned; what framing puts behind it always is.

    White space that is learned closes no turn if other markup behind it closes the last one.
    """
    closings: list[tuple[str, str]] = []
    """Markup behind each content that is learned: what of it is learned, and the rest."""
    behind = False
    for part in sections:
        if not part.flags & MARKUP:
            behind = bool(part.flags & LEARNED)
            closings += [("", "")] * behind
        elif behind:
            learned, rest = closings[-1]
            own = part.flags & LEARNED
            closings[-1] = (learned + part.text, rest) if own else (learned, rest + part.text)
    learned, rest = closings[-1]
    if behind and not learned + rest:
        return True
    if behind and rest.strip() and not learned.strip():
        return any(own.strip() for own, _ in closings)
    return any(own for own, _ in closings)


def closing_of(config: ChatConfig, piece: str) -> str | None:
    """Return the white space behind a piece with which a template ends a talk of user and assistant.

    None: no talk ends so.
    """
    named = TEMPLATES.get(config.template)
    for talk in (TALK, *TALKS):
        try:
            text = _jinja(config).text_of(talk) if named is None else _joined(named.render(talk, ()))
        except RefusedError:
            continue
        body = text.rstrip()
        return text[len(body) :] if body.endswith(piece) else None
    return None


def _joined(sections: Sequence[ChatSection]) -> str:
    return "".join(one.text for one in sections)


def writes_piece(config: ChatConfig, piece: str) -> bool:
    """Say whether a template writes a piece, as far as one can tell."""
    named = TEMPLATES.get(config.template)
    if named is not None:
        return piece in named.pieces
    template = _jinja(config)
    texts = (*template.strings, *markup_of(_probed(config, frozenset((piece,)))))
    return any(piece in text for text in texts)


@lru_cache(8)
def _probed(config: ChatConfig, pieces: frozenset[str]) -> Rendered:
    """Return dialogues as a Jinja template writes them, with roles that pieces may be named after."""
    template = _jinja(config)
    return probed(template.render, template.roles, pieces)


def _jinja(config: ChatConfig) -> "JinjaTemplate":
    from stages.chat.jinja_file import JinjaTemplate  # noqa: PLC0415  # few sources need the library

    assert config.jinja is not None, "a file is read when the run is planned"
    return JinjaTemplate(config.jinja, config.eos_token, config.date, bos_token=config.bos_token)
