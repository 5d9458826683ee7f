"""A run whose folder is only read: what a session makes anew lies in a folder of its own.

    put_anew("commits/decode")     from now on this folder is the session's own, and empty
    path, get, put_new             below such a folder: in the session's folder; elsewhere in the run's

The run's own objects stay as they are; `verify` gives its verdict on a run that nobody may change.
"""

import contextlib
import os
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

from pipeline.state.commit_object import COMMITS
from pipeline.state.commits import Commits
from pipeline.state.journal import LOCK, LOG
from pipeline.state.places import commits_of
from pipeline.state.storage import TEMPORARY, LocalStorage
from pipeline.state.stored_run import stored_run_at
from stages.store.folders import entries

_WRITTEN = (LOCK, LOG, TEMPORARY, COMMITS, "report", "verify")
_PREFIX = "shardmill-verify-"


class ReadOnlyStorage(LocalStorage):
    """A run in a folder that is only read.

    Args:
        root: the run's folder.
        own: the session's folder; empty.
    """

    def __init__(self, root: Path, own: Path) -> None:
        super().__init__(root)
        self._read_storage = commits_of(root).storage
        self.temporary = own / TEMPORARY
        self._own_storage = LocalStorage(own)
        self._anew: set[str] = set()

    def put_anew(self, folder: str) -> None:
        """Let a folder be the session's own from now on; there is nothing in it."""
        self._anew.add(folder)

    def path(self, key: str) -> Path:
        """Return the place of a key."""
        return self._storage_of(key).path(key)

    def size(self, key: str) -> int | None:
        """Return the bytes of an object, or None if there is none."""
        return self._storage_of(key).size(key)

    def _storage_of(self, key: str) -> LocalStorage:
        is_own = any(key == folder or key.startswith(f"{folder}/") for folder in self._anew)
        return self._own_storage if is_own else self._read_storage

    def put_new(self, key: str, data: bytes) -> bool:
        """Put an object into a folder of the session's own."""
        assert self._storage_of(key) is self._own_storage, key
        return self._own_storage.put_new(key, data)

    def link_new(self, written: str, key: str) -> bool:
        """Put a finished file into a folder of the session's own, too."""
        assert self._storage_of(key) is self._own_storage, key
        return self._own_storage.link_new(written, key)


class ReadOnlyCommits(Commits):
    """The commits of a run that is only read; a step that is done again is the session's own.

    Args:
        root: the run's folder.
        own: the session's folder; empty.
    """

    def __init__(self, root: Path, own: Path) -> None:
        self.storage: ReadOnlyStorage
        super().__init__(ReadOnlyStorage(root, own))

    def drop(self, step: str, units: Collection[str] | None = None) -> None:
        """Forget a step for this session."""
        assert units is None, step
        self._listed.pop(step, None)
        self.storage.put_anew(f"{COMMITS}/{step}")

    def release(self, step: str, passing: tuple[str, ...]) -> None:
        """Leave what only the work on a step needed."""


def can_write(root: Path) -> bool:
    """Say whether `verify` may write where it does; nobody may on a read-only file system."""
    places = (root, *(root / name for name in _WRITTEN), *entries(root / COMMITS))
    return all(os.access(place, os.W_OK) for place in places if place.exists())


@contextlib.contextmanager
def own_folder(root: Path) -> Iterator[Path | None]:
    """Yield a folder to write to if that of a run cannot be written to, else None; it is removed.

    Args:
        root: the run's folder.
    """
    run = stored_run_at(root)
    if can_write(root) if run is None else run.lease is not None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        yield Path(folder).resolve()
