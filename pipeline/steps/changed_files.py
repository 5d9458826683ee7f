"""Held: committed files that are compared with their digests before a step reads them.

Files that an earlier session committed may have been changed since. Each is hashed once in a session,
by whichever worker is free; files made in the session count as checked.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.engine.tasks import Workspace
from stages.config import Config
from stages.errors import DataError, is_of_the_system
from stages.store.digests import FileDigest, xxh3_file
from stages.stores.mounts import again

_BYTES = 1 << 30
"""Bytes that one task hashes: a fraction of a second where files are in the cache of the system."""
_FILES = 1 << 10
"""Files that one task hashes."""


@dataclass(frozen=True)
class FilesToCheck:
    """Some committed files."""

    files: Mapping[str, FileDigest]
    folder: Path | None = None
    """Of the earlier run that they are of; None is this run."""


def files_to_check(
    files: Mapping[str, FileDigest], *, folder: Path | None = None
) -> Iterator[FilesToCheck]:
    """Yield files in parts, one for each task."""
    part: dict[str, FileDigest] = {}
    size = 0
    for key, digest in files.items():
        part[key] = digest
        size += digest.bytes
        if size >= _BYTES or len(part) >= _FILES:
            yield FilesToCheck(part, folder)
            part, size = {}, 0
    if part:
        yield FilesToCheck(part, folder)


class ChangedFilesRecord(Config):
    """What a comparison found."""

    changed: dict[str, str]
    """Files that are not what was committed, each with what was found instead."""


def compare_files(workspace: Workspace, work: FilesToCheck) -> ChangedFilesRecord:
    """Return the files that are not what was committed, each with what was found instead."""
    if work.folder is not None:
        workspace = replace(workspace, root=work.folder)
    changed = {key: _found(workspace, key, digest) for key, digest in work.files.items()}
    return ChangedFilesRecord(changed={key: fault for key, fault in changed.items() if fault})


def _found(workspace: Workspace, key: str, digest: FileDigest) -> str | None:
    """Return what is wrong with a file; of a run in a store, it is held to its digest as it comes."""
    try:
        workspace.path(key)
    except DataError as error:
        return str(error).partition(": ")[2]
    fault = _fault(workspace, key, digest)
    if fault is not None and again(workspace.root / key):  # it may be the cache that is damaged
        return _fault(workspace, key, digest)
    return fault


def _fault(workspace: Workspace, key: str, digest: FileDigest) -> str | None:
    path = workspace.root / key
    linked = next((place for place in _places(workspace, key) if place.is_symlink()), None)
    if linked is not None:
        return f"expected a file of the run, found a symbolic link at {linked}"
    try:
        size = path.stat().st_size
        if size != digest.bytes:
            return f"committed with {digest.bytes:,} bytes, found {size:,}"
        found = xxh3_file(path)
    except FileNotFoundError:
        return f"committed with {digest.bytes:,} bytes, found nothing"
    except OSError as error:
        if is_of_the_system(error):  # which says nothing of the file
            raise
        return f"cannot be read: {error.strerror}"
    if found != digest.xxh3:
        return f"committed with XXH3 {digest.xxh3}, found {found}"
    return None


def _places(workspace: Workspace, key: str) -> Sequence[Path]:
    """Return the file and the folders of the run that it lies in."""
    parts = key.split("/")
    return [workspace.root.joinpath(*parts[:end]) for end in range(1, len(parts) + 1)]
