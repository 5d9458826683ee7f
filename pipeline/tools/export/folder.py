"""An export's folder: what it says of itself, half-made or finished, and which folders it cannot be.

    TO.partial/parts.jsonl    the journal: what is exported, then a line a part, with the files it wrote
    TO/export.json            what it holds: every file with its size and SHA-256

Nothing here writes what is exported; that is `pipeline.tools.export.dataset`.
"""

import os
from pathlib import Path
from typing import Literal

from pipeline.state.journal import LOCK
from pipeline.state.state_files import parse_model, read_bytes
from stages.config import Config, canonical_json
from stages.errors import ConfigError, FormatError
from stages.export.files import WrittenFile
from stages.store.digests import sync_path

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


def partial_of(to: Path) -> Path:
    """Return the folder that an export is made in."""
    return to.parent / f"{to.name}.partial"


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
        if overlap(place, run):
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


def keep_part(folder: Path, part: DonePart) -> None:
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
