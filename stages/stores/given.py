"""Given files: what a run file names on the user's machine, as tasks on any machine read it.

    given/SHA256                     in the store of a run: such a file, put there once
    CACHE/trees/.../given/FOLDER/    on a node: links to the files, under the names that they have there

A run in a folder has none: its files are where the run file says. Nor are inputs given, nor modules of
Python.
"""

import contextlib
import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from stages.store.digests import FileDigest
from stages.stores.cache import NodeCache
from stages.stores.store import Store

GIVEN = "given"


@dataclass(frozen=True)
class GivenFolder:
    """Files of a folder of the user's machine."""

    folder: Path
    """Where it is there, absolute."""
    files: Mapping[str, FileDigest]
    """By their POSIX paths below it."""

    @property
    def name(self) -> str:
        """Of its links on a node; another one once a file has changed."""
        digest = hashlib.sha256(str(self.folder).encode())
        for path, one in sorted(self.files.items()):
            digest.update(f"\0{path}\0{one.sha256}".encode())
        return digest.hexdigest()[:24]


@dataclass(frozen=True)
class GivenFiles:
    """All files that a run was given, for the processes of a node."""

    store: Store
    cache: NodeCache
    place: Path
    """Folder of the links, below the cache's."""
    folders: tuple[GivenFolder, ...] = ()

    def bring(self, given: GivenFolder, names: Collection[str]) -> Path:
        """Bring files of a folder; return where the folder is here."""
        here = self.place / given.name
        for name in names:
            digest = given.files[name]
            self.cache.bring(self.store, f"{GIVEN}/{digest.sha256}", digest, here / name)
        return here


_KNOWN: list[GivenFiles] = []
"""Of the task that this process does."""


@contextlib.contextmanager
def giving(files: GivenFiles) -> Iterator[None]:
    """Have `given_path` find files, until the end of a task."""
    _KNOWN.append(files)
    try:
        yield
    finally:
        _KNOWN.pop()


def given_path(path: Path) -> Path:
    """Return where a file or folder of the user's machine is here.

    Args:
        path: absolute. Of a folder, those of its files are here that were given. What was not given is
            where the path says.

    Raises:
        DataError: an object is gone, or has other bytes.
        Stopped: the store has no answer.
    """
    for known in _KNOWN:
        for one in known.folders:
            if one.folder == path:
                return known.bring(one, one.files)
            if one.folder == path.parent and path.name in one.files:
                return known.bring(one, (path.name,)) / path.name
    return path
