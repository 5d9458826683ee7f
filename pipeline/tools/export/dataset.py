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
from functools import partial
from pathlib import Path
from typing import TextIO

from pydantic import BaseModel

from pipeline.run_file.datasets import SPLITS, finished_splits
from pipeline.state.places import reading, writing
from pipeline.state.state_files import parse_model, read_bytes
from pipeline.steps.run_folder import RunFolder
from pipeline.system.disk_faults import disk_faults
from pipeline.system.printable import as_known
from pipeline.tools.export.folder import (
    HUB_CARD,
    LAST,
    ExportPart,
    Identity,
    Summary,
    exported,
    hub_card,
    names_of,
    read_from,
    refuse_overlap,
)
from pipeline.tools.export.terminal import ExportReport
from stages.errors import ConfigError, FormatError, VerificationError
from stages.export.carried_tokenizer import CARRIED, CARRIED_FILE, carried_tokenizer, read_carried
from stages.export.collator import collator
from stages.export.files import ExportFiles
from stages.export.format import Format, FormatContents, quoted
from stages.export.source import ExportSource, open_source
from stages.export.table import FORMATS, refuse_loss_mask, refuse_vocabulary, select
from stages.loading.arguments import no_rows
from stages.store.manifest import read_manifest
from stages.stores.mounts import here

READ_ME = "READ.md"
FOLDER = "EXPORT"
"""What the lines to read call the export's folder."""
ABOUT = "about"
"""The last part: the tokenizer and the lines to read."""


class KeptVerdict(BaseModel):
    """What an export asks of `verify`; there is more in it."""

    passed: bool
    fingerprints: dict[str, str] = {}
    """Of each split that was checked."""


def export(  # noqa: PLR0913  # one parameter an option
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
    format_ = find_format(format)
    with (
        reading(Path(folder), key="folder") as run,
        writing(Path(to), key="to", markers=(*format_.markers, *LAST)) as target,
        disk_faults(target),
    ):
        refuse_overlap(target, run)
        sources = checked_sources(run, dataset, format_, split=split, epoch=epoch, columns=columns)
        identity = _identity(format_, sources, dataset=dataset, epoch=epoch)
        summary, already = exported(target, identity, _parts(format_, sources, run), stream=stream)
        return {
            "dataset": dataset,
            "format": format_.name,
            "client": format_.client,
            "to": as_known(str(target)),
            "already": already,
            "epoch": epoch if format_.holds is FormatContents.ROWS else None,
            "splits": {one.split: one.manifest.model_dump(mode="json")["totals"] for one in sources},
            "contents": list(contents(format_, sources)),
            "bytes": sum(file.bytes for file in summary.files.values()),
            "files": {name: file.model_dump(mode="json") for name, file in summary.files.items()},
            "read": format_.read(sources, read_from(target)),
            "notes": [*_notes(format_, sources, target, summary), *_left_out(run)],
        }


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


def checked_sources(  # what `export` takes
    folder: Path,
    dataset: str,
    format_: Format,
    *,
    split: str | None,
    epoch: int,
    columns: Sequence[str],
) -> list[ExportSource]:
    """Return the splits that are asked for, all of which the format can hold.

    Raises:
        ConfigError: no such dataset or split, or one that the format cannot hold.
        FormatError: the dataset was damaged.
        VerificationError: it failed its checks.
    """
    if format_.holds is FormatContents.DOCUMENTS and epoch:
        raise ConfigError(
            f"--epoch {epoch}: {format_.name} holds documents, which are the same in every epoch; leave"
            " --epoch out"
        )
    opened = _open(folder, dataset, split=split, epoch=epoch)
    sources = [select(format_, source, names_of(columns)) for source in opened]
    for source in sources:
        _require_verified(folder, dataset, source)
        refuse_vocabulary(format_, source.manifest.vocab_size, name=source.manifest.name)
        refuse_loss_mask(format_, source)
        format_.refuse(source)
    return sources


def _open(folder: Path, dataset: str, *, split: str | None, epoch: int) -> list[ExportSource]:
    """Open the splits that are asked for."""
    run = RunFolder(folder)
    run.generations()
    path = run.dataset(dataset)
    splits = (split,) if split else finished_splits(path) or ("train",)
    sources = [open_source(path, split=one, epoch=epoch) for one in splits]
    filled = [source for source in sources if source.manifest.totals.rows]
    if not filled:
        raise ConfigError(f"nothing to export: {no_rows(path, splits[0])}")
    return filled


def _require_verified(folder: Path, dataset: str, source: ExportSource) -> None:
    """Refuse a dataset that failed its checks."""
    place = folder / "verify" / dataset / "verdict.json"
    again = f"`shardmill verify {folder}`"
    way_out = f"run {again}, which writes it anew"
    try:
        data = read_bytes(place, way_out=way_out)
    except FileNotFoundError:
        return
    verdict = parse_model(KeptVerdict, data, place, way_out=way_out)
    checked = verdict.fingerprints.get(source.split, source.manifest.fingerprint)
    if not verdict.passed and checked == source.manifest.fingerprint:
        raise VerificationError(
            f"{dataset}/{source.split}: failed verify, and {place} says in what; nothing of it"
            f" is exported; run {again} once that is mended"
        )


def _identity(format_: Format, sources: Sequence[ExportSource], *, dataset: str, epoch: int) -> Identity:
    rows = format_.holds is FormatContents.ROWS
    return Identity(
        format=format_.name,
        dataset=dataset,
        epoch=epoch,
        columns=tuple(sources[0].columns) if rows else (),
        splits={
            source.split: (source.manifest.fingerprint, *([source.drawn] if rows else []))
            for source in sources
        },
    )


def _parts(format_: Format, sources: Sequence[ExportSource], folder: Path) -> Iterator[ExportPart]:
    """Yield the parts in the order in which they are written, if the tokenizer is there."""
    read_tokenizer(sources[0])
    for source in sources:
        for shard in range(source.num_shards):
            yield f"{source.split}/{shard:05d}", partial(format_.write_part, source, shard)
        yield f"{source.split}/end", partial(format_.finish, source)
    yield ABOUT, partial(_write_about, format_, sources, folder)


def read_tokenizer(source: ExportSource) -> bytes:
    """Return the tokenizer file of a dataset.

    Raises:
        FormatError: it is gone from the run, or another one.
    """
    known, name = source.manifest.tokenizer, source.manifest.name
    place = here((source.reader.folder / known.file).resolve())
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
    if format_.holds is FormatContents.DOCUMENTS and kind != "clm":
        yield (
            f"The objective {kind} is not applied: these are whole documents, and the trainer makes its"
            " rows, masks and labels itself"
        )


def contents(format_: Format, sources: Sequence[ExportSource]) -> Iterator[str]:
    """Say how much of each split there is, also of one that has nothing."""
    for source in sources:
        totals = source.manifest.totals
        if format_.holds is FormatContents.DOCUMENTS:
            yield f"{source.split}: {totals.documents:,} documents, {totals.tokens:,} tokens"
        else:
            yield f"{source.split}: {totals.rows:,} rows"
    exported, folder = {source.split for source in sources}, sources[0].reader.folder.parent
    if SPLITS[0] in exported:
        for split in finished_splits(folder):
            if split not in exported and not read_manifest(folder / split).totals.rows:
                yield f"{split}: 0 rows, so there is no file of it"


def _notes(
    format_: Format, sources: Sequence[ExportSource], to: Path, summary: Summary
) -> Iterator[str]:
    """Say what a user must know of the files."""
    yield from _objective_note(format_, sources)
    yield from format_.notes(sources)
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
