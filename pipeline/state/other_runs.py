"""Other runs that a run reads: those that it is deduplicated against, or replays.

a folder          is read where it is, which every node has at the same path
s3://bucket/run   has a tree on each machine; a worker reads its log when it first asks for a file
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.state.copied_run import state_of
from pipeline.state.stored_run import WAY_OUT, read_run
from pipeline.state.tree import CommittedFiles, Tree
from stages.store.digests import FileDigest
from stages.store.generations import GENERATIONS, generation_name
from stages.stores.cache import NodeCache, node_cache
from stages.stores.mounts import mount, mounted_at
from stages.stores.objects import ObjectStore
from stages.stores.store import Store
from stages.stores.url import StoreUrl, is_store_url


@dataclass(frozen=True)
class OtherRun:
    """A run in a store that is only read, as workers have it."""

    root: Path
    """Of its tree."""
    store: Store
    cache: NodeCache
    session: str = ""
    """Of the driver: what earlier ones left in a cache is hashed before it is used."""

    def open(self) -> None:
        """Have its files brought when they are asked for, in the process of a worker."""
        self.cache.session = self.session
        if mounted_at(self.root) is None:
            mount(self.root, Tree(self.root, self.store, self.cache, LoggedFiles(self.store)))


@dataclass(eq=False)
class LoggedFiles:
    """The files of a run and of its generations, by their logs, which are read when one is asked for."""

    store: Store
    _files: CommittedFiles | None = None

    def below(self, key: str) -> Mapping[str, FileDigest]:
        """Return a file of this key, or all files of this folder, by key; none if there are none."""
        if self._files is None:
            self._files = self._read()
        return self._files.below(key)

    def _read(self) -> CommittedFiles:
        """Return what all logs say; a store without an answer leaves nothing half read."""
        files, begin, number = CommittedFiles(), "", 0
        while True:
            store = self.store.at(begin.removesuffix("/")) if begin else self.store
            state = state_of(store, way_out=WAY_OUT)
            if not state.number:
                return files
            for units in state.commits.values():
                for entry in units.values():
                    files.add({f"{begin}{k}": d for k, d in entry.commit.files.items()})
            number += 1
            begin = f"{GENERATIONS}/{generation_name(number)}/"


@dataclass
class _Open:
    """Runs that are open in this process, by URL."""

    runs: dict[str, OtherRun] = field(default_factory=dict)
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    depth: int = 0


_OPEN = _Open()


@contextlib.contextmanager
def opening_others() -> Iterator[None]:
    """Close at the end the other runs that were opened inside."""
    _OPEN.depth += 1
    try:
        yield
    finally:
        _OPEN.depth -= 1
        if not _OPEN.depth:
            _OPEN.runs.clear()
            stack, _OPEN.stack = _OPEN.stack, contextlib.ExitStack()
            stack.close()


def other_runs() -> tuple[OtherRun, ...]:
    """Return the runs in stores that are open in this process, for its workers."""
    return tuple(_OPEN.runs.values())


def folder_of(place: str, base: Path, *, key: str) -> Path:
    """Return the folder of another run, or its tree on this machine.

    Args:
        place: a path or a URL, of a run or of a later generation.
        base: folder that a path is relative to.
        key: of the setting that names it, for messages.

    Raises:
        ConfigError: a URL that no run can have.
        Stopped: the store has no answer.
    """
    if not is_store_url(place):
        return (base / place).resolve()
    url = StoreUrl.parse(place, key=key)
    run, _, generation = url.prefix.partition(f"/{GENERATIONS}/")
    store = ObjectStore(StoreUrl(url.scheme, url.bucket, run))
    if store.place not in _OPEN.runs:
        cache = node_cache()
        opened = _OPEN.stack.enter_context(read_run(store, cache))
        _OPEN.runs[store.place] = OtherRun(opened.root, store, cache, cache.session)
    root = _OPEN.runs[store.place].root
    return root / GENERATIONS / generation if generation else root
