"""Tasks: one unit of work, and the ordinary class that does it in this process or in a Ray actor.

A task names a module-level function and a payload of plain values. The function reads committed
files, writes new ones under its attempt's folder and returns a record; it knows nothing of Ray.

Phases: tasks of a step that may run in any order, one phase after another.
"""

import resource
import shutil
import socket
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from pipeline.engine.memory import Need
from pipeline.state.commit_object import Commit
from pipeline.state.publishing import NOTHING_PUBLISHED, Outcome
from pipeline.state.worker_place import NOTHING, Known, WorkerPlace
from pipeline.system.disk_faults import named
from pipeline.system.memory import release_freed_memory
from stages.config import Config
from stages.store.digests import digest_file, sync_files
from stages.store.folders import files_below
from stages.stores.mounts import here

_Value = TypeVar("_Value")


@dataclass
class Workspace:
    """Where a task reads and writes."""

    root: Path
    """The run's folder; committed files are read here."""
    folder: Path
    """The task's own folder under tmp/; what it leaves here is committed."""
    cache: dict[str, Any] = field(default_factory=dict)
    """What a worker keeps from task to task: a loaded model, an open stream. Never a result."""

    def path(self, key: str) -> Path:
        """Return the place of a committed file or folder, brought here if need be."""
        return here(self.root / key)

    def create(self, key: str) -> Path:
        """Return the place to write a file that is to have this key."""
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def cached(self, key: str, make: Callable[[], _Value]) -> _Value:
        """Return what the worker keeps under a key, made when it is first asked for."""
        if key not in self.cache:
            self.cache[key] = make()
        found: _Value = self.cache[key]
        return found

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Yield a folder for files that are gone before the task's others are committed."""
        folder = self.folder / ".scratch"
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder)


Function = Callable[[Workspace, Any], Config]
"""Does the work of a payload and returns its record."""


Node = tuple[str, str]
"""A unit of a step, by their names."""


@dataclass(frozen=True)
class Task:
    """One unit of work of a step."""

    step: str
    """Name in the plan."""
    unit: str
    """Name of its commit."""
    function: Function
    payload: Any
    fingerprint: str
    after: tuple[Node, ...] = ()
    """Units that must be committed before it begins, of steps that may still be at work."""
    chained: bool = False
    """Whether the worker holds a stream that the task which follows goes on with."""

    @property
    def node(self) -> Node:
        """What its commit is of."""
        return self.step, self.unit

    @property
    def name(self) -> str:
        """Its unit, as people know it: with the file that it is of."""
        made = getattr(self.payload, "made", self.payload)
        unit = getattr(made, "unit", made)
        if not hasattr(unit, "source"):  # of no file
            return f"unit {self.unit}"
        return f"unit {self.unit} ({unit.source}: {unit.label})"


class Worker:
    """Does tasks one after the other.

    Args:
        place: of the run.
        name: of its folder, no other's of the attempt.
    """

    def __init__(self, place: WorkerPlace, name: str = "driver") -> None:
        self._place = place
        self._folder = place.temporary / name
        self._cache: dict[str, Any] = {}

    def run(self, task: Task, known: Known = NOTHING, *, commits: bool = True) -> Outcome:
        """Do one task, bring its files to the disk and publish them; `tidy` once they are committed.

        Args:
            task: to be done.
            known: what it is told of the files that it may read.
            commits: whether what it makes is to be committed.
        """
        folder = self._folder / task.step / task.unit
        with named(folder), self._place.using(known):
            return self._run(task, folder, commits=commits)

    def tidy(self, committed: Iterable[Node]) -> None:
        """Remove the folders of units that are committed: their files have other names."""
        for step, unit in committed:
            shutil.rmtree(self._folder / step / unit, ignore_errors=True)

    def _run(self, task: Task, folder: Path, *, commits: bool) -> Outcome:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        wall, processor = time.perf_counter(), time.process_time()
        record = task.function(Workspace(self._place.root, folder, self._cache), task.payload)
        files = {key: digest_file(folder / key) for key in _keys(folder)}
        sync_files(folder)
        reported = record.model_dump(mode="json")
        published = NOTHING_PUBLISHED
        if commits:
            commit = Commit(
                step=task.step,
                unit=task.unit,
                fingerprint=task.fingerprint,
                files=files,
                record=reported,
            )
            published = self._place.publish(folder, commit)
        if not published.is_linked:
            shutil.rmtree(folder)
        metrics = {
            "seconds": time.perf_counter() - wall,
            "cpu_seconds": time.process_time() - processor,
            "peak_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0,
        }
        release_freed_memory()
        return Outcome(folder, files, reported, metrics, socket.gethostname(), published)


def _keys(folder: Path) -> Iterator[str]:
    for path in sorted(files_below(folder)):
        yield path.relative_to(folder).as_posix()


class TaskPlace(Enum):
    """Who does the tasks of a phase."""

    WORKERS = "workers"
    OWN_ACTOR = "alone"
    """On an actor of its own, which ends with the task."""
    DRIVER = "driver"
    """Tasks that only sum up what others committed."""
    TRAINER = "trainer"
    """Likewise, with a GPU if there is one."""


@dataclass(frozen=True)
class FollowingTasks:
    """Tasks of which each is made of a commit of another step, as soon as it is there."""

    step: str
    """Its name in the plan; it is still at work, and overlapped."""
    task: Callable[[Commit], Task]
    order: Callable[[], Sequence[str]]
    """Returns the tasks' units in canonical order, once that step is done."""


@dataclass(frozen=True)
class Phase:
    """Tasks of a step that may run in any order."""

    title: str
    """What people read."""
    tasks: Sequence[Task]
    """In canonical order."""
    where: TaskPlace = TaskPlace.WORKERS
    follow: Callable[[Task, Commit], Task | None] | None = None
    """Returns the task that goes on from one that is committed."""
    need: Need | None = None
    """The memory of a worker, where it is known only now."""
    urgent: bool = False
    """Whether its tasks come before those of earlier steps, which would keep later steps waiting."""
    take: Callable[[Task, Outcome], None] | None = None
    """Takes what tasks found that leave no file and are not committed."""
    each: FollowingTasks | None = None
    """Where more tasks come from."""


Phases = Generator[Phase, dict[str, Commit], _Value]
"""Yields phases, is sent their commits by unit in canonical order, and returns what they led to."""
