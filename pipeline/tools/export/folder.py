"""An export's folder: what it says of itself, half-made or finished, and which folders it cannot be.

    TO.partial/parts.jsonl    the journal: what is exported, then a line a part, with the files it wrote
    TO/export.json            what it holds: every file with its size and SHA-256

Nothing here writes what is exported; that is `pipeline.tools.export.dataset`.

README.md of an export for the Hugging Face Hub: the run's card, and which files are which split.

    README.md                                  metadata between lines of ---, then the card
    train/train-00000-of-00001.parquet
    validation/validation-00000-of-00001.parquet

(Hub documentation, "Data files configuration".)

Parts of an export: written one after the other, each kept in the journal, until the folder is whole.

TO.partial/parts.jsonl    what is exported, then a line a part, with the files it wrote
TO.partial/...            the files so far
TO/                       the same folder, renamed when its last part is done
TO/export.json            what it holds: every file with its size and SHA-256
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal, TextIO

from pipeline.engine.progress import Progress
from pipeline.report.card import render_card
from pipeline.report.report import Report
from pipeline.state.atomic_write import atomic_write, partial_of
from pipeline.state.journal import LOCK
from pipeline.state.state_files import parse_model, read_bytes
from pipeline.steps.run_folder import RunFolder
from pipeline.system.disk_faults import disk_faults
from pipeline.system.printable import as_known
from pipeline.system.stopping import signals_stop
from stages.config import Config, canonical_json
from stages.errors import ConfigError, FormatError, ShardmillError, Stopped
from stages.export.files import ExportFiles, WrittenFile
from stages.export.source import ExportSource
from stages.store.digests import sync_path
from stages.stores.url import is_store_url

SUMMARY = "export.json"
PARTS = "parts.jsonl"


class Identity(Config):
    """What an export is of; two that agree have the same bytes."""

    format_version: Literal[1] = 1
    format: str
    dataset: str
    epoch: int
    columns: tuple[str, ...] = ()
    """Of the rows; none if documents are exported, or an earlier version exported rows."""
    splits: dict[str, tuple[str, ...]]
    """Of each split the fingerprint of its dataset, and of its epochs on disk if rows are exported
    that cannot be drawn without them."""


class DonePart(Config):
    """A part that is done, and how far the files are that it wrote."""

    part: str
    files: dict[str, WrittenFile]


class Summary(Config):
    """What a finished export holds."""

    identity: Identity
    parts: tuple[str, ...]
    files: dict[str, WrittenFile]


def read_from(target: Path) -> str:
    """Return the folder that code which reads an export names: a local one, once it is copied."""
    return "EXPORT" if is_store_url(as_known(str(target))) else str(target)


def names_of(given: Sequence[str]) -> tuple[str, ...]:
    """Return names, of which a single one may stand alone."""
    return (given,) if isinstance(given, str) else tuple(given)


def overlap(one: Path, other: Path) -> bool:
    """Say whether one folder is the other, or lies in it."""
    one, other = one.resolve(), other.resolve()
    return one.is_relative_to(other) or other.is_relative_to(one)


def refuse_overlap(to: Path, run: Path) -> None:
    """Refuse an export and a run that would delete each other's files.

    Raises:
        ConfigError: the target, or the folder that it is made in, holds the run or lies in it.
    """
    for place in (to, partial_of(to)):
        if overlap(*(Path(as_known(str(one))) for one in (place, run))):
            raise ConfigError(
                f"--to {to} overlaps with the run folder {run}: each would delete files of the other;"
                " choose another --to"
            )


def refuse_target(to: Path) -> None:
    """Refuse a target that a folder cannot be renamed to.

    Raises:
        ConfigError: a link, or something else than an empty folder.
    """
    if to.is_symlink() or to.name in {"", ".."}:
        raise ConfigError(f"--to {to}: is a link or has no name of its own; name the folder itself")
    if to.exists() and not (to.is_dir() and not any(to.iterdir())):
        raise ConfigError(f"--to {to}: is there and no export; choose another --to")


def refuse_strangers(folder: Path) -> None:
    """Refuse a folder that no export began: what an export does not know there, it deletes."""
    strangers = sorted(path.name for path in folder.iterdir() if path.name != LOCK)
    if strangers and PARTS not in strangers:
        raise ConfigError(
            f"{folder}: holds {strangers[0]} and no journal, so no half-made export; move it away, or"
            " choose another --to"
        )


def resume_parts(folder: Path, identity: Identity) -> list[DonePart]:
    """Return the parts that are done; begin the journal if there is none."""
    place = folder / PARTS
    content = place.read_bytes() if place.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]  # a crash may have cut the last line
    if len(whole) < len(content):
        os.truncate(place, len(whole))
    if not whole:
        _append_line(place, identity)
        sync_path(folder)
        return []
    first, *lines = whole.splitlines()
    found = parse_model(Identity, first, place, way_out=_way_out(folder))
    parts = [parse_model(DonePart, line, place, way_out=_way_out(folder)) for line in lines]
    require_same(folder, found, identity)
    return parts


def record_part(folder: Path, part: DonePart) -> None:
    """Note a part in the journal; its files are on the disk already."""
    _append_line(folder / PARTS, part)


def _append_line(place: Path, value: Config) -> None:
    with place.open("ab") as file:
        file.write(canonical_json(value) + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_summary(folder: Path) -> Summary | None:
    """Return what a finished export holds, or None if there is none."""
    try:
        data = read_bytes(folder / SUMMARY, way_out=_way_out(folder))
    except (FileNotFoundError, NotADirectoryError):
        return None
    return parse_model(Summary, data, folder / SUMMARY, way_out=_way_out(folder))


def _way_out(folder: Path) -> str:
    return f"delete {folder}, or choose another --to"


def require_same(folder: Path, found: Identity, wanted: Identity) -> None:
    """Refuse to mix two exports in one folder."""
    differing = [
        f"{name}: {getattr(found, name)} there, {getattr(wanted, name)} asked for"
        for name in ("format", "dataset", "epoch")
        if getattr(found, name) != getattr(wanted, name)
    ]
    if not differing and found.columns != wanted.columns:
        differing = [
            (
                f"columns: {', '.join(found.columns) or 'those of an earlier version'} there,"
                f" {', '.join(wanted.columns)} asked for"
            )
        ]
    if not differing and list(found.splits) != list(wanted.splits):
        differing = [f"splits: {', '.join(found.splits)} there, {', '.join(wanted.splits)} asked for"]
    if not differing and found.splits != wanted.splits:
        differing = ["the dataset was made anew since"]
    if differing:
        raise ConfigError(
            f"{folder}: holds another export ({'; '.join(differing)}); delete it, or choose another --to"
        )


def require_there(folder: Path, summary: Summary) -> None:
    """Refuse a finished export of which a file is gone, was cut or grew.

    Raises:
        FormatError: which file, and what it should be.
    """
    for name, file in summary.files.items():
        place = folder / name
        size = place.stat().st_size if place.is_file() else None
        if size != file.bytes:
            found = "gone" if size is None else f"{size:,} bytes"
            raise FormatError(
                f"{place}: {found}, but {file.bytes:,} bytes were exported; delete {folder} and export"
                " again"
            )


HUB_CARD = "README.md"
LAST = (HUB_CARD, SUMMARY)
"""Of any format: what is put behind all else at a URL."""


def hub_card(folder: Path, sources: Sequence[ExportSource]) -> str:
    """Return README.md of an export whose splits are folders of Parquet files.

    Args:
        folder: of the run; without a report there, the card says no more than where the splits are.
        sources: the splits.
    """
    name = sources[0].manifest.name
    lines = [f"configs:\n- config_name: {json.dumps(name)}\n  data_files:"]
    lines += [f"  - split: {one.split}\n    path: {one.split}/*.parquet" for one in sources]
    configs = "\n".join(lines)
    try:
        report = Report.model_validate_json((folder / "report" / "report.json").read_bytes())
        steady = report.model_copy(update={"made": None})  # no byte rests on versions of the moment
        return render_card(steady, RunFolder(folder).file, configs=configs)
    except (OSError, ValueError, LookupError, TypeError, ShardmillError):
        return f"---\n{configs}\n---\n\n# {name}\n"


ExportPart = tuple[str, partial[None]]
"""The name of a part, and what writes it, given the files."""


def exported(
    to: Path, identity: Identity, parts: Iterable[ExportPart], *, stream: TextIO | None
) -> tuple[Summary, bool]:
    """Return what a finished export holds, and whether it was there; write it, or go on with it, if not.

    Raises:
        ConfigError: the target or the folder beside it holds something else.
        FormatError: what an earlier call wrote was damaged.
        Stopped: by a signal, or because another process is at it.
    """
    summary = read_summary(to)
    already = summary is not None
    if summary is not None:
        require_same(to, summary.identity, identity)
        require_there(to, summary)
    else:
        every = list(parts)
        with export_folder(to, read_summary) as folder:
            refuse_strangers(folder)
            summary = _write_parts(folder, identity, every, stream=stream)
            put(folder / SUMMARY, json.dumps(summary.model_dump(mode="json"), indent=1) + "\n")
    for name in (PARTS, LOCK):
        (to / name).unlink(missing_ok=True)
    return summary, already


@contextmanager
def export_folder(to: Path, summary_of: Callable[[Path], object | None]) -> Iterator[Path]:
    """Yield the folder that an export is made in; it gets the target's name when it is whole.

    Args:
        to: the target.
        summary_of: what a finished export there holds, or None.

    Raises:
        ConfigError: the target holds something else.
        Stopped: by a signal, or because another process is at it.
    """
    refuse_target(to)
    with (
        disk_faults(partial_of(to)),
        signals_stop(),
        atomic_write(to, option="--to") as folder,
    ):
        if summary_of(to) is not None:
            raise Stopped(f"{to}: finished by another process in the meantime; run again to see it")
        refuse_target(to)
        yield folder


def put(place: Path, text: str) -> None:
    """Write a file of an export and bring it to the disk."""
    place.write_text(text, encoding="utf-8")
    sync_path(place)


def _write_parts(
    folder: Path, identity: Identity, parts: Sequence[ExportPart], *, stream: TextIO | None
) -> Summary:
    """Write the parts that are not done, each with its line in the journal."""
    done = resume_parts(folder, identity)
    files = ExportFiles(folder, {name: file for part in done for name, file in part.files.items()})
    files.restore(besides=(PARTS, LOCK))
    names = {part.part for part in done}
    progress = Progress(None, stream)
    left = [part for part in parts if part[0] not in names]
    if done and left:
        progress.note(f"{folder}: goes on after {done[-1].part}")
    batch = progress.start("export", f"export: {identity.format}", total=len(left))
    try:
        for name, write in left:
            write(files)
            record_part(folder, DonePart(part=name, files=files.commit()))
            batch.advance(more=False)
        batch.end()
    finally:
        progress.close()
    return Summary(identity=identity, parts=tuple(name for name, _ in parts), files=files.written)
