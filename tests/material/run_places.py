"""Where laws do their runs: in a folder or in a store, with what they do to a run in the same words."""

import contextlib
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pipeline.state import lease
from pipeline.state.commit_object import COMMITS, Commit
from pipeline.state.commits import Commits
from pipeline.state.log import CommitEntry, DropEntry, EndEntry, LogEntry, RunLog, TakeEntry
from pipeline.state.storage import LocalStorage
from pipeline.state.stored_commits import mirror
from stages.errors import Stopped
from stages.store.digests import FileDigest, digest_file
from stages.stores.objects import ObjectStore
from tests.material.stored_runs import artifacts_of_folder, artifacts_of_store, copy_to_folder

_HOLD_A_FOLDER = (
    "import sys, time; from pathlib import Path; from pipeline.state.journal import run_lock\n"
    "with run_lock(Path(sys.argv[1])):\n"
    "    print('holds it', flush=True)\n"
    "    time.sleep(600)\n"
)

_OF_THE_LEASE = "replace"
"""The verb by which a store's lease is renewed, and nothing else is written."""


class RunPlace(ABC):
    """A place for one run, empty at first."""

    name: str
    """The folder or URL, as a command has it."""
    changing: tuple[type, tuple[str, ...]]
    """The class by which a run changes the place, and the verbs that do."""

    @abstractmethod
    def artifacts(self) -> dict[str, str]:
        """Return the SHA-256 of each file that runs in folders and in stores both have, by key."""

    @abstractmethod
    def committed(self) -> dict[str, dict[str, FileDigest]]:
        """Return the files that each committed unit names, by `STEP/UNIT`, without a look at them."""

    @abstractmethod
    def put(self, key: str, data: bytes) -> None:
        """Write a file, as somebody else does."""

    @abstractmethod
    def changed(self) -> contextlib.AbstractContextManager[Path]:
        """Yield a folder with the run and its commits; what is changed there is changed in the run."""

    @abstractmethod
    def held(self) -> contextlib.AbstractContextManager[None]:
        """Have the run held by another process."""

    def broken(self) -> dict[str, set[str]]:
        """Return the files of committed units that are absent or have other bytes, by unit."""
        with self.changed() as run:
            found = {
                unit: {
                    key
                    for key, digest in files.items()
                    if not (run / key).is_file() or digest_file(run / key) != digest
                }
                for unit, files in self.committed().items()
            }
        return {unit: keys for unit, keys in found.items() if keys}

    @contextlib.contextmanager
    def cut_at(self, moment: float) -> Iterator[Callable[[], int]]:
        """End all work here at a change: neither it nor any later one is made, as after a power cut.

        Args:
            moment: how many changes are made before.

        Yields:
            A function that says how many were.
        """
        owner, verbs = self.changing
        before = {verb: getattr(owner, verb) for verb in verbs}
        made = 0

        def counted(verb: str) -> Callable[..., object]:
            def change(storage: object, *args: object) -> object:
                nonlocal made
                if made >= moment:
                    raise Stopped("no answer") if verb == _OF_THE_LEASE else Cut
                made += verb != _OF_THE_LEASE  # its beats come when they come
                return before[verb](storage, *args)

            return change

        try:
            for verb in verbs:
                setattr(owner, verb, counted(verb))
            with contextlib.suppress(Cut, Stopped):
                yield lambda: made
        finally:
            for verb, function in before.items():
                setattr(owner, verb, function)


class Cut(BaseException):
    """Where a law ends a run."""


class FolderRun(RunPlace):
    """A run in a folder."""

    changing = (LocalStorage, ("publish", "link_new", "put_new", "delete"))

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = str(folder)

    def artifacts(self) -> dict[str, str]:
        """Return the digests of the files."""
        return artifacts_of_folder(self.folder)

    def committed(self) -> dict[str, dict[str, FileDigest]]:
        """Return what the commits name."""
        commits = Commits(LocalStorage(self.folder))
        return {
            f"{step}/{unit}": dict(commit.files)
            for step in commits.steps()
            for unit, commit in commits.all(step)
        }

    def put(self, key: str, data: bytes) -> None:
        """Write a file."""
        (self.folder / key).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / key).write_bytes(data)

    @contextlib.contextmanager
    def changed(self) -> Iterator[Path]:
        """Yield the folder itself."""
        yield self.folder

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold its lock in another process."""
        with subprocess.Popen(
            [sys.executable, "-c", _HOLD_A_FOLDER, self.name], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"holds it\n"
            try:
                yield
            finally:
                process.kill()


class StoredRunPlace(RunPlace):
    """A run in a store.

    Args:
        store: the place.
        own: a folder of the test.
    """

    changing = (ObjectStore, ("put", "put_new", "replace", "delete"))

    def __init__(self, store: ObjectStore, own: Path) -> None:
        self.store = store
        self.name = store.place
        self._own = own
        self._number = 0

    def artifacts(self) -> dict[str, str]:
        """Return the digests of the objects."""
        return artifacts_of_store(self.store)

    def committed(self) -> dict[str, dict[str, FileDigest]]:
        """Return what the log says."""
        return {
            f"{step}/{unit}": dict(entry.commit.files)
            for step, units in self._log().state.commits.items()
            for unit, entry in units.items()
        }

    def put(self, key: str, data: bytes) -> None:
        """Write an object."""
        self._own.mkdir(parents=True, exist_ok=True)
        (self._own / "object").write_bytes(data)
        self.store.put(key, self._own / "object")

    @contextlib.contextmanager
    def changed(self) -> Iterator[Path]:
        """Yield a copy with the commits of its log; put what was changed, and log what commits say."""
        self._number += 1
        copy = self._own / f"copy-{self._number}"
        log = self._log()
        mirror(log.state, copy)
        copy_to_folder(self.store, copy)
        commits, before = _files_of(copy / COMMITS), _files_of(copy)
        yield copy
        after = _files_of(copy)
        for key, data in after.items():
            if before.get(key) != data and not key.startswith(f"{COMMITS}/"):
                self.put(key, data)
        self.store.delete(sorted(before.keys() - after.keys()))
        self._log_commits(log, commits, _files_of(copy / COMMITS))
        shutil.rmtree(copy)

    def _log_commits(self, log: RunLog, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> None:
        """Log the commits that are others now, as a process that had the lease would."""
        tags = {one.key: one.tag for one in self.store.list("")}
        entries: list[LogEntry] = []
        for name in sorted(before.keys() - after.keys()):
            step, _, unit = name.removesuffix(".json").partition("/")
            entries.append(DropEntry(step=step, units=(unit,)))
        for name, data in sorted(after.items()):
            if before.get(name) != data:
                commit = Commit.model_validate_json(data)
                own = {key: tags[key] for key in commit.files}
                entries.append(CommitEntry(commit=commit, tags=own))
        if entries:
            epoch = log.state.epoch + 1
            take = TakeEntry(host="elsewhere", pid=1)
            log.append([take, *entries, EndEntry()], epoch=epoch, holder="another")

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold its lease, as a process elsewhere does."""
        other = lease.Lease(self.store, "other", "elsewhere", 7, period=lease.PERIOD)
        other.take(least=9, tell=print)
        try:
            yield
        finally:
            other.give_back()

    def _log(self) -> RunLog:
        return RunLog(self.store, way_out="").read()


def _files_of(folder: Path) -> dict[str, bytes]:
    """Return the content of each file below a folder, by key."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
