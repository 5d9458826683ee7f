"""Chats and the tokenizer: which ids the markup of templates gives, and what does not fit together."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from pipeline.run_file.config import RunFile, Source
from stages.chat.rendering import marked_pieces
from stages.chat.table import TEMPLATES
from stages.errors import ConfigError
from stages.tokenizer.framing import BEGIN
from stages.tokenizer.roles import Described, Roles

_SHOWN = 5
_IN_ITS_PLACE = "write {{ bos_token }} in its place, which is empty"


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
    return Roles(roles.ids | {f"reserved_{number}": number for number in numbers}, roles.unsure)


def refuse_begun_markup(file: RunFile, ids: Mapping[str, int], names: Mapping[int, str]) -> None:
    """Refuse a template that writes the piece which begins rows: it would stand in the middle of them.

    Args:
        file: the run, whose templates are read.
        ids: the special ids of its tokenizer by role.
        names: the pieces of these.

    Raises:
        ConfigError: there is one.
    """
    number = ids.get(file.framing.row_begin or "")
    begins = [] if number is None else [names[number]]
    for source in file.sources:
        for begin in () if source.chat is None else marked_pieces(source.chat, begins):
            raise ConfigError(
                f"sources.{source.name}.chat: the template writes {begin}, which framing.per = 'row'"
                f" puts before each row and nowhere else; {_IN_ITS_PLACE}, or leave framing.per out"
            )


def chat_loss(
    sources: Sequence[Source], pieces: Collection[str], ids: Mapping[str, int], names: Mapping[int, str]
) -> str | None:
    """Say what of the templates does not fit the tokenizer or the framing, or None if nothing.

    Args:
        sources: of the run.
        pieces: what the tokenizer sets apart from text.
        ids: its special ids by role.
        names: the pieces of these.
    """
    said = [text for source in sources if source.chat for text in _losses(source, pieces, ids, names)]
    return "; ".join(said) or None


def _losses(
    source: Source, pieces: Collection[str], ids: Mapping[str, int], names: Mapping[int, str]
) -> Iterator[str]:
    chat = source.chat
    assert chat is not None, "is asked of dialogues alone"
    template, key = TEMPLATES.get(chat.template), f"sources.{source.name}.chat"
    wanted = [chat.eos_token] if chat.eos_token else []
    if template is not None:
        wanted = list(template.pieces)
    absent = [piece for piece in wanted if piece not in pieces]
    if absent:
        yield (
            f"{key}: the tokenizer has no special piece {', '.join(absent[:_SHOWN])}, so this markup is"
            " encoded as text; take a tokenizer that has, or add them to its file"
        )
    begin = names[ids[BEGIN]] if BEGIN in ids else None
    if template is None and begin is not None and marked_pieces(chat, [begin]):
        yield (
            f"{key}: the template writes {begin}, which the framing puts before documents, so that"
            f" inside of them it is encoded as text; {_IN_ITS_PLACE}"
        )
    eos = names.get(ids["eos"])
    closes = chat.eos_token if template is None else template.closes
    if closes is not None and eos != closes:
        yield (
            f"{key}: the template closes its last answer with {closes}, and the framing with {eos}; if"
            f" the model expects {closes}, set tokenizer.special.eos"
        )
    if closes is None and eos in wanted:
        yield f"{key}: {eos} closes turns, and the framing puts it behind every document once more"
    if template is not None and template.begins is not None and BEGIN not in ids:
        yield (
            f"{key}: the template begins with {template.begins}, which is left to the framing, and that"
            ' puts nothing before documents; set framing.begin = "bos"'
        )
