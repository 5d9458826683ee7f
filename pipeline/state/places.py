"""Places: where a run lies, as the commands and the workers of a session have it.

a folder          is used as it is
s3://bucket/run   has a tree on each machine, in which files lie once they are asked for
"""

import contextlib
import hashlib
import shutil
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from pipeline.state.commits import Commits
from pipeline.state.copied_run import take_over_copy
from pipeline.state.other_runs import opening_others, other_runs
from pipeline.state.storage import LocalStorage
from pipeline.state.stored_run import read_run, stored_run_at, working_run
from pipeline.state.worker_place import FolderPlace, WorkerPlace
from pipeline.system.printable import name_folder
from stages.errors import ConfigError, NoRightError
from stages.store.folders import files_below
from stages.stores.cache import NodeCache, node_cache
from stages.stores.folder import FolderStore
from stages.stores.objects import ObjectStore
from stages.stores.url import StoreUrl, is_store_url

_RANGE = 16 << 20
"""Bytes of an object that are compared at once."""
WRITTEN = "written"
"""Folder, in the cache, of what is put at a URL when it is whole."""


def commits_of(root: Path) -> Commits:
    """Return the commits of a run, for who only reads them.

    Args:
        root: its folder, or its tree.
    """
    run = stored_run_at(root)
    return Commits(LocalStorage(root)) if run is None else run.commits(root)


def working_commits_of(root: Path) -> Commits:
    """Return the commits of a run that this process holds, for who adds some."""
    run = stored_run_at(root)
    return Commits(LocalStorage(root)) if run is None else run.working_commits(root)


def place_of(root: Path, temporary: Path) -> WorkerPlace:
    """Return the place of a run that this process holds.

    Args:
        root: its folder, or its tree.
        temporary: folder of this session's unfinished files.
    """
    run = stored_run_at(root)
    if run is None:
        return FolderPlace(root, temporary, other_runs())
    return run.place(root, temporary, other_runs())


def opened_for(owner: object, place: Path, *, key: str) -> Path:
    """Return the folder of a run to read for as long as an object lives.

    Args:
        owner: the object.
        place: a folder, or a URL.
        key: of the option or argument, for messages.
    """
    stack = contextlib.ExitStack()
    folder = stack.enter_context(reading(place, key=key))
    weakref.finalize(owner, stack.close)
    return folder


@contextlib.contextmanager
def reading(place: Path, *, key: str, tolerant: bool = False) -> Iterator[Path]:
    """Yield the folder of a run to read: itself, or the tree of a run in a store.

    Args:
        place: a folder, or a URL.
        key: of the option or argument, for messages.
        tolerant: whether objects that are gone or changed are left absent, for checks that name them.
    """
    store = _store_to_read(place, key)
    with opening_others():
        if store is None:
            yield place
            return
        with read_run(store, node_cache(), tolerant=tolerant) as run:
            yield run.root


@contextlib.contextmanager
def holding_or_reading(
    place: Path, *, key: str, cache: NodeCache, tell: Callable[[str], None]
) -> Iterator[Path]:
    """Yield the folder of a run to work in, or to read if this user may write nothing there.

    Args are those of `holding`.
    """
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(holding(place, key=key, cache=cache, tell=tell))
        except NoRightError:
            folder = stack.enter_context(reading(place, key=key, tolerant=True))
        yield folder


@contextlib.contextmanager
def holding(place: Path, *, key: str, cache: NodeCache, tell: Callable[[str], None]) -> Iterator[Path]:
    """Yield the folder of a run to work in: itself, or the tree of a run in a store.

    Args:
        place: a folder, or a URL.
        key: of the option or argument, for messages.
        cache: of this machine.
        tell: is told for whom this waits.
    """
    if not is_store_url(str(place)):
        take_over_copy(place)
        with opening_others():
            yield place
        return
    with opening_others(), working_run(_store(place, key), cache, tell) as run:
        yield run.root


def _store_to_read(place: Path, key: str) -> ObjectStore | FolderStore | None:
    """Return where a run is that is read through a tree; None for a folder, which is its own."""
    if is_store_url(str(place)):
        return _store(place, key)
    try:
        take_over_copy(place)
    except NoRightError:  # its commits stay in the log
        return FolderStore(place.resolve())
    return None


def _store(place: Path, key: str) -> ObjectStore:
    return ObjectStore(StoreUrl.parse(str(place), key=key))


@contextlib.contextmanager
def writing(place: Path, *, key: str, markers: Sequence[str] = ()) -> Iterator[Path]:
    """Yield the folder to write into: itself, or one whose files are put at a URL at the end.

    If that was cut, the next call puts the rest.

    Args:
        place: a folder, or a URL.
        key: of the option or argument, for messages.
        markers: what the names of files end with by which readers know that others are there; these
            are put last, in this order.

    Raises:
        ConfigError: there is something else below the URL already.
    """
    if not is_store_url(str(place)):
        yield place
        return
    store, cache = _store(place, key), node_cache()
    digest = hashlib.sha256(store.place.encode()).hexdigest()[:24]
    local = cache.folder.resolve() / WRITTEN / digest / store.place.rpartition("/")[2]
    _already_put(store, _in_order(local, markers), key)
    local.parent.mkdir(parents=True, exist_ok=True)
    name_folder(local, store.place)
    yield local
    files = _in_order(local, markers)
    there = _already_put(store, files, key)
    for name, path in files.items():
        if name in there:
            _require_same(store, name, path, key)
        else:
            store.put(name, path)
    shutil.rmtree(local.parent)


def _in_order(folder: Path, markers: Sequence[str]) -> dict[str, Path]:
    """Return the files of a folder by key, in the order in which they are put."""

    def turn(path: Path) -> tuple[int, Path]:
        turns = [at for at, marker in enumerate(markers, 1) if path.name.endswith(marker)]
        return max(turns, default=0), path

    return {p.relative_to(folder).as_posix(): p for p in sorted(files_below(folder), key=turn)}


def _already_put(store: ObjectStore, files: Mapping[str, Path], key: str) -> set[str]:
    """Return the keys that an earlier call put, which was cut before the last one.

    Raises:
        ConfigError: there is something else, or all of it.
    """
    found = list(store.list(""))
    sizes = {name: path.stat().st_size for name, path in list(files.items())[:-1]}
    for one in found:
        if sizes.get(one.key) != one.size:
            raise _filled(store, one.key, key)
    return {one.key for one in found}


def _require_same(store: ObjectStore, name: str, path: Path, key: str) -> None:
    """Hold what an earlier call put to the file that this one has: it may be of another run.

    Raises:
        ConfigError: it has other bytes.
    """
    with path.open("rb") as file:
        for begin in range(0, path.stat().st_size, _RANGE):
            own = file.read(_RANGE)
            found = store.get(name, begin, begin + len(own))
            if found is None or found.data != own:
                raise _filled(store, name, key)


def _filled(store: ObjectStore, name: str, key: str) -> ConfigError:
    return ConfigError(
        f"{key} {store.place}: holds {name!r} already; name a prefix below which there is nothing, or"
        " remove what is there"
    )
