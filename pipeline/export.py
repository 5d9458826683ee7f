"""Export: a dataset into the files of another trainer, part by part, whole or not at all.

    TO.partial/export.json    the journal: what is exported, which parts are done, how far each file is
    TO.partial/...            the files so far
    TO/                       the same folder, renamed when its last part is done

A part is a shard, the end of a split, or what tells about the export. After each part its files are on
the disk and the journal says so; a killed export loses the part it was in, and the same command goes on
from there. A finished one is left alone. The bytes are a function of the dataset, the format and the
epoch: not of where it is written, nor of how often it was stopped.
"""

import difflib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TextIO

from pydantic import ValidationError

from pipeline.datasets import find_dataset, finished_splits
from pipeline.journal import LOCK, run_lock
from pipeline.progress import Progress
from pipeline.stopping import enough_disk, signals_stop
from pipeline.storage import make_folder
from stages.config import Config
from stages.errors import ConfigError, FormatError, VerificationError
from stages.export.files import ExportFiles, WrittenFile
from stages.export.format import Format, Holds
from stages.export.source import ExportSource, open_source
from stages.export.table import FORMATS
from stages.store.digests import digest_file, sync_path

JOURNAL = "export.json"
READ_ME = "READ.md"
TOKENIZER = "tokenizer.model"
ABOUT = "about"
"""The last part: the tokenizer and the lines to read."""


class Identity(Config):
    """What an export is of; two that agree have the same bytes."""

    format_version: Literal[1] = 1
    format: str
    dataset: str
    epoch: int
    splits: dict[str, tuple[str, ...]]
    """Of each split the fingerprint of its dataset, and of its epochs on disk if rows are exported."""


class Journal(Config):
    """How far an export is; in the finished folder, what it holds."""

    identity: Identity
    parts: tuple[str, ...]
    files: dict[str, WrittenFile]


@dataclass(frozen=True)
class Request:
    """What a call of `shardmill export` asks for."""

    folder: Path
    dataset: str
    format: str
    to: Path
    split: str | None = None
    epoch: int = 0


def export_dataset(request: Request, *, stream: TextIO | None) -> dict[str, Any]:
    """Export a dataset, or go on with it; give what was written and how it is read.

    Raises:
        ConfigError: no such format, dataset or split, one that the format cannot hold, or a target that
            holds something else.
        FormatError: the dataset or the half-made export was damaged.
        Stopped: by a signal, by a full disk, or because another process is at it.
    """
    format_ = find_format(request.format)
    sources = _open(request, format_)
    for source in sources:
        _require_verified(request, source)
        format_.refuse(source)
    identity = _identity(request, format_, sources)
    done = _journal(request.to)
    if done is None:
        _refuse_stranger(request.to)
        partial_ = request.to.with_name(f"{request.to.name}.partial")
        make_folder(partial_.absolute())
        with enough_disk(partial_), run_lock(partial_), signals_stop():
            journal = _write(partial_, identity, _parts(format_, sources, request), stream=stream)
            (partial_ / LOCK).unlink()
            partial_.rename(request.to)
            sync_path(request.to.absolute().parent)
    else:
        _require_same(request.to, done.identity, identity)
        journal = done
    return _report(request, format_, sources, journal, already=done is not None)


def find_format(name: str) -> Format:
    """Give a format by its name.

    Raises:
        ConfigError: there is none.
    """
    if name not in FORMATS:
        close = difflib.get_close_matches(name, FORMATS, n=1)
        meant = f"did you mean {close[0]!r}? " if close else ""
        raise ConfigError(f"--format {name}: no such format; {meant}formats: {', '.join(FORMATS)}")
    return FORMATS[name]


def _open(request: Request, format_: Format) -> list[ExportSource]:
    """Open the splits that are asked for."""
    if format_.holds is Holds.DOCUMENTS and request.epoch:
        raise ConfigError(
            f"--epoch {request.epoch}: {format_.name} holds documents, which are the same in every"
            " epoch; leave --epoch out"
        )
    path = find_dataset(request.folder, request.dataset)
    splits = (request.split,) if request.split else finished_splits(path) or ("train",)
    sources = [open_source(path, split=split, epoch=request.epoch) for split in splits]
    for source in sources:
        if not source.manifest.totals.rows:
            raise ConfigError(f"{request.dataset}/{source.split}: holds no row, so nothing to export")
    return sources


def _require_verified(request: Request, source: ExportSource) -> None:
    """Refuse a dataset that failed its checks."""
    place = request.folder / "verify" / request.dataset / "verdict.json"
    if place.exists() and json.loads(place.read_text(encoding="utf-8")).get("passed") is False:
        raise VerificationError(
            f"{request.dataset}/{source.split}: failed verify ({place}); nothing of it is exported"
        )


def _identity(request: Request, format_: Format, sources: Sequence[ExportSource]) -> Identity:
    rows = format_.holds is Holds.ROWS
    return Identity(
        format=format_.name,
        dataset=request.dataset,
        epoch=request.epoch,
        splits={
            source.split: (source.manifest.fingerprint, *([source.drawn] if rows else []))
            for source in sources
        },
    )


Part = tuple[str, partial[None]]
"""The name of a part, and what writes it, given the files."""


def _parts(format_: Format, sources: Sequence[ExportSource], request: Request) -> list[Part]:
    """Give the parts in the order in which they are written."""
    parts: list[Part] = []
    for source in sources:
        parts += [
            (f"{source.split}/{shard:05d}", partial(format_.write_part, source, shard))
            for shard in range(source.num_shards)
        ]
        parts.append((f"{source.split}/end", partial(format_.finish, source)))
    return [*parts, (ABOUT, partial(_write_about, format_, sources, request.to.name))]


def _write(folder: Path, identity: Identity, parts: Sequence[Part], *, stream: TextIO | None) -> Journal:
    """Write the parts that are not done, each with its entry in the journal."""
    journal = _journal(folder) or Journal(identity=identity, parts=(), files={})
    _require_same(folder, journal.identity, identity)
    files = ExportFiles(folder, journal.files)
    files.restore(besides=(JOURNAL, LOCK))
    progress = Progress(None, stream)
    left = [part for part in parts if part[0] not in journal.parts]
    if journal.parts and left:
        progress.note(f"{folder}: goes on after {journal.parts[-1]}")
    progress.start("export", f"export: {identity.format}", total=len(left))
    try:
        for name, write in left:
            write(files)
            journal = Journal(identity=identity, parts=(*journal.parts, name), files=files.written)
            keep_journal(folder, journal)
            progress.advance(more=False)
        progress.stop()
    finally:
        progress.close()
    return journal


def _write_about(
    format_: Format, sources: Sequence[ExportSource], name: str, files: ExportFiles
) -> None:
    """Write the tokenizer, a copy, and the lines to read, which name the export's own folder alone."""
    known = sources[0].manifest.tokenizer
    place = sources[0].dataset.folder / known.file
    if place.exists():
        if digest_file(place).sha256 != known.sha256:
            raise FormatError(f"{place}: not the tokenizer that made {sources[0].manifest.name}")
        files.write(TOKENIZER, place.read_bytes())
    lines = [
        f"# {sources[0].manifest.name} for {format_.client}",
        "",
        *(f"- {line}" for line in _contents(sources)),
        *(f"- {note}" for note in format_.notes(sources)),
        "",
        "```python",
        format_.read(sources, name),
        "```",
    ]
    files.write(READ_ME, ("\n".join(lines) + "\n").encode())


def _contents(sources: Sequence[ExportSource]) -> Iterator[str]:
    for source in sources:
        totals = source.manifest.totals
        yield (
            f"{source.split}: {totals.documents:,} documents, {totals.tokens:,} tokens,"
            f" {totals.rows:,} rows of {source.manifest.seq_len:,}"
        )


def keep_journal(folder: Path, journal: Journal) -> None:
    """Replace the journal whole; what it names is on the disk already."""
    beside = folder / f".{JOURNAL}"
    beside.write_text(json.dumps(journal.model_dump(mode="json"), indent=1) + "\n", encoding="utf-8")
    sync_path(beside)
    beside.replace(folder / JOURNAL)
    sync_path(folder)


def _journal(folder: Path) -> Journal | None:
    """Give the journal of a folder, or None if it has none."""
    try:
        return Journal.model_validate_json((folder / JOURNAL).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValidationError as error:
        raise FormatError(
            f"{folder / JOURNAL}: not the journal of an export that this version knows; delete {folder}"
            " or choose another --to"
        ) from error


def _refuse_stranger(to: Path) -> None:
    """Refuse a target that something else stands in; an empty folder is fine."""
    if to.exists() and not (to.is_dir() and not any(to.iterdir())):
        raise ConfigError(f"--to {to}: is there and no export; choose another --to")


def _require_same(folder: Path, found: Identity, wanted: Identity) -> None:
    """Refuse to mix two exports in one folder."""
    differing = [
        f"{name}: {getattr(found, name)} there, {getattr(wanted, name)} asked for"
        for name in ("format", "dataset", "epoch")
        if getattr(found, name) != getattr(wanted, name)
    ]
    if not differing and list(found.splits) != list(wanted.splits):
        differing = [f"splits: {', '.join(found.splits)} there, {', '.join(wanted.splits)} asked for"]
    if not differing and found.splits != wanted.splits:
        differing = ["the dataset was made anew since"]
    if differing:
        raise ConfigError(
            f"{folder}: holds another export ({'; '.join(differing)}); delete it, or choose another --to"
        )


def _report(
    request: Request,
    format_: Format,
    sources: Sequence[ExportSource],
    journal: Journal,
    *,
    already: bool,
) -> dict[str, Any]:
    """Give what the export holds, and how it is read."""
    return {
        "dataset": request.dataset,
        "format": format_.name,
        "client": format_.client,
        "to": str(request.to),
        "already": already,
        "epoch": request.epoch if format_.holds is Holds.ROWS else None,
        "splits": {source.split: source.manifest.totals.model_dump(mode="json") for source in sources},
        "bytes": sum(file.bytes for file in journal.files.values()),
        "files": {name: file.model_dump(mode="json") for name, file in journal.files.items()},
        "read": format_.read(sources, str(request.to)),
        "notes": list(format_.notes(sources)),
    }
