"""All formats that a dataset can be exported to, by name, and what one may be unable to hold.

What is not here does not exist.
"""

import difflib
from collections.abc import Callable, Sequence

from stages.errors import ConfigError
from stages.export.array_record import ARRAY_RECORD
from stages.export.datatrove import DATATROVE
from stages.export.format import Format, FormatContents
from stages.export.huggingface import HF, HF_PARQUET
from stages.export.litdata import LITDATA
from stages.export.mds import MDS
from stages.export.megatron import MEGATRON, MEGATRON_SENTENCES
from stages.export.nanogpt import NANOGPT
from stages.export.olmo_core import OLMO_CORE
from stages.export.safetensors import SAFETENSORS
from stages.export.source import ExportSource

_ALL = (
    *(MEGATRON, MEGATRON_SENTENCES, NANOGPT, OLMO_CORE, DATATROVE, LITDATA, ARRAY_RECORD),
    *(MDS, HF, HF_PARQUET, SAFETENSORS),
)
FORMATS: dict[str, Format] = {known.name: known for known in _ALL}


def select(format_: Format, source: ExportSource, asked: Sequence[str]) -> ExportSource:
    """Return a split with the columns that a format writes of its rows.

    Args:
        format_: the format.
        source: the split.
        asked: names of columns; if empty, the columns that the format writes by default.

    Raises:
        ConfigError: the format holds documents, or no such column.
    """
    if format_.holds is not FormatContents.ROWS:
        if asked:
            raise ConfigError(
                f"--columns {','.join(asked)}: {format_.name} holds documents, which have no columns;"
                f" leave --columns out, or export rows: {_said(_has_rows)}"
            )
        return source
    known = source.available
    for name in asked if known else ():
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            meant = f"did you mean {close[0]!r}? " if close else ""
            raise ConfigError(
                f"--columns {name}: {source.manifest.name} has no such column; {meant}columns:"
                f" {', '.join(known)}"
            )
    return source.choose(asked or known.keys() - set(format_.left_out(source)))


def refuse_loss_mask(format_: Format, source: ExportSource) -> None:
    """Refuse documents of which only some tokens have a loss, where the format cannot say which.

    Raises:
        ConfigError: its trainer would learn the others too.
    """
    if format_.holds is FormatContents.DOCUMENTS and source.has_loss_mask and not format_.loss_masks:
        raise ConfigError(
            f"--format {format_.name}: holds ids alone, but only targets of {source.manifest.name} have"
            ' a loss (loss = "targets"), and prompts would be learned too; export it as'
            f" {_said(lambda known: known.loss_masks)}, which have a file for that, or as rows:"
            f" {_said(_has_rows)}"
        )


def refuse_vocabulary(format_: Format, size: int, *, name: str) -> None:
    """Refuse ids that the integers of a format cannot hold.

    Args:
        format_: the format.
        size: ids of the vocabulary.
        name: of what has it.

    Raises:
        ConfigError: the vocabulary is too large.
    """
    most = format_.max_vocabulary
    if most is not None and size > most:
        others = _said(
            lambda known: (
                known.holds is format_.holds
                and known.max_vocabulary is None
                and not known.needs_sentences
            )
        )
        raise ConfigError(
            f"--format {format_.name}: holds ids below {most:,}, but {name} has a vocabulary of"
            f" {size:,}; export it as {others}"
        )


def _has_rows(known: Format) -> bool:
    return known.holds is FormatContents.ROWS


def _said(fits: Callable[[Format], bool]) -> str:
    """Return the names of the formats that fit: "olmo-core or datatrove"."""
    return " or ".join(known.name for known in FORMATS.values() if fits(known))
