"""What Python calls to write files for others: of a dataset, of stages, of texts.

Each function is in `shardmill` under the same name. None prints; `stream` is where progress is shown.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from pipeline.planning.outputs import require_local
from pipeline.tools.export.dataset import ExportRequest, export_dataset
from pipeline.tools.export.stages import StagesRequest
from pipeline.tools.export.stages import export_stages as write_stages
from pipeline.tools.export.terminal import ExportReport, StagesReport
from pipeline.tools.export.texts import TextsRequest
from pipeline.tools.export.texts import export_texts as write_texts
from stages.errors import ConfigError
from stages.export.texts import TEXT_FORMATS


def export(  # noqa: PLR0913  # what the command takes
    folder: str | Path,
    dataset: str,
    format: str,  # noqa: A002  # as the command has it
    to: str | Path,
    *,
    split: str | None = None,
    epoch: int = 0,
    columns: Sequence[str] = (),
    stream: TextIO | None = None,
) -> ExportReport:
    """Write a dataset in the files of another trainer, and return what was written and how it is read.

    Args:
        folder: of the run.
        dataset: its name.
        format: one of docs/exports.md.
        to: folder of the export.
        split: one split; None exports all.
        epoch: the epoch that rows are drawn for.
        columns: the columns of rows to write; without it, those that the format chooses.
        stream: where progress is shown.

    Raises:
        ShardmillError: the format cannot hold the dataset, or it has not passed verify.
    """
    request = ExportRequest(
        _local(folder), dataset, format, _local(to), split=split, epoch=epoch, columns=_names(columns)
    )
    return export_dataset(request, stream=stream)


def export_stages(  # noqa: PLR0913  # what the command takes
    folder: str | Path,
    datasets: Sequence[str],
    format: str,  # noqa: A002  # as the command has it
    to: str | Path,
    *,
    split: str | None = None,
    epoch: int = 0,
    columns: Sequence[str] = (),
    stream: TextIO | None = None,
) -> StagesReport:
    """Write datasets as the stages of a curriculum, each as an export of its own in a folder below `to`.

    Args:
        folder: of the run.
        datasets: their names, in the order of the stages.
        format: one of docs/exports.md.
        to: folder of the export.
        split: one split; None exports all.
        epoch: the epoch that rows are drawn for.
        columns: the columns of rows to write; without it, those that the format chooses.
        stream: where progress is shown.

    Raises:
        ShardmillError: the format cannot hold a dataset, or one has not passed verify.
    """
    request = StagesRequest(
        _local(folder),
        _names(datasets),
        format,
        _local(to),
        split=split,
        epoch=epoch,
        columns=_names(columns),
    )
    return write_stages(request, stream=stream)


def export_texts(
    folder: str | Path,
    format: str,  # noqa: A002  # as the command has it
    to: str | Path,
    *,
    stream: TextIO | None = None,
) -> ExportReport:
    """Write the texts that a run kept, and return what was written and how it is read.

    The run must have got to the end of deduplication; it needs no tokenizer and no dataset.

    Args:
        folder: of the run.
        format: "text-parquet" or "text-jsonl".
        to: folder of the export.
        stream: where progress is shown.

    Raises:
        ShardmillError: no such format, or the run has not got so far.
    """
    if format not in TEXT_FORMATS:
        raise ConfigError(f"--format {format}: no format of texts; formats: {', '.join(TEXT_FORMATS)}")
    return write_texts(TextsRequest(_local(folder), TEXT_FORMATS[format], _local(to)), stream=stream)


def _names(given: Sequence[str]) -> tuple[str, ...]:
    """Return names, of which a single one may stand alone."""
    return (given,) if isinstance(given, str) else tuple(given)


def _local(folder: str | Path) -> Path:
    """Return a folder; a URL is refused."""
    return require_local(Path(folder), "folder")
