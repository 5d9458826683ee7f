"""Storage: named objects under a run's folder, and the three verbs that commits need.

    put_new(key, data)   all or nothing, and only if there is no such object
    get(key)             its bytes, or None
    list(prefix)         keys, sorted

An object store offers the same three (a conditional put, a get, a listing) without any rename, so the
protocol of `pipeline.commits` carries over. Keys are POSIX paths of plain names.
"""

import contextlib
import os
import re
import shutil
import uuid
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Protocol

from stages.store.digests import sync_path

_KEY = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
TEMPORARY = "tmp"


class Storage(Protocol):
    """What commits ask of a place that holds a run."""

    def put_new(self, key: str, data: bytes) -> bool:
        """Create an object whole; False if the key is taken."""
        ...

    def get(self, key: str) -> bytes | None:
        """Give an object's bytes, or None."""
        ...

    def list(self, prefix: str) -> Iterator[str]:
        """Give the keys below a prefix, sorted."""
        ...

    def delete(self, key: str) -> None:
        """Remove an object, or all below a prefix, if there."""
        ...

    def publish(self, temporary: Path, key: str) -> None:
        """Move a finished file to its key, replacing what an uncommitted attempt left there."""
        ...

    def settle(self, keys: Collection[str]) -> None:
        """Return once the moves to these keys would outlast a loss of power."""
        ...


class LocalStorage:
    """A run in a local folder (or one mounted on every node).

    Args:
        root: the run's folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lasting: set[Path] = set()

    def path(self, key: str) -> Path:
        """Give the place of a key; a key can never leave the root."""
        assert _KEY.fullmatch(key), key
        assert ".." not in key.split("/"), key
        return self.root / key

    def put_new(self, key: str, data: bytes) -> bool:
        """Write beside, then link under the key: the link fails if there is one."""
        target = self.path(key)
        self._make_folder(target.parent)
        beside = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        try:
            with beside.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.link(beside, target)
        except FileExistsError:
            return False
        finally:
            beside.unlink(missing_ok=True)
        sync_path(target.parent)
        return True

    def get(self, key: str) -> bytes | None:
        """Give an object's bytes, or None."""
        try:
            return self.path(key).read_bytes()
        except FileNotFoundError:
            return None

    def list(self, prefix: str) -> Iterator[str]:
        """Give the keys below a prefix, sorted; half-written objects have no key."""
        for path in sorted(self.path(prefix).rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                yield path.relative_to(self.root).as_posix()

    def delete(self, key: str) -> None:
        """Remove an object, or all below a prefix, if there."""
        path = self.path(key)
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
            self._lasting.clear()
        else:
            path.unlink(missing_ok=True)

    def publish(self, temporary: Path, key: str) -> None:
        """Rename a finished file to its key."""
        target = self.path(key)
        self._make_folder(target.parent)
        os.replace(temporary, target)  # noqa: PTH105  # rename(2), said plainly

    def settle(self, keys: Collection[str]) -> None:
        """Bring the folders of some keys to the disk."""
        for folder in {self.path(key).parent for key in keys}:
            sync_path(folder)

    def _make_folder(self, folder: Path) -> None:
        """Make a folder of the run, and sync its name before it holds anything.

        The name is synced even if the folder is there: who made it may have been killed before the sync.
        """
        if folder in self._lasting:
            return
        if folder == self.root:
            make_folder(folder)
        else:
            self._make_folder(folder.parent)
            folder.mkdir(exist_ok=True)
            sync_path(folder.parent)
        self._lasting.add(folder)


def make_folder(folder: Path) -> None:
    """Make a folder and its parents, so that a power cut leaves them there."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for place in missing or [folder]:
        with contextlib.suppress(PermissionError):  # one may write into a folder that none may list
            sync_path(place.parent)


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file's content: a kill or a power cut leaves the old or the new one, whole."""
    beside = path.with_name(f".{path.name}")
    beside.write_bytes(data)
    sync_path(beside)
    beside.replace(path)
    sync_path(path.parent)


def sweep(root: Path) -> None:
    """Remove what other attempts left: files under `tmp/`, and commits never linked to their keys.

    The names of commits are synced: who made the last one may have been killed before the sync.
    """
    with contextlib.suppress(FileNotFoundError):
        for attempt in (root / TEMPORARY).iterdir():
            shutil.rmtree(attempt, ignore_errors=True)
    for half_written in (root / "commits").glob("*/.*"):
        half_written.unlink(missing_ok=True)
    for step in (root / "commits").glob("*"):
        sync_path(step)
    if (root / "commits").exists():
        sync_path(root / "commits")
