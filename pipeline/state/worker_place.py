"""The place of a run as its workers have it: it goes to their processes, and knows what a task needs to.

a folder    that every node has at the same path: files are where they are, and a worker links new ones
a store     files are brought to the node's tree, and a worker puts new ones under their keys itself
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from pipeline.state.commit_object import Commit
from pipeline.state.file_tables import FileTable, TableFiles
from pipeline.state.lease import require_epoch
from pipeline.state.publishing import Published, publish
from pipeline.state.storage import LocalStorage
from pipeline.state.tree import Tree, put_files
from stages.store.digests import FileDigest
from stages.stores.cache import NodeCache
from stages.stores.given import GIVEN, GivenFiles, GivenFolder, giving
from stages.stores.mounts import mount, mounted_at
from stages.stores.store import Store


@dataclass(frozen=True)
class Known:
    """What a task is told of the files that it may read; nothing in a folder."""

    tables: tuple[FileTable, ...] = ()
    """Of steps."""
    files: Mapping[str, FileDigest] = field(default_factory=dict)
    """That are in none of them yet."""


NOTHING = Known()


class WorkerPlace(Protocol):
    """Where a run lies, as its workers have it; it goes to other processes."""

    @property
    def root(self) -> Path:
        """The run's folder, or its tree."""
        ...

    @property
    def temporary(self) -> Path:
        """Folder of this session's unfinished files."""
        ...

    def open(self) -> None:
        """Begin to work there, in the process of a worker."""

    def using(self, known: Known) -> contextlib.AbstractContextManager[None]:
        """Keep the files that a task reads until its end."""

    def publish(self, folder: Path, commit: Commit) -> Published:
        """Bring the files of a task to where they last, and its commit beside them in a folder.

        Args:
            folder: where the files are, below their keys.
            commit: names them.
        """
        ...


class OtherRunPlace(Protocol):
    """A run in a store that is only read."""

    @property
    def cache(self) -> NodeCache:
        """Of this machine."""

    def open(self) -> None:
        """Have its files brought when they are asked for."""


@dataclass(frozen=True)
class FolderPlace:
    """A folder that every node has at the same path."""

    root: Path
    temporary: Path
    others: tuple[OtherRunPlace, ...] = ()
    """Runs in stores that this one reads."""

    def open(self) -> None:
        """Begin to work there."""
        for other in self.others:
            other.open()

    def using(self, known: Known) -> contextlib.AbstractContextManager[None]:
        """Keep the files of other runs that a task reads until its end."""
        del known
        return self.others[0].cache.using() if self.others else contextlib.nullcontext()

    def publish(self, folder: Path, commit: Commit) -> Published:
        """Link the files of a task to their keys, and write its commit."""
        return publish(_storage_at(self.root, self.temporary), folder, commit.sealed())


@dataclass(frozen=True)
class TreePlace:
    """A run in a store, or a later generation of one, with a tree on this machine."""

    run: Path
    """The tree of the whole run."""
    store: Store
    """Where the whole run is."""
    key: str
    """Of the generation, below the run; empty for the run's own."""
    temporary: Path
    cache: NodeCache
    epoch: int
    """Of the driver's lease."""
    others: tuple[OtherRunPlace, ...] = ()
    """Runs in stores that this one reads."""
    tolerant: bool = False
    """Whether files that are gone or have other bytes are left absent; checks name them."""
    given: tuple[GivenFolder, ...] = ()
    """What the run file names on the driver's machine."""
    session: str = ""
    """Of the driver: what earlier ones left in a cache is hashed before it is used."""

    @property
    def root(self) -> Path:
        """The tree of the run or generation."""
        return self.run / self.key if self.key else self.run

    def open(self) -> None:
        """Begin to work there, in the process of a worker."""
        self.cache.session = self.session
        files = TableFiles(self.run, self.cache, self.store)
        mount(self.run, Tree(self.run, self.store, self.cache, files, self.tolerant))
        for other in self.others:
            other.open()

    @contextlib.contextmanager
    def using(self, known: Known) -> Iterator[None]:
        """Keep the files that a task reads until its end."""
        found = mounted_at(self.run)
        assert found is not None, "it was opened"
        files = getattr(found[1], "files", None)
        if isinstance(files, TableFiles):
            files.tell(known.tables, known.files)
        given = GivenFiles(self.store, self.cache, self.run.parent / GIVEN, self.given)
        with self.cache.using(), giving(given):
            yield

    def publish(self, folder: Path, commit: Commit) -> Published:
        """Put a task's files into the store."""
        if commit.files:
            require_epoch(self.store, self.epoch)
        own = self.store.at(self.key) if self.key else self.store
        tags = put_files(own, folder, commit.files, self.cache, self.root)
        return Published(commit.sealed().xxh3, tags=tags)


@lru_cache(1)
def _storage_at(root: Path, temporary: Path) -> LocalStorage:
    """Return the storage of a run's folder, which keeps in mind in a session what folders there are."""
    del temporary  # another session has another
    return LocalStorage(root)
