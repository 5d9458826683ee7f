"""Chats and the tokenizer: which ids the markup of templates gives, and what does not fit together."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from pipeline.run_file.config import RunFile
from pipeline.run_file.source import Source
from stages.chat.rendering import (
    begins_with,
    closing_of,
    marked_pieces,
    never_learns_end,
    spelled_pieces,
    writes_piece,
)
from stages.chat.table import TEMPLATES
from stages.errors import ConfigError
from stages.objectives.table import special_names
from stages.tokenizer.framing import BEGIN
from stages.tokenizer.markup import SpelledOut
from stages.tokenizer.roles import Roles, TokenizerDescription

_SENTINEL = "sentinel_"
_SHOWN = 5


def with_markup(file: RunFile, found: TokenizerDescription, roles: Roles) -> Roles:
    """Return the roles with what templates open and close turns with kept from text.

    A file may set a piece apart and yet find it in texts: then a message could close its own turn. A
    template may open turns with pieces that look like sentinels, <extra_id_1>: where no objective and no
    setting asks for sentinels, they are none.

    Args:
        file: of the run.
        found: what the tokenizer's file says.
        roles: its special ids.

    Raises:
        ConfigError: a piece is both markup and a sentinel.
    """
    pieces = set()
    for source in file.sources:
        if source.chat:
            turns, others = marked_pieces(source.chat, found.marks)
            pieces |= turns | {piece for piece in others if found.marks[piece] in found.controls}
    marked = {found.marks[piece] for piece in pieces}
    sentinels = {role: n for role, n in roles.ids.items() if role.startswith(_SENTINEL)}
    both = sorted(marked & {*sentinels.values()})
    if both and _needs_sentinels(file):
        piece = next(piece for piece, number in found.marks.items() if number == both[0])
        raise ConfigError(
            f"tokenizer.special.sentinels: a template of dialogues writes {piece}, which a dataset takes"
            ' for a sentinel; name the pieces of other sentinels, such as sentinels = "<unused_{}>", or'
            " make the two in runs of their own"
        )
    if both:
        others_of = {f"reserved_{number}": number for number in sentinels.values()}
        kept = {role: number for role, number in roles.ids.items() if role not in sentinels}
        roles = replace(roles, ids=kept | others_of)
    taken = {*roles.ids.values(), found.declared.get("unk")}
    numbers = sorted(marked - taken)
    if not numbers:
        return roles
    return replace(roles, ids=roles.ids | {f"reserved_{number}": number for number in numbers})


def spelled_out(file: RunFile, found: TokenizerDescription, roles: Roles) -> dict[str, SpelledOut]:
    """Return by source the pieces that contents of its dialogues spell out, and other texts may hold.

    A Jinja template names them, as <think>; they open and close no turn, and the file does not call them
    special.

    Args:
        file: of the run.
        found: what the tokenizer's file says.
        roles: its special ids, those of `with_markup`.
    """
    taken = {*roles.ids.values(), found.declared.get("unk")}
    pieces = {}
    for source in file.sources:
        if source.chat is None:
            continue
        others = marked_pieces(source.chat, found.marks).others
        own = {piece: found.marks[piece] for piece in others if found.marks[piece] not in taken}
        if own:
            ordered = dict(sorted(own.items(), key=lambda item: item[1]))
            pieces[source.name] = SpelledOut(ids=ordered, in_answers=source.chat.spell_in_answers)
    return pieces


def _needs_sentinels(file: RunFile) -> bool:
    """Say whether a dataset or a setting of the run asks for sentinels."""
    asked = (name for dataset in file.datasets for name in special_names(dataset.objective))
    named = file.tokenizer.special.sentinels is not None
    return named or any(name.startswith(_SENTINEL) for name in asked)


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
        _refuse_begun(source, begin, rows=file.framing.per == "row")
    said = [text for source in chats for text in _losses(source, pieces, names[ids["eos"]], begin)]
    return "; ".join(said) or None


def _refuse_begun(source: Source, begin: str | None, *, rows: bool) -> None:
    chat, key = source.chat, f"sources.{source.name}.chat"
    assert chat is not None, "is asked of dialogues alone"
    if begin and rows and chat.bos_token == begin:
        raise ConfigError(
            f"{key}: the template writes {begin} between turns, and the framing puts {begin} before"
            ' rows, not before dialogues: set framing.per = "document"'
        )
    if begin and begin != chat.bos_token and writes_piece(chat, begin):
        raise ConfigError(
            f"{key}: the template writes {begin}, and the framing puts {begin}"
            f' before texts already: set bos_token = "{begin}" in chat, which leaves the first one to'
            " the framing, or remove framing.begin and framing.preset"
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
    begun = begins_with(chat) if template is None else template.begins
    closes = chat.eos_token if template is None else template.closes
    if closes is not None and eos != closes:
        yield (
            f"{key}: the template closes its last answer with {closes}, and the framing with {eos}; if"
            f" the model expects {closes}, set tokenizer.special.eos"
        )
    behind = closing_of(chat, eos)
    if behind == "" and closes is None and template is None:
        yield (
            f"{key}: {eos} closes turns, and the framing puts it behind every document once more; set"
            f' eos_token = "{eos}" in chat, which leaves the last one to the framing'
        )
    elif behind or (behind is not None and closes != eos):
        yield (
            f"{key}: {eos} closes turns, and the framing puts it behind every document once more; if the"
            " tokenizer has another piece that ends texts, such as <|endoftext|>, set"
            " tokenizer.special.eos"
        )
    if never_learns_end(chat):
        yield (
            f"{key}: {{% endgeneration %}} comes before what closes a turn, so that a model never learns"
            " to stop; put the end of the turn into the block"
        )
    if begun is not None and begin is None:
        yield (
            f"{key}: the template begins with {begun}, which is left to the framing, and that"
            ' puts nothing before documents; set framing.begin = "bos"'
        )
    elif begun is not None and template is None and begin != begun:
        yield (
            f"{key}: the template begins with {begun}, which is left to the framing, and that puts"
            f" {begin} before documents; if the model expects {begun}, set tokenizer.special.bos"
        )
