"""A format: what a trainer's files are called, what goes into them, and the lines that open them.

Each module of this folder that writes files for a trainer describes itself by one `Format`, a value; the
table of all is `stages.export.table`. Its functions are pure but for the files that they are given:

    refuse(source)                     raises ConfigError where the format cannot hold the split
    write_part(source, shard, files)   appends the files of one shard
    finish(source, files)              once a split, after its shards: index and metadata
    close(sources, files)              once, after all splits: what names them together
    read(sources, folder)              the Python that opens the files in the trainer
    notes(sources)                     what a user must know besides, a sentence each
    stages(stages, folder)             what the trainer has for several datasets one after the other
    left_out(source)                   columns of rows that are not written unless they are asked for

Parts are written in order: the shards of a split, its finish, the next split. Whoever calls keeps the
journal, so a part may append to a file of the part before it. File names are POSIX
paths in the export's folder, with the split in them; nothing that is written knows a time or a path.
"""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from stages.export.columns import TOKENS
from stages.export.files import ExportFiles
from stages.export.source import ExportSource
from stages.export.staged import ExportedStage, TrainerStages, stage_by_stage


class FormatContents(StrEnum):
    """What a format is made of."""

    DOCUMENTS = "documents"
    """Whole documents, whatever the objective: the trainer makes its own rows, masks and labels."""
    ROWS = "rows"
    """Rows with the objective's columns, as the loader gives them for an epoch."""


def accept_all(_: ExportSource) -> None:
    """Refuse nothing."""


def no_notes(_: Sequence[ExportSource]) -> tuple[str, ...]:
    """Return nothing to know besides."""
    return ()


def nothing_more(_: ExportSource, __: ExportFiles) -> None:
    """Write nothing after a split's shards."""


def quoted(place: str) -> str:
    """Return a path as Python reads it, whatever quotes it has."""
    return json.dumps(place, ensure_ascii=False)


def no_close(_: Sequence[ExportSource], __: ExportFiles) -> None:
    """Write nothing that names all splits together."""


def the_second_name(_: ExportSource) -> Collection[str]:
    """Return the second name of the ids, which only some trainers read."""
    return (TOKENS,)


@dataclass(frozen=True)
class Format:
    """A foreign format; the functions are described above."""

    name: str
    """As `--format` takes it."""
    holds: FormatContents
    client: str
    """What reads it."""
    files: tuple[str, ...]
    """Names of its files; SPLIT stands for the split, NNNNN for the shard."""
    markers: tuple[str, ...] = field(default=(), kw_only=True)
    """What the names end with of files that a reader opens to know the others: in a store, they are put
    behind those, in this order."""
    write_part: Callable[[ExportSource, int, ExportFiles], None]
    read: Callable[[Sequence[ExportSource], str], str]
    finish: Callable[[ExportSource, ExportFiles], None] = nothing_more
    close: Callable[[Sequence[ExportSource], ExportFiles], None] = no_close
    refuse: Callable[[ExportSource], None] = accept_all
    notes: Callable[[Sequence[ExportSource]], Sequence[str]] = no_notes
    stages: Callable[[Sequence[ExportedStage], str], TrainerStages] = stage_by_stage
    left_out: Callable[[ExportSource], Collection[str]] = the_second_name
    needs_sentences: bool = False
    """Whether the dataset must say where sentences end."""
    loss_masks: bool = False
    """Whether it says which tokens have a loss; of documents, since rows have labels."""
    is_hub_layout: bool = False
    """Whether its folder is one that the Hugging Face Hub shows as it is, with a card."""
    has_collator: bool = False
    """Whether its rows are items of a DataLoader, so that a collator makes batches of them."""
    max_vocabulary: int | None = None
    """Ids that its integers can hold."""
