"""The tree of a run in a store: a folder of this machine with the run's keys.

    TREE/commits/, run.json     what the log says; made anew when a session begins
    TREE/...                    committed files that were asked for: links into the node's cache

What opens a run's folder works on its tree as it is, once it has asked for the file. The tree is never
truth.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pipeline.state.commit_object import COMMITS
from pipeline.state.publishing import require_written
from pipeline.state.storage import LocalStorage
from stages.errors import DataError
from stages.store.digests import FileDigest
from stages.stores.bucket import PART_BYTES
from stages.stores.cache import NodeCache
from stages.stores.mounts import StoredFiles, here
from stages.stores.ranges import WHOLE_BYTES
from stages.stores.store import Store

_AT_ONCE = 4
"""Files that are put at once by one process."""


class KnownFiles(Protocol):
    """What is committed: the digest of each file."""

    def below(self, key: str) -> Mapping[str, FileDigest]:
        """Return a file of this key, or all files of this folder, by key; none if there are none."""
        ...


@dataclass(eq=False)
class CommittedFiles:
    """The files of all commits, kept as folders are: a name leads to a file or to more names."""

    _root: dict[str, object] = field(default_factory=dict)

    def add(self, files: Mapping[str, FileDigest]) -> None:
        """Note files."""
        for key, digest in files.items():
            *folders, name = key.split("/")
            at = self._root
            for folder in folders:
                at = at.setdefault(folder, {})  # type: ignore[assignment]  # a folder, or a new one
            at[name] = digest

    def remove(self, keys: Iterable[str]) -> None:
        """Forget files."""
        for key in keys:
            *folders, name = key.split("/")
            at: object = self._root
            for folder in folders:
                at = at.get(folder) if isinstance(at, dict) else None
            if isinstance(at, dict):
                at.pop(name, None)

    def below(self, key: str) -> Mapping[str, FileDigest]:
        """Return a file of this key, or all files of this folder, by key; all files for an empty key."""
        at: object = self._root
        for name in key.split("/") if key else ():
            at = at.get(name) if isinstance(at, dict) else None
        return dict(_files(key, at))

    def size(self, key: str) -> int | None:
        """Return the bytes of a file; None if none is committed."""
        found = self.below(key).get(key)
        return None if found is None else found.bytes


def _files(key: str, at: object) -> Iterator[tuple[str, FileDigest]]:
    if isinstance(at, FileDigest):
        yield key, at
    elif isinstance(at, dict):
        for name in sorted(at):
            yield from _files(f"{key}/{name}" if key else name, at[name])


@dataclass
class Tree:
    """A tree whose committed files are brought when they are asked for."""

    root: Path
    store: Store
    cache: NodeCache
    files: KnownFiles
    tolerant: bool = False
    """Whether files that are gone or have other bytes are left absent; checks name them."""

    @property
    def place(self) -> str:
        """The URL, for messages."""
        return self.store.place

    @property
    def stored(self) -> StoredFiles:
        """What brings files by their digests."""
        return StoredFiles(self.root, self.store, self.cache)

    def keys_below(self, key: str) -> Iterable[str]:
        """Return the keys of all committed files of a folder."""
        return self.files.below(key)

    def bring(self, key: str) -> None:
        """Bring a file, or all files of a folder; what is not committed is left alone."""
        for one, digest in self.files.below(key).items():
            try:
                self.cache.bring(self.store, one, digest, self.root / one)
            except DataError:
                if not self.tolerant:
                    raise
                (self.root / one).unlink(missing_ok=True)

    def brings_whole(self, key: str) -> bool:
        """Say whether a file is brought whole where only some rows of it are asked for."""
        digest = self.files.below(key).get(key)
        if digest is None or self.tolerant:
            return True
        return digest.bytes <= WHOLE_BYTES or self.cache.has(digest)

    def bring_again(self, key: str) -> None:
        """Bring a file from the store, whatever the cache has."""
        for one, digest in self.files.below(key).items():
            self.cache.drop(digest)
            self.cache.bring(self.store, one, digest, self.root / one)


def put_files(
    store: Store, folder: Path, files: Mapping[str, FileDigest], cache: NodeCache, root: Path
) -> dict[str, str]:
    """Put files into a store, and keep them in the cache.

    Args:
        store: where they are to be.
        folder: where they are, below their keys.
        files: their digests by key.
        cache: of this machine.
        root: of the tree in which they are to be found.

    Returns:
        The tags of their objects, by key.

    Raises:
        DataError: a file has another size than its digest says.
        Stopped: the store has no answer.
    """

    def one(key: str) -> str:
        require_written(folder / key, files[key])
        tag = store.put(key, folder / key)
        cache.add(folder / key, files[key], root / key)
        return tag

    large = [key for key, digest in files.items() if digest.bytes > PART_BYTES]
    tags = {key: one(key) for key in large}  # each goes in parts, which need room enough
    small = [key for key in files if key not in tags]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return tags | dict(zip(small, pool.map(one, small), strict=True))


class TreeStorage(LocalStorage):
    """The storage of a tree: an object is there if it is committed, wherever its bytes are.

    Args:
        root: of the tree.
        files: that are committed.
    """

    def __init__(self, root: Path, files: CommittedFiles) -> None:
        super().__init__(root)
        self._files = files

    def path(self, key: str) -> Path:
        """Return the place of a key, where a committed file lies from now on."""
        path = super().path(key)
        return path if key.startswith(COMMITS) else here(path)

    def put_new(self, key: str, data: bytes) -> bool:
        """Write an object that nothing needs to outlast: a tree is made anew from the log."""
        path = self.path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("xb") as file:
                file.write(data)
        except FileExistsError:
            return False
        return True

    def sync_folders(self, keys: Collection[str]) -> None:
        """Leave them as they are: nothing of a tree needs to last."""

    def size(self, key: str) -> int | None:
        """Return the bytes of an object, or None if there is none."""
        return super().size(key) if key.startswith(COMMITS) else self._files.size(key)
