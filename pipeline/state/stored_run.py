"""A run in a store, as this process reads it or works on it.

reading:  log -> tree
working:  probe -> lease -> log -> `take` in the log -> tree -> (session) -> what tells of it -> `end`

A run has a tree for itself and one in it for each later generation; each has a log of its own, below
its own key. One lease holds them all.
"""

import contextlib
import json
import os
import shutil
import socket
import tempfile
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipeline.state import lease as leases
from pipeline.state.commit_object import Commit
from pipeline.state.commits import DATASETS, PLAN, Commits
from pipeline.state.copied_run import require_no_copy, state_of
from pipeline.state.file_tables import FILES
from pipeline.state.listing import Listing, compare_listing
from pipeline.state.log import EndEntry, LogState, RunLog, TakeEntry
from pipeline.state.log_writer import LogWriter
from pipeline.state.probing import probe, require_nothing_else
from pipeline.state.progress_files import Teller, bring_progress
from pipeline.state.put_tables import PutTables
from pipeline.state.stored_commits import StoredCommits, TreeCommits, bring_manifests, mirror
from pipeline.state.tree import CommittedFiles, Tree, TreeStorage
from pipeline.state.tree_folders import TREES, lock_tree, passing_folder, tree_of
from pipeline.state.worker_place import Known, OtherRunPlace, TreePlace
from pipeline.system.printable import as_known, name_folder
from stages.errors import DataError, ShardmillError
from stages.store.digests import FileDigest, digest_file
from stages.store.generations import GENERATIONS, generation_name
from stages.stores.cache import NodeCache
from stages.stores.fetch import fetch
from stages.stores.given import GIVEN, GivenFolder
from stages.stores.mounts import mount, unmount
from stages.stores.pins import Hold
from stages.stores.store import Store

WAY_OUT = "restore the log from a version of the bucket, or run into another place"
_RUNS: dict[str, "StoredRun"] = {}
"""Open in this process, by the path of the tree."""


@dataclass(eq=False)
class _GenerationTree:
    """A run, or one later generation of it."""

    tree: Tree
    log: RunLog
    files: CommittedFiles
    commits: Commits
    tables: PutTables
    hold: Hold
    """Of the manifests."""
    events: int
    """Bytes of its event log that are in the store."""
    writer: LogWriter | None = None

    @property
    def is_there(self) -> bool:
        """Whether anything was ever written of it."""
        return self.log.state.number > 0


@dataclass(eq=False)
class StoredRun:
    """A run in a store that this process has open."""

    store: Store
    root: Path
    """Of its tree here."""
    cache: NodeCache
    lease: leases.Lease | None = None
    """None if it is only read."""
    tolerant: bool = False
    """Whether files that are gone or changed are left absent; checks name them."""
    given: tuple[GivenFolder, ...] = ()
    """What the run file names on this machine."""
    _parts: dict[str, _GenerationTree] = field(default_factory=dict)
    _work: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def open(self) -> None:
        """Read the logs of the run and of its generations, and make the trees."""
        self._open("")
        number = 1
        while self._open(f"{GENERATIONS}/{generation_name(number)}").is_there:
            number += 1
        self._close(f"{GENERATIONS}/{generation_name(number)}")

    def commits(self, root: Path) -> Commits:
        """Return the commits of the run or of a generation, for who only reads them.

        Args:
            root: its tree.
        """
        return self._open(self._key(root)).commits

    def working_commits(self, root: Path) -> StoredCommits:
        """Return the commits of the run or of a generation, for who adds some.

        Args:
            root: its tree.
        """
        part = self._open(self._key(root))
        if part.writer is None:
            assert self.lease is not None, "the run is held"
            lease, before = self.lease, part.log.state.number
            part.log.append(
                [TakeEntry(host=lease.host, pid=lease.pid)], epoch=lease.epoch, holder=lease.holder
            )
            if part.log.state.number > before + 1:  # whoever was here before wrote on for a moment
                part.files = files_of(part.log.state)
                part.tree = replace(part.tree, files=part.files)
                mount(part.tree.root, part.tree)
                written = part.tree.root / PLAN
                mirror(
                    part.log.state,
                    part.tree.root,
                    written=written.read_bytes() if written.exists() else None,
                )
            part.writer = self._work.enter_context(
                LogWriter(part.log, epoch=lease.epoch, holder=lease.holder, require=lease.require)
            )
            part.commits = StoredCommits(part.tree, part.files, part.writer, part.hold)
            teller = Teller(part.tree.store, part.tree.root, lease.epoch, lease.require, part.events)
            self._work.enter_context(teller.telling())
        assert isinstance(part.commits, StoredCommits)
        return part.commits

    def place(self, root: Path, temporary: Path, others: tuple[OtherRunPlace, ...]) -> TreePlace:
        """Return the place of the run or of a generation, for workers.

        Args:
            root: its tree.
            temporary: folder of this session's unfinished files.
            others: runs in stores that this one reads.
        """
        epoch = 0 if self.lease is None else self.lease.epoch
        key = self._key(root)
        return TreePlace(
            *(self.root, self.store, key, temporary, self.cache, epoch, others, self.tolerant),
            *(self.given, self.cache.session),
        )

    def give(self, folders: Sequence[GivenFolder], *, check: bool = False) -> None:
        """Bring files of this machine to the run, for tasks on others; what is there is not put again.

        Args:
            folders: with the files.
            check: whether what is there is held to its digest, and put again if it has changed.

        Raises:
            DataError: a file has changed meanwhile.
        """
        self.given = tuple(folders)
        wanted = {
            f"{GIVEN}/{digest.sha256}": (one.folder / name, digest)
            for one in folders
            for name, digest in one.files.items()
        }
        there = {one.key: one.size for one in self.store.list(GIVEN)} if wanted else {}
        for key, (path, digest) in sorted(wanted.items()):
            if there.get(key) == digest.bytes and not (check and self._has_changed(key, digest)):
                continue
            with tempfile.NamedTemporaryFile(dir=self.root.parent) as copy:  # nobody changes that
                shutil.copyfile(path, copy.name)
                if digest_file(Path(copy.name)) != digest:
                    raise DataError(f"{path}: changed while it was read; run again")
                self.store.put(key, Path(copy.name))

    def _has_changed(self, key: str, digest: FileDigest) -> bool:
        """Say whether an object has other bytes than its digest says."""
        with tempfile.TemporaryDirectory(dir=self.root.parent) as folder:
            try:
                fetch(self.store, key, digest, Path(folder) / "object")
            except DataError:
                return True
        return False

    def known(self, root: Path, after: Iterable[tuple[str, str]], before: Commit | None) -> Known:
        """Return what a task is told of the files that it may read.

        Args:
            root: tree of the run or generation that it is of.
            after: steps and units that it waits for.
            before: the commit that it goes on from.
        """
        tables = [table for part in self._parts.values() for table in part.tables.put(part.commits)]
        begin = f"{key}/" if (key := self._key(root)) else ""
        commits = self.commits(root)
        read = [commits.read(step, unit) for step, unit in after] + [before]
        files = {f"{begin}{one}": d for commit in read if commit for one, d in commit.files.items()}
        return Known(tuple(tables), files)

    def log_plan(self, root: Path) -> None:
        """Say in the log what run.json says.

        Args:
            root: tree of the run or generation.
        """
        self.working_commits(root).plan(json.loads((root / PLAN).read_bytes()))
        self._open(self._key(root)).tree.store.put(PLAN, root / PLAN)

    def tolerate(self) -> None:
        """Leave files absent that are gone or have other bytes, for checks that name them."""
        self.tolerant = True
        for part in self._parts.values():
            part.tree.tolerant = True

    def tell_files(self, root: Path, step: str) -> None:
        """Note that tasks from now on may read all that is committed of a step."""
        self._open(self._key(root)).tables.changed.add(step)

    def listing(self, root: Path, folders: Collection[str]) -> Listing:
        """Hold all objects of the run or of a generation to its log.

        Args:
            root: its tree.
            folders: in which steps write.
        """
        part = self._open(self._key(root))
        if part.writer is not None:
            part.writer.flush()
        listing = compare_listing(part.tree.store, part.log.state, folders)
        if part.writer is None:
            part.log.state.add_entries(listing.copied)
            return listing
        for entry in listing.copied:  # so that no session reads these objects again
            part.writer.add(entry)
        part.writer.flush()
        return listing

    def remove_strays(self, root: Path, strays: Collection[str]) -> None:
        """Remove objects that no commit names, which killed processes left.

        Args:
            root: tree of the run or generation.
            strays: their keys.
        """
        self.working_commits(root).delete_objects(strays)

    def end(self) -> None:
        """Say in the logs that this process has ended in order; put all that holds into one object."""
        for part in self._parts.values():
            if part.writer is not None:
                part.writer.add(EndEntry())
                part.writer.flush()
                part.log.put_state()
                store = part.tree.store  # the tables of this session, and of those that were killed
                store.delete([one.key for one in store.list(FILES)])
        self._work.close()

    def close(self) -> None:
        """Forget the trees."""
        with contextlib.suppress(ShardmillError):  # it ended by that
            self._work.close()
        for key in list(self._parts):
            self._close(key)

    def _key(self, root: Path) -> str:
        return "" if root == self.root else root.relative_to(self.root).as_posix()

    def _open(self, key: str) -> _GenerationTree:
        """Return a part; its log is read when it is first asked for."""
        if key not in self._parts:
            store, root = (self.store.at(key), self.root / key) if key else (self.store, self.root)
            log, events = RunLog(store, way_out=WAY_OUT), 0
            if self.lease is None:
                log.state = state_of(store, way_out=WAY_OUT)
            else:
                log.read()
            files = files_of(log.state)
            if log.state.number or not key:
                written = store.get(PLAN)
                mirror(log.state, root, written=None if written is None else written.data)
                events = bring_progress(store, root)
            tree, hold = Tree(root, store, self.cache, files), self.cache.hold()
            for one, digest in files.below(DATASETS).items():
                try:
                    bring_manifests(tree, {one: digest}, hold)
                except DataError:  # who works here finds and names all that is damaged
                    if self.lease is None and not self.tolerant:
                        raise
                    (root / one).unlink(missing_ok=True)
            commits = TreeCommits(TreeStorage(root, files))
            tables = PutTables(self.store, self.cache, self.root, key, self.lease is not None)
            self._parts[key] = _GenerationTree(tree, log, files, commits, tables, hold, events)
            mount(root, tree)
        return self._parts[key]

    def _close(self, key: str) -> None:
        part = self._parts.pop(key)
        unmount(part.tree.root)
        part.hold.close()


def files_of(state: LogState) -> CommittedFiles:
    """Return the files of all commits of a log."""
    files = CommittedFiles()
    for units in state.commits.values():
        for entry in units.values():
            files.add(entry.commit.files)
    return files


def stored_run_at(folder: Path) -> StoredRun | None:
    """Return the run that is open here and that a folder is the tree of, or is in the tree of."""
    if not _RUNS:
        return None
    return next((run for one in (folder, *folder.parents) if (run := _RUNS.get(str(one)))), None)


@contextlib.contextmanager
def read_run(store: Store, cache: NodeCache, *, tolerant: bool = False) -> Iterator[StoredRun]:
    """Open a run in a store to read it; nothing is written there.

    Args:
        store: where the run is.
        cache: of this machine.
        tolerant: whether files that are gone or changed are left absent, for checks that name them.
    """
    with passing_folder(cache.folder.resolve() / TREES) as folder:
        tree = folder / store.place.rpartition("/")[2]
        tree.mkdir()
        with _opened(StoredRun(store, tree, cache, tolerant=tolerant)) as run:
            yield run


@contextlib.contextmanager
def working_run(store: Store, cache: NodeCache, tell: Callable[[str], None]) -> Iterator[StoredRun]:
    """Hold a run in a store to work on it, and leave it in order.

    Args:
        store: where the run is.
        cache: of this machine.
        tell: is told for whom this waits.

    Raises:
        ConfigError: the store does not keep its conditions.
        NoRightError: this user may not write there, or nobody, because the run came from a folder.
        Stopped: another process is at work there.
    """
    run = StoredRun(store, tree_of(store, cache), cache)
    with lock_tree(run.root, store.place), contextlib.ExitStack() as stack:
        probe(store)
        require_no_copy(store)
        before = RunLog(store, way_out=WAY_OUT).read().state
        if not before.number:
            require_nothing_else(store)
        lease = leases.Lease(
            store, uuid.uuid4().hex, socket.gethostname(), os.getpid(), period=leases.PERIOD
        )
        lease.take(least=before.epoch + 1, tell=tell)
        stack.callback(lease.give_back)
        run.lease = lease
        with _opened(run):
            yield run
            run.end()


@contextlib.contextmanager
def _opened(run: StoredRun) -> Iterator[StoredRun]:
    _RUNS[str(run.root)] = run
    before = run.cache.session
    run.cache.session = before or uuid.uuid4().hex
    name_folder(run.root, run.store.place)
    try:
        run.open()
        yield run
    except ShardmillError as error:  # people know no tree
        error.args = (as_known(str(error)), *error.args[1:])
        raise
    finally:
        run.close()
        run.cache.session = before
        del _RUNS[str(run.root)]
