"""Export: a dataset into the files of another trainer, part by part, whole or not at all.

    TO.partial/parts.jsonl    the journal: what is exported, then a line a part, with the files it wrote
    TO.partial/...            the files so far
    TO/                       the same folder, renamed when its last part is done
    TO/export.json            what it holds: every file with its size and SHA-256

A part is a shard, the end of a split, or what tells about the export. After each part its files are on
the disk and the journal says so; a killed export loses the part it was in, and the same command goes on
from there. A finished one is left alone. The bytes are a function of the dataset, the format and the
epoch: not of where it is written, nor of how often it was stopped.
"""

import difflib
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TextIO

from pydantic import BaseModel

from pipeline.planning.outputs import require_local
from pipeline.run_file.datasets import SPLITS, finished_splits
from pipeline.state.journal import LOCK
from pipeline.state.state_files import parse_model, read_bytes
from pipeline.steps.run_folder import RunFolder
from pipeline.system.disk_faults import disk_faults
from pipeline.tools.export.folder import (
    HUB_CARD,
    PARTS,
    ExportPart,
    Identity,
    Summary,
    hub_card,
    read_summary,
    refuse_overlap,
    require_same,
    require_there,
    write_whole,
)
from pipeline.tools.export.terminal import ExportReport
from stages.errors import ConfigError, FormatError, VerificationError
from stages.export.carried_tokenizer import CARRIED, CARRIED_FILE, carried_tokenizer, read_carried
from stages.export.collator import collator
from stages.export.files import ExportFiles
from stages.export.format import Format, Holds, quoted
from stages.export.source import ExportSource, open_source
from stages.export.table import FORMATS
from stages.loading.arguments import no_rows
from stages.store.manifest import read_manifest

READ_ME = "READ.md"
FOLDER = "EXPORT"
"""What the lines to read call the export's folder."""
ABOUT = "about"
"""The last part: the tokenizer and the lines to read."""


@dataclass(frozen=True)
class ExportRequest:
    """What a call of `shardmill export` asks for."""

    folder: Path
    dataset: str
    format: str
    to: Path
    split: str | None = None
    epoch: int = 0
    columns: tuple[str, ...] = ()
    """Of rows; if empty, those that the format writes by default."""


class KeptVerdict(BaseModel):
    """What an export asks of `verify`; there is more in it."""

    passed: bool
    fingerprints: dict[str, str] = {}
    """Of each split that was checked."""


def export_dataset(request: ExportRequest, *, stream: TextIO | None) -> ExportReport:
    """Export a dataset, or go on with it; give what was written and how it is read.

    Raises:
        ConfigError: no such format, dataset or split, one that the format cannot hold, a target that
            holds something else or lies in the run, or a file that cannot be read or written.
        FormatError: the dataset or the export was damaged.
        Stopped: by a signal, by a full disk, or because another process is at it.
    """
    with disk_faults(request.to):
        return _export(request, stream=stream)


def _export(request: ExportRequest, *, stream: TextIO | None) -> ExportReport:
    """Export a dataset; what the disk refuses is raised as it comes."""
    format_ = find_format(request.format)
    require_local(request.folder, "DIR")
    require_local(request.to, "--to")
    refuse_overlap(request.to, request.folder)
    sources = checked_sources(request, format_)
    identity = _identity(request, format_, sources)
    summary = read_summary(request.to)
    already = summary is not None
    if summary is None:
        read_tokenizer(sources[0])
        parts = _parts(format_, sources, request.folder)
        summary = write_whole(request.to, identity, parts, stream=stream)
    else:
        require_same(request.to, summary.identity, identity)
        require_there(request.to, summary)
    for name in (PARTS, LOCK):
        (request.to / name).unlink(missing_ok=True)
    return _report(request, format_, sources, summary, already=already)


def find_format(name: str) -> Format:
    """Return a format by its name.

    Raises:
        ConfigError: there is none.
    """
    if name not in FORMATS:
        close = difflib.get_close_matches(name, FORMATS, n=1)
        meant = f"did you mean {close[0]!r}? " if close else ""
        raise ConfigError(f"--format {name}: no such format; {meant}formats: {', '.join(FORMATS)}")
    return FORMATS[name]


def checked_sources(request: ExportRequest, format_: Format) -> list[ExportSource]:
    """Return the splits that are asked for, all of which the format can hold.

    Raises:
        ConfigError: no such dataset or split, or one that the format cannot hold.
        FormatError: the dataset was damaged.
        VerificationError: it failed its checks.
    """
    sources = [format_.select(source, request.columns) for source in _open(request, format_)]
    for source in sources:
        _require_verified(request, source)
        format_.refuse_vocabulary(source.manifest.vocab_size, name=source.manifest.name)
        format_.refuse_loss_mask(source)
        format_.refuse(source)
    return sources


def _open(request: ExportRequest, format_: Format) -> list[ExportSource]:
    """Open the splits that are asked for."""
    if format_.holds is Holds.DOCUMENTS and request.epoch:
        raise ConfigError(
            f"--epoch {request.epoch}: {format_.name} holds documents, which are the same in every"
            " epoch; leave --epoch out"
        )
    run = RunFolder(request.folder)
    run.generations()
    path = run.dataset(request.dataset)
    splits = (request.split,) if request.split else finished_splits(path) or ("train",)
    sources = [open_source(path, split=split, epoch=request.epoch) for split in splits]
    filled = [source for source in sources if source.manifest.totals.rows]
    if not filled:
        raise ConfigError(f"nothing to export: {no_rows(path, splits[0])}")
    return filled


def _require_verified(request: ExportRequest, source: ExportSource) -> None:
    """Refuse a dataset that failed its checks."""
    place = request.folder / "verify" / request.dataset / "verdict.json"
    again = f"`shardmill verify {request.folder}`"
    way_out = f"run {again}, which writes it anew"
    try:
        data = read_bytes(place, way_out=way_out)
    except FileNotFoundError:
        return
    verdict = parse_model(KeptVerdict, data, place, way_out=way_out)
    checked = verdict.fingerprints.get(source.split, source.manifest.fingerprint)
    if not verdict.passed and checked == source.manifest.fingerprint:
        raise VerificationError(
            f"{request.dataset}/{source.split}: failed verify, and {place} says in what; nothing of it"
            f" is exported; run {again} once that is mended"
        )


def _identity(request: ExportRequest, format_: Format, sources: Sequence[ExportSource]) -> Identity:
    rows = format_.holds is Holds.ROWS
    return Identity(
        format=format_.name,
        dataset=request.dataset,
        epoch=request.epoch,
        columns=tuple(sources[0].columns) if rows else (),
        splits={
            source.split: (source.manifest.fingerprint, *([source.drawn] if rows else []))
            for source in sources
        },
    )


def _parts(format_: Format, sources: Sequence[ExportSource], folder: Path) -> list[ExportPart]:
    """Return the parts in the order in which they are written."""
    parts: list[ExportPart] = []
    for source in sources:
        parts += [
            (f"{source.split}/{shard:05d}", partial(format_.write_part, source, shard))
            for shard in range(source.num_shards)
        ]
        parts.append((f"{source.split}/end", partial(format_.finish, source)))
    return [*parts, (ABOUT, partial(_write_about, format_, sources, folder))]


def read_tokenizer(source: ExportSource) -> bytes:
    """Return the tokenizer file of a dataset.

    Raises:
        FormatError: it is gone from the run, or another one.
    """
    known, name = source.manifest.tokenizer, source.manifest.name
    place = source.reader.folder / known.file
    try:
        data = place.read_bytes()
    except FileNotFoundError as error:
        raise FormatError(
            f"{place}: gone, but it is the tokenizer that made {name}; put it back and export again"
        ) from error
    if hashlib.sha256(data).hexdigest() != known.sha256:
        raise FormatError(f"{place}: not the tokenizer that made {name}; put that back and export again")
    return data


def _write_about(
    format_: Format, sources: Sequence[ExportSource], folder: Path, files: ExportFiles
) -> None:
    """Write what is of all splits: the tokenizer, and the lines to read, which are the same anywhere."""
    format_.close(sources, files)
    data = read_tokenizer(sources[0])
    files.write(sources[0].tokenizer, data)
    carried = carried_tokenizer(sources[0], data)
    for name, content in carried.files.items():
        files.write(name, content)
    lines = [
        f"# {sources[0].manifest.name} for {format_.client}",
        "",
        *(f"- {line}" for line in contents(format_, sources)),
        *(
            f"- {note}"
            for note in (*_objective_note(format_, sources), *format_.notes(sources), *carried.notes)
        ),
        "",
        f"{FOLDER} stands for this folder:",
        "",
        "```python",
        format_.read(sources, FOLDER),
        "```",
        *_collator_lines(format_, sources),
        *(("", "```python", read_carried(FOLDER), "```") if carried.files else ()),
    ]
    files.write(READ_ME, ("\n".join(lines) + "\n").encode())
    if format_.is_hub_layout:
        files.write(HUB_CARD, hub_card(folder, sources).encode())


def _collator_lines(format_: Format, sources: Sequence[ExportSource]) -> Iterator[str]:
    """Yield the lines that make batches of rows."""
    if not format_.has_collator:
        return
    code = collator(sources[0])
    if code is None:
        yield from (
            "",
            "These columns do not tell who may attend to whom, so there is no collator here.",
        )
    else:
        yield from ("", "A collator makes batches of rows for models of transformers:", "")
        yield from ("```python", code, "```")


def _objective_note(format_: Format, sources: Sequence[ExportSource]) -> Iterator[str]:
    """Say that documents are as they were before the objective."""
    kind = sources[0].manifest.objective["kind"]
    if format_.holds is Holds.DOCUMENTS and kind != "clm":
        yield (
            f"The objective {kind} is not applied: these are whole documents, and the trainer makes its"
            " rows, masks and labels itself"
        )


def contents(format_: Format, sources: Sequence[ExportSource]) -> Iterator[str]:
    """Say how much of each split there is, also of one that has nothing."""
    for source in sources:
        totals = source.manifest.totals
        if format_.holds is Holds.DOCUMENTS:
            yield f"{source.split}: {totals.documents:,} documents, {totals.tokens:,} tokens"
        else:
            yield f"{source.split}: {totals.rows:,} rows"
    exported, folder = {source.split for source in sources}, sources[0].reader.folder.parent
    if SPLITS[0] in exported:
        for split in finished_splits(folder):
            if split not in exported and not read_manifest(folder / split).totals.rows:
                yield f"{split}: 0 rows, so there is no file of it"


def _report(
    request: ExportRequest,
    format_: Format,
    sources: Sequence[ExportSource],
    summary: Summary,
    *,
    already: bool,
) -> ExportReport:
    """Return what the export holds, and how it is read."""
    return {
        "dataset": request.dataset,
        "format": format_.name,
        "client": format_.client,
        "to": str(request.to),
        "already": already,
        "epoch": request.epoch if format_.holds is Holds.ROWS else None,
        "splits": {
            source.split: source.manifest.model_dump(mode="json")["totals"] for source in sources
        },
        "contents": list(contents(format_, sources)),
        "bytes": sum(file.bytes for file in summary.files.values()),
        "files": {name: file.model_dump(mode="json") for name, file in summary.files.items()},
        "read": format_.read(sources, str(request.to)),
        "notes": [
            *_objective_note(format_, sources),
            *format_.notes(sources),
            *_about_tokenizer(request.to, summary),
            *_left_out(request.folder),
        ],
    }


def _about_tokenizer(to: Path, summary: Summary) -> Iterator[str]:
    """Say how the tokenizer is loaded."""
    if CARRIED_FILE in summary.files:
        place = quoted(f"{to}/{CARRIED}")
        yield f"The tokenizer, for transformers: AutoTokenizer.from_pretrained({place})"
    else:
        yield (
            f"There is no folder for AutoTokenizer of transformers: {READ_ME} says why, unless an"
            " earlier version wrote this export"
        )


def _left_out(folder: Path) -> Iterator[str]:
    """Name the generations whose rows are not in an export."""
    for later in RunFolder(folder).generations():
        yield f"without the rows that {later} added; export them from there, to a folder of their own"
