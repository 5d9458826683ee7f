"""Export of a curriculum: each stage as an export of its own, and what the trainer has for stages.

    TO.partial/begun.json     what is exported: the format, the epoch and the datasets in their order
    TO.partial/NAME           a stage, as `shardmill export` writes it; NAME.partial until it is whole
    TO/                       the same folder, renamed when all is there
    TO/stages.json            the stages in their order, and what each holds
    TO/READ.md                how the trainer goes from one to the next

A killed export loses the part of the stage that it was in, and the same command goes on from there:
stages that are whole are left alone. The bytes are a function of the datasets, the format and the epoch.
"""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, TextIO

from pipeline.state.atomic_write import partial_of
from pipeline.state.journal import LOCK
from pipeline.state.places import reading, writing
from pipeline.state.state_files import parse_model, read_bytes
from pipeline.system.disk_faults import disk_faults
from pipeline.system.printable import as_known
from pipeline.tools.export.dataset import (
    FOLDER,
    READ_ME,
    checked_sources,
    contents,
    export,
    find_format,
)
from pipeline.tools.export.folder import (
    LAST,
    SUMMARY,
    export_folder,
    names_of,
    put,
    read_from,
    read_summary,
    refuse_overlap,
)
from pipeline.tools.export.terminal import ExportReport, StagesReport
from stages.config import Config, canonical_json
from stages.errors import ConfigError, FormatError
from stages.export.format import Format, FormatContents
from stages.export.staged import ExportedStage, TrainerStages
from stages.store.digests import sync_path
from stages.store.folders import entries

STAGES = "stages.json"
BEGUN = "begun.json"


class StagesIdentity(Config):
    """What an export of stages is of; each stage says more of itself."""

    format_version: Literal[1] = 1
    format: str
    epoch: int
    columns: tuple[str, ...] = ()
    """That were asked for; if empty, those that the format writes by default."""
    datasets: tuple[str, ...]


class SplitOfStage(Config):
    """What one split of a stage holds."""

    fingerprint: str
    rows: int
    documents: int
    tokens: int


class StageEntry(Config):
    """A stage, in a folder that has the dataset's name."""

    dataset: str
    seq_len: int
    splits: dict[str, SplitOfStage]


class StagesSummary(Config):
    """What a finished export of stages holds, in their order."""

    identity: StagesIdentity
    stages: tuple[StageEntry, ...]


def export_stages(  # noqa: PLR0913  # one parameter an option
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
    names, chosen = names_of(datasets), names_of(columns)
    format_ = find_format(format)
    with (
        reading(Path(folder), key="folder") as run,
        writing(Path(to), key="to", markers=(*format_.markers, *LAST, STAGES)) as target,
        disk_faults(target),
    ):
        refuse_overlap(target, run)
        _refuse_names(names)
        checked = partial(checked_sources, split=split, epoch=epoch, columns=chosen)
        stages = [ExportedStage(name, checked(run, name, format_)) for name in names]
        _refuse_tokenizers(stages)
        identity = StagesIdentity(format=format, epoch=epoch, columns=chosen, datasets=names)
        write = partial(export, run, format=format, split=split, epoch=epoch, columns=chosen)
        already = _read_summary(target)
        if already is None:
            with export_folder(target, _read_summary) as half:
                _begin(half, identity)
                for name in names:
                    write(name, to=half / name, stream=stream)
                _finish(half, identity, format_, stages)
        else:
            _require_same(target, already.identity, identity)
            _require_stages(target, names)
        for name in (BEGUN, LOCK):
            (target / name).unlink(missing_ok=True)
        exports = [write(name, to=target / name) for name in names]  # all are whole already
        return _report(format_, target, stages, exports, already=already is not None)


def _refuse_names(names: Sequence[str]) -> None:
    """Refuse no dataset at all, and one that is named twice."""
    if not names:
        raise ConfigError("--dataset: none is named; give one for each stage")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"--dataset {twice[0]}: named twice; each stage is a dataset of its own")


def _report(
    format_: Format,
    to: Path,
    stages: Sequence[ExportedStage],
    exports: list[ExportReport],
    *,
    already: bool,
) -> StagesReport:
    """Return what was written, and how it is used."""
    trained = format_.stages(stages, read_from(to))
    return {
        "format": format_.name,
        "client": format_.client,
        "to": as_known(str(to)),
        "already": already,
        "contents": list(_contents(format_, stages)),
        "stages": exports,
        "notes": list(trained.notes),
        "lines": trained.lines,
    }


def _refuse_tokenizers(stages: Sequence[ExportedStage]) -> None:
    """Refuse stages whose ids do not mean the same."""
    first = stages[0]
    for stage in stages:
        if stage.manifest.tokenizer.sha256 != first.manifest.tokenizer.sha256:
            raise ConfigError(
                f"--dataset {stage.name}: ids of another tokenizer than those of {first.name}; run"
                " again, so that both are of one"
            )


def _begin(folder: Path, identity: StagesIdentity) -> None:
    """Note what is exported, or see that it is what was begun."""
    place = folder / BEGUN
    known = {LOCK, BEGUN}
    data = place.read_bytes() if place.exists() else b""
    if data.endswith(b"\n"):  # else a crash cut it, and nothing was written behind it
        begun = parse_model(StagesIdentity, data, place, way_out=_way_out(folder))
        _require_same(folder, begun, identity)
        known |= {STAGES, READ_ME}
        known |= {name for one in identity.datasets for name in (one, partial_of(Path(one)).name)}
    strangers = sorted(path.name for path in entries(folder) if path.name not in known)
    if strangers:
        raise ConfigError(
            f"{folder}: holds {strangers[0]}, which no export of these stages wrote; move it away, or"
            " choose another --to"
        )
    put(place, canonical_json(identity).decode() + "\n")
    sync_path(folder)


def _finish(
    folder: Path, identity: StagesIdentity, format_: Format, stages: Sequence[ExportedStage]
) -> None:
    """Write how the trainer goes from stage to stage, and last what the export holds."""
    summary = StagesSummary(
        identity=identity,
        stages=tuple(
            StageEntry(
                dataset=stage.name,
                seq_len=stage.manifest.seq_len,
                splits={
                    source.split: SplitOfStage(
                        fingerprint=source.manifest.fingerprint,
                        rows=source.manifest.totals.rows,
                        documents=source.manifest.totals.documents,
                        tokens=source.manifest.totals.tokens,
                    )
                    for source in stage.sources
                },
            )
            for stage in stages
        ),
    )
    put(folder / READ_ME, _read_me(format_, stages))
    put(folder / STAGES, json.dumps(summary.model_dump(mode="json"), indent=1) + "\n")


def _contents(format_: Format, stages: Sequence[ExportedStage]) -> Iterator[str]:
    """Say what each stage holds."""
    for number, stage in enumerate(stages, 1):
        cut = " of rows" if format_.holds is FormatContents.ROWS else ", cut into rows by the trainer"
        said = "; ".join(contents(format_, stage.sources))
        yield f"{number}. {stage.name}: {said}; seq_len {stage.manifest.seq_len}{cut}"


def _read_me(format_: Format, stages: Sequence[ExportedStage]) -> str:
    """Return how the trainer goes from stage to stage, the same wherever it is written."""
    trained: TrainerStages = format_.stages(stages, FOLDER)
    lines = [
        f"# {len(stages)} stages for {format_.client}",
        "",
        *_contents(format_, stages),
        "",
        f"Each has a folder of its own, with the name of its dataset, a {READ_ME} that says how its",
        f"files are read, and the tokenizer, which is the same in all. {STAGES} lists them in their",
        "order.",
        "",
        *(f"- {note}" for note in trained.notes),
    ]
    if trained.lines:
        fence = (f"```{trained.language}", trained.lines, "```")
        lines += ["", f"{FOLDER} stands for this folder:", "", *fence]
    return "\n".join(lines) + "\n"


def _read_summary(folder: Path) -> StagesSummary | None:
    """Return what a finished export of stages holds, or None if there is none."""
    try:
        data = read_bytes(folder / STAGES, way_out=_way_out(folder))
    except (FileNotFoundError, NotADirectoryError):
        return None
    return parse_model(StagesSummary, data, folder / STAGES, way_out=_way_out(folder))


def _require_same(folder: Path, found: StagesIdentity, wanted: StagesIdentity) -> None:
    """Refuse to mix two exports in one folder."""
    differing = [
        f"{name}: {_said(getattr(found, name))} there, {_said(getattr(wanted, name))} asked for"
        for name in ("format", "epoch", "columns", "datasets")
        if getattr(found, name) != getattr(wanted, name)
    ]
    if differing:
        raise ConfigError(
            f"{folder}: holds another export ({'; '.join(differing)}); delete it, or choose another --to"
        )


def _said(value: str | int | tuple[str, ...]) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _require_stages(to: Path, names: Sequence[str]) -> None:
    """Refuse a finished export of which a stage is gone."""
    for name in names:
        if read_summary(to / name) is None:
            raise FormatError(
                f"{to / name / SUMMARY}: gone, but the stage was exported; delete {to} and export again"
            )


def _way_out(folder: Path) -> str:
    return f"delete {folder}, or choose another --to"
