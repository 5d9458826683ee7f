"""Mounts: folders of this process whose files lie in a store, and are brought when they are asked for.

A run in a store has a tree on each machine that works on it: a folder with the run's keys. Whoever opens
a file of a run asks `here` for it first. In a run that lies in a folder, that is the path itself.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from stages.errors import DataError
from stages.store.digests import FileDigest, xxh3_file
from stages.store.folders import files_below
from stages.stores.cache import NodeCache
from stages.stores.pins import Hold
from stages.stores.store import Store


@dataclass(frozen=True)
class StoredFiles:
    """Files of a store that are brought to a tree by their digests; it goes to other processes."""

    root: Path
    """Of the tree."""
    store: Store
    cache: NodeCache

    def bring_sound(self, folder: Path, files: Mapping[str, FileDigest], *, check: bool) -> Hold:
        """Bring files of a folder, and hash what the cache has of them if asked.

        Args:
            folder: in the tree.
            files: by name.
            check: whether to hash them; what was changed in the cache is brought again.
        """
        wanted = files_at(self, folder, files)
        hold = self.bring_files(wanted)
        changed = {
            key: digest
            for key, digest in (wanted.items() if check else ())
            if xxh3_file(self.root / key) != digest.xxh3
        }
        for key, digest in changed.items():
            self.cache.drop(digest)
            self.cache.bring(self.store, key, digest, self.root / key, hold)
        return hold

    def bring_files(self, files: Mapping[str, FileDigest]) -> Hold:
        """Bring files by key; they stay until what is returned is closed."""
        hold = self.cache.hold()
        for key, digest in files.items():
            self.cache.bring(self.store, key, digest, self.root / key, hold)
        return hold


class Mounted(Protocol):
    """What has the files of a tree."""

    @property
    def place(self) -> str:
        """The URL, for messages."""

    @property
    def stored(self) -> StoredFiles:
        """What brings files by their digests."""

    def keys_below(self, key: str) -> Iterable[str]:
        """Return the keys of all committed files of a folder."""

    def brings_whole(self, key: str) -> bool:
        """Say whether a file is brought whole where only some rows of it are asked for."""

    def bring_again(self, key: str) -> None:
        """Bring a file from the store, whatever the cache has."""

    def bring(self, key: str) -> None:
        """Bring a file, or all files of a folder; what is not committed is left alone."""


_MOUNTS: dict[str, Mounted] = {}
"""By the path of the tree."""


def mount(tree: Path, mounted: Mounted) -> None:
    """Have the files of a tree brought when they are asked for.

    Args:
        tree: an absolute path, with no link in it.
        mounted: what has them.
    """
    _MOUNTS[str(tree)] = mounted


def unmount(tree: Path) -> None:
    """Forget a tree."""
    _MOUNTS.pop(str(tree), None)


def mounted_at(path: Path) -> tuple[Path, Mounted] | None:
    """Return the innermost tree that a path is in, and what has its files; None for other folders."""
    if not _MOUNTS:
        return None
    for folder in (path, *path.parents):
        found = _MOUNTS.get(str(folder))
        if found is not None:
            return folder, found
    return None


def here(path: Path) -> Path:
    """Return the path of a file or folder of a run, whose committed files lie there from now on.

    Raises:
        DataError: an object is gone, or has other bytes than were committed.
        Stopped: the store has no answer.
    """
    found = mounted_at(path)
    if found is not None and found[0] != path:
        found[1].bring(path.relative_to(found[0]).as_posix())
    return path


def again(path: Path) -> bool:
    """Bring a file of a run in a store anew, as it is there; say whether that was done.

    Raises:
        Stopped: the store has no answer.
    """
    found = mounted_at(path)
    if found is None:
        return False
    with contextlib.suppress(DataError):  # gone, or changed: then it is absent here
        found[1].bring_again(path.relative_to(found[0]).as_posix())
    return True


def files_of(folder: Path) -> Iterator[Path]:
    """Yield the paths of all files below a folder of a run; whoever opens one asks `here` for it."""
    found = mounted_at(folder)
    if found is None:
        yield from files_below(folder)
        return
    tree, mounted = found
    inside = "" if folder == tree else folder.relative_to(tree).as_posix()
    yield from (tree / key for key in mounted.keys_below(inside))
    for other, one in list(_MOUNTS.items()):  # trees of later generations
        if other.startswith(f"{folder}/"):
            yield from (Path(other) / key for key in one.keys_below(""))


def stored_at(folder: Path) -> StoredFiles | None:
    """Return what brings the files of a folder by their digests; None for a folder that has them."""
    found = mounted_at(folder)
    return None if found is None else found[1].stored


def files_at(
    stored: StoredFiles, folder: Path, files: Mapping[str, FileDigest]
) -> dict[str, FileDigest]:
    """Return files of a folder in a tree by their keys."""
    begin = folder.relative_to(stored.root).as_posix()
    return {f"{begin}/{name}": digest for name, digest in files.items()}
