"""Rendering: the template of a source, opened."""

from collections.abc import Collection
from functools import partial

from stages.chat.config import ChatConfig
from stages.chat.table import TEMPLATES
from stages.chat.template import Render


def open_template(config: ChatConfig) -> Render:
    """Return what writes the dialogues of a source.

    Raises:
        ConfigError: a Jinja template that is none, or that does not say what is learned.
    """
    named = TEMPLATES.get(config.template)
    if named is not None:
        return partial(named.render, learn=frozenset(config.learn))
    from stages.chat.jinja_file import JinjaTemplate  # noqa: PLC0415  # few sources need the library

    assert config.jinja is not None, "a file is read when the run is planned"
    return JinjaTemplate(config.jinja, config.eos_token).render


def marked_pieces(config: ChatConfig, known: Collection[str]) -> set[str]:
    """Return the pieces that markup of a template stands in, as far as a tokenizer knows them.

    Args:
        config: of the source.
        known: what the tokenizer sets apart from text.
    """
    named = TEMPLATES.get(config.template)
    if named is not None:
        return set(named.pieces) & set(known)
    source = f"{config.jinja or ''}{config.eos_token or ''}"
    return {piece for piece in known if piece and piece in source}
