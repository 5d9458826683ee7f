"""Publishing: how the files of a unit come from its worker's folder to their keys in a run's folder.

A worker links them, which replaces nothing. A key at which something lies is left to the driver, which
has the run's lock. So a committed file is never one that another worker has in its folder, too, be it of
the same bytes. Until the unit is committed its files are under both names, by which
`pipeline.state.attempts` finds what was published in vain.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from pipeline.state.commit_object import Commit
from pipeline.state.storage import LocalStorage
from stages.config import canonical_json
from stages.errors import DataError
from stages.store.digests import FileDigest, sync_path

COMMIT_FILE = ".commit"
"""In the folder of a unit: the commit object that its worker wrote. It begins as no key does."""


@dataclass(frozen=True)
class Published:
    """What a worker did to have its unit committed."""

    seal: str = ""
    """Digest of the commit that it made; empty if it made none."""
    is_linked: bool = False
    """Whether its files and its commit stay in its folder until the driver has linked the commit."""
    taken: tuple[str, ...] = ()
    """Keys at which something was found: the driver replaces it."""
    tags: dict[str, str] = field(default_factory=dict)
    """Of files that it put into a store, by key."""


NOTHING_PUBLISHED = Published()


@dataclass(frozen=True)
class Outcome:
    """What a worker hands back: files it wrote under its attempt's folder, and its record."""

    folder: Path
    """Where the files are; their final keys are relative to it."""
    files: Mapping[str, FileDigest]
    record: dict[str, JsonValue] = field(default_factory=dict)
    """Part of the commit: a function of the work alone."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Part of the log: seconds and bytes of memory."""
    host: str = ""
    """Part of the log: the machine of its worker."""
    published: Published = NOTHING_PUBLISHED
    """What its worker did of the commit."""


def publish(storage: LocalStorage, folder: Path, commit: Commit) -> Published:
    """Link the files of a unit to their keys, and write its commit beside them.

    Args:
        storage: of the run.
        folder: the unit's own, below its attempt's; its files are on the disk.
        commit: sealed; names them.

    Raises:
        DataError: a file has not the size that it was written with.
    """
    for key, digest in commit.files.items():
        require_written(folder / key, digest)
    taken = [key for key in commit.files if not storage.link_new(f"{folder}/{key}", key)]
    storage.sync_folders(commit.files)
    place = folder / COMMIT_FILE
    place.write_bytes(canonical_json(commit))
    sync_path(place)
    return Published(commit.xxh3, is_linked=True, taken=tuple(taken))


def require_written(written: Path, digest: FileDigest) -> None:
    """Refuse a file that has not the size that its worker reported.

    Raises:
        DataError: it has not.
    """
    found = written.stat().st_size
    if found != digest.bytes:
        raise DataError(
            f"{written}: has {found:,} bytes, and its worker wrote {digest.bytes:,}; the disk"
            " lost some, or somebody changed it. Run again"
        )
