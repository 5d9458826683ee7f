"""Rendering: the template of a source, opened."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from stages.chat.config import ChatConfig
from stages.chat.dialogue import ChatTurn
from stages.chat.probing import known_markup, probed_markup, spelled_markup
from stages.chat.table import TEMPLATES
from stages.chat.template import LEARNED, ChatSection, RefusedError, Render

if TYPE_CHECKING:
    from stages.chat.jinja_file import JinjaTemplate


def open_template(config: ChatConfig) -> Render:
    """Return what writes the dialogues of a source.

    Raises:
        ConfigError: a Jinja template that is none, or that does not say what is learned.
    """
    named = TEMPLATES.get(config.template)
    if named is not None:
        return partial(named.render, learn=frozenset(config.learn))
    return _jinja(config).render


def open_left_out(config: ChatConfig) -> Callable[[Sequence[ChatTurn]], list[str]]:
    """Return what names the fields of a dialogue's reasoning that its template leaves out."""
    if config.template in TEMPLATES:  # they write contents alone
        return lambda turns: [name for turn in turns for name, text in turn.reasoning if text.strip()]
    return _jinja(config).left_out


def marked_pieces(config: ChatConfig, known: Collection[str]) -> set[str]:
    """Return the pieces that markup of a template stands in, as far as a tokenizer knows them.

    Args:
        config: of the source.
        known: what the tokenizer sets apart from text.
    """
    named = TEMPLATES.get(config.template)
    if named is not None:
        return set(named.pieces) & set(known)
    template = _jinja(config)
    found = {config.eos_token} & set(known) if config.eos_token else set()
    return found | known_markup(template.strings, template.render, known)


def spelled_pieces(config: ChatConfig) -> list[str]:
    """Return what markup of a template holds that a tokenizer should have as special pieces."""
    named = TEMPLATES.get(config.template)
    if named is not None:
        return list(named.pieces)
    found = spelled_markup(_jinja(config).render)
    return sorted(found | {config.eos_token} if config.eos_token else found)


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
        if one.flags == LEARNED
    ]
    return bool(behind) and not any(behind)


def writes_piece(config: ChatConfig, piece: str) -> bool:
    """Say whether a template writes a piece, as far as one can tell."""
    named = TEMPLATES.get(config.template)
    if named is not None:
        return piece in named.pieces
    template = _jinja(config)
    return any(piece in text for text in (*template.strings, *probed_markup(template.render)))


def _jinja(config: ChatConfig) -> "JinjaTemplate":
    from stages.chat.jinja_file import JinjaTemplate  # noqa: PLC0415  # few sources need the library

    assert config.jinja is not None, "a file is read when the run is planned"
    return JinjaTemplate(config.jinja, config.eos_token, config.date)
