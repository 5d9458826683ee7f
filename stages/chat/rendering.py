"""Rendering: the template of a source, opened."""

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

from stages.chat.config import ChatConfig
from stages.chat.dialogue import ChatTurn
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
from stages.chat.template import LEARNED, MARKUP, ChatSection, RefusedError, Render

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
    """Say whether a template learns contents, and of no turn what closes it."""
    if config.template in TEMPLATES:
        return False
    talk = [ChatTurn("user", "x"), ChatTurn("assistant", "y")] * 2
    try:
        sections = _jinja(config).render(talk)
    except RefusedError:
        return False
    behind = [
        after.flags & LEARNED
        for one, after in zip(sections, [*sections[1:], ChatSection("", LEARNED)], strict=True)
        if one.flags & LEARNED and not one.flags & MARKUP
    ]
    return bool(behind) and not any(behind)


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
