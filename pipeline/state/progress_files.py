"""What tells of a run in a store: how far it is, what happened, and its report.

    status.json, metrics.prom, report/..., verify/...    put whole, as often as once in some seconds
    events/00000003-00001.jsonl                          the event log in parts: epoch and part

None of it is an artifact. In the tree they are the files of a run's folder; there, the parts of the
event log are one file.
"""

import contextlib
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.state.journal import LOG, METRICS, STATUS
from stages.errors import ShardmillError
from stages.store.folders import entries, files_below
from stages.stores.store import Store

EVENTS = "events"
REPORT = "report"
FOLDERS = (REPORT, "verify")
_SECONDS = 15.0
"""Between two looks at what is new."""
_ENDINGS = (".json", ".html", ".md", ".svg", ".prom", ".jsonl")


def bring_progress(store: Store, tree: Path) -> int:
    """Bring what tells of a run into its tree, in place of what is there.

    Args:
        store: where the run is.
        tree: of the run.

    Returns:
        Bytes of the event log.
    """
    for key in (STATUS, METRICS):
        _bring(store, key, tree / key)
    for folder in FOLDERS:
        for one in store.list(folder):
            if one.key.endswith(_ENDINGS):
                _bring(store, one.key, tree / one.key)
    parts = [one.key for one in store.list(EVENTS)]
    found = (store.get(key) for key in parts or [LOG])  # one file in a run that came from a folder
    tree.mkdir(parents=True, exist_ok=True)
    return (tree / LOG).write_bytes(b"".join(one.data for one in found if one is not None))


def _bring(store: Store, key: str, place: Path) -> None:
    found = store.get(key)
    if found is None:
        place.unlink(missing_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(found.data)


def join_events(folder: Path) -> None:
    """Write the event log of a run that was copied from a store, from its parts."""
    parts = [part for part in entries(folder / EVENTS) if part.suffix == ".jsonl"]
    if parts and not (folder / LOG).exists():
        (folder / LOG).write_bytes(b"".join(part.read_bytes() for part in parts))


@dataclass(eq=False)
class Teller:
    """Puts what tells of a run while this process works on it.

    Args:
        store: where the run is.
        tree: of the run.
        epoch: of this process.
        require: refuses to go on if another process has the lease.
        upto: bytes of the event log that are in the store.
    """

    store: Store
    tree: Path
    epoch: int
    require: Callable[[], None]
    upto: int
    """Bytes of the event log that are in the store."""
    _put: dict[str, bytes] = field(default_factory=dict)
    """What was put last, by key."""
    _parts: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """Put what is new from time to time, and all at the end."""
        thread = threading.Thread(target=self._tell, name="tell", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()
            self.put(FOLDERS)

    def put(self, folders: tuple[str, ...] = ()) -> None:
        """Put what is new.

        Args:
            folders: whose files are put too; those that are gone here go there.
        """
        self.require()
        self._put_events()
        for key in (STATUS, METRICS):
            self._put_file(key)
        for folder in folders:
            here = {path.relative_to(self.tree).as_posix() for path in _texts(self.tree / folder)}
            for key in sorted(here):
                self._put_file(key)
            if folder == REPORT:
                there = [one.key for one in self.store.list(folder)]
                self.store.delete([key for key in there if key not in here])

    def _tell(self) -> None:
        while not self._ended.wait(_SECONDS):
            with contextlib.suppress(ShardmillError, OSError):  # the work says so; the end tries again
                self.put()

    def _put_events(self) -> None:
        log = self.tree / LOG
        if _size(log) > self.upto:
            with log.open("rb") as file:
                file.seek(self.upto)
                data = file.read()
            self._parts += 1
            self._put_data(f"{EVENTS}/{self.epoch:08d}-{self._parts:05d}.jsonl", data)
            self.upto += len(data)

    def _put_file(self, key: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            data = (self.tree / key).read_bytes()
            if self._put.get(key) != data:
                self._put_data(key, data)
                self._put[key] = data

    def _put_data(self, key: str, data: bytes) -> None:
        """Put a text in which the tree has the URL by which people know it."""
        with tempfile.NamedTemporaryFile(suffix=Path(key).suffix) as known:
            known.write(data.replace(str(self.tree).encode(), self.store.place.encode()))
            known.flush()
            self.store.put(key, Path(known.name))


def _texts(folder: Path) -> list[Path]:
    return [path for path in sorted(files_below(folder)) if path.name.endswith(_ENDINGS)]


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
