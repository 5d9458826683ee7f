"""Chats and the tokenizer: which ids the markup of templates gives, and what does not fit together."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from pipeline.run_file.config import RunFile, Source
from stages.chat.rendering import marked_pieces, never_learns_end, spelled_pieces, writes_piece
from stages.chat.table import TEMPLATES
from stages.errors import ConfigError
from stages.tokenizer.framing import BEGIN
from stages.tokenizer.roles import Described, Roles

_SHOWN = 5


def with_markup(sources: Sequence[Source], found: Described, roles: Roles) -> Roles:
    """Return the roles with what the markup of templates stands in kept from text.

    A file may set a piece apart and yet find it in texts: then a message could close its own turn.

    Args:
        sources: of the run.
        found: what the tokenizer's file says.
        roles: its special ids.
    """
    taken = {*roles.ids.values(), found.declared.get("unk")}
    pieces = {piece for one in sources if one.chat for piece in marked_pieces(one.chat, found.marks)}
    numbers = sorted({found.marks[piece] for piece in pieces} - taken)
    if not numbers:
        return roles
    return replace(roles, ids=roles.ids | {f"reserved_{number}": number for number in numbers})


def chat_loss(
    file: RunFile, pieces: Collection[str], ids: Mapping[str, int], names: Mapping[int, str]
) -> str | None:
    """Say what of the templates does not fit the tokenizer or the framing, or None if nothing.

    Args:
        file: of the run.
        pieces: what the tokenizer sets apart from text.
        ids: its special ids by role.
        names: the pieces of these.

    Raises:
        ConfigError: a template writes the piece that the framing begins texts with.
    """
    chats = [source for source in file.sources if source.chat]
    begins = ids.get(BEGIN, ids.get(file.framing.row_begin or BEGIN))
    begin = None if begins is None else names[begins]
    for source in chats:
        _refuse_begun(source, begin)
    said = [text for source in chats for text in _losses(source, pieces, names[ids["eos"]], begin)]
    return "; ".join(said) or None


def _refuse_begun(source: Source, begin: str | None) -> None:
    assert source.chat is not None, "is asked of dialogues alone"
    if begin and writes_piece(source.chat, begin):
        raise ConfigError(
            f"sources.{source.name}.chat: the template writes {begin}, and the framing puts {begin}"
            " before texts already: write {{ bos_token }} in its place in the template, which is empty"
            " here, or remove framing.begin and framing.preset"
        )


def _losses(source: Source, pieces: Collection[str], eos: str, begin: str | None) -> Iterator[str]:
    chat = source.chat
    assert chat is not None, "is asked of dialogues alone"
    template, key = TEMPLATES.get(chat.template), f"sources.{source.name}.chat"
    absent = [piece for piece in spelled_pieces(chat) if piece not in pieces]
    if absent:
        yield (
            f"{key}: the tokenizer has no special piece {', '.join(absent[:_SHOWN])}, so this markup is"
            " encoded as text; set tokenizer.path to a tokenizer file that has it, or train a tokenizer"
            " with tokenizer.train.template_symbols = true"
        )
    closes = chat.eos_token if template is None else template.closes
    if closes is not None and eos != closes:
        yield (
            f"{key}: the template closes its last answer with {closes}, and the framing with {eos}; if"
            f" the model expects {closes}, set tokenizer.special.eos"
        )
    if closes is None and writes_piece(chat, eos):
        yield (
            f"{key}: {eos} closes turns, and the framing puts it behind every document once more; if it"
            f' also ends the text of a dialogue, set eos_token = "{eos}" in chat, which leaves the last'
            " one to the framing"
        )
    if never_learns_end(chat):
        yield (
            f"{key}: {{% endgeneration %}} comes before what closes a turn, so that a model never learns"
            " to stop; put the end of the turn into the block"
        )
    if template is not None and template.begins is not None and begin is None:
        yield (
            f"{key}: the template begins with {template.begins}, which is left to the framing, and that"
            ' puts nothing before documents; set framing.begin = "bos"'
        )
