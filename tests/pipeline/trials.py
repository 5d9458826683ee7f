"""Tasks, and dataflows of a few actors that do them, for tests."""

import errno
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ConfigDict

from pipeline.engine.dataflow import Dataflow
from pipeline.engine.memory import WorkerResources
from pipeline.engine.progress import Progress
from pipeline.engine.step_run import StepRun
from pipeline.engine.tasks import Phase, Task, TaskPlace, Workspace
from pipeline.engine.watch import MemoryWatch
from pipeline.state.commit_object import Commit
from pipeline.state.worker_place import FolderPlace
from stages.config import Config
from stages.errors import DataError
from tests.memory_book import MemoryBook, step_run, task_of


class Who(Config):
    """Who did a task.

    It is built at once: a class that is sent by value must not be half built.
    """

    model_config = ConfigDict(defer_build=False)

    payload: int | str
    pid: int


def say_who(work: Workspace, payload: Any) -> Who:
    """Record who did this, and leave a file."""
    work.create("who").write_text(str(payload))
    return Who(payload=payload, pid=os.getpid())


def die_once(work: Workspace, payload: Any) -> Who:
    """Take down the worker unless someone did before."""
    marker = work.root / f"{payload}.died"
    if not marker.exists():
        marker.touch()
        os._exit(1)
    return say_who(work, payload)


def die(work: Workspace, payload: Any) -> Who:
    """Take down the worker and leave a trace of it."""
    with (work.root / f"{payload}.deaths").open("a") as file:
        file.write("x")
    os._exit(1)


def meet(work: Workspace, payload: Any) -> Who:
    """Wait until another worker does this, too."""
    (work.root / f"{payload}.met").touch()
    deadline = time.monotonic() + 60
    while len(list(work.root.glob("*.met"))) < 2:
        assert time.monotonic() < deadline, "nobody came"
        time.sleep(0.01)
    return say_who(work, payload)


def hold(work: Workspace, payload: Any) -> Who:
    """Take memory and keep it, once two workers do."""
    meet(work, payload)
    work.cache["held"] = bytearray(os.urandom(1 << 20) * int(payload))
    return say_who(work, payload)


def find_no_memory(workspace: Workspace, payload: int) -> Who:  # noqa: ARG001  # the signature
    """Get no memory from the system."""
    raise MemoryError("cannot allocate")


def find_no_room(work: Workspace, payload: Any) -> Who:  # noqa: ARG001  # the signature
    """Raise what a full disk raises."""
    raise OSError(errno.ENOSPC, "No space left on device")


def refuse(work: Workspace, payload: Any) -> Who:  # noqa: ARG001  # the signature
    """Raise an error of ours."""
    raise DataError(f"row {payload} is broken; mend it")


def refuse_late(work: Workspace, payload: Any) -> Who:
    """Raise an error of ours, after those that are raised at once."""
    time.sleep(0.5)
    return refuse(work, payload)


def stumble(work: Workspace, payload: Any) -> Who:  # noqa: ARG001  # the signature
    """Raise an error that is a bug."""
    raise KeyError(payload)


def nap(work: Workspace, payload: Any) -> Who:
    """Take a while."""
    time.sleep(0.3)
    return say_who(work, payload)


def nap_alone(work: Workspace, payload: Any) -> Who:
    """Take a while, in which no other such task may run."""
    held = work.path("napping")
    held.touch(exist_ok=False)
    who = nap(work, payload)
    held.unlink()
    return who


def linger(work: Workspace, payload: Any) -> Who:
    """Take minutes in one process, and no time in any other."""
    if os.getpid() == payload:
        time.sleep(300.0)
    return say_who(work, payload)


def task(function: Any, payload: Any, step: str = "step") -> Task:
    """Return a task named after what it does."""
    return task_of(step, f"{function.__name__}-{payload}", function, payload)


def phase(*tasks: Task, where: TaskPlace = TaskPlace.WORKERS) -> Phase:
    """Return a phase."""
    return Phase("", tasks, where=where)


def chains(number: int, length: int) -> Phase:
    """Return chains of tasks."""

    def follow(done: Task, commit: Commit) -> Task | None:
        first, _, link = str(commit.record["payload"]).partition(".")
        assert first == str(done.payload).partition(".")[0]
        following = int(link or 0) + 1
        return task(say_who, f"{first}.{following}") if following < length else None

    return Phase("", [task(say_who, one) for one in range(number)], follow=follow)


def pids(book: MemoryBook) -> dict[str, int]:
    """Return the process that did each task, by payload."""
    who = [Who.model_validate(commit.record) for commit in book.commits.values()]
    return {str(one.payload): one.pid for one in who}


class _Notes(Progress):
    """What people would read."""

    def __init__(self, notes: list[str]) -> None:
        super().__init__(None, None)
        self._notes = notes

    def note(self, message: str) -> None:
        """Keep one line."""
        self._notes.append(message)


class Trial:
    """A dataflow of a few actors and what it commits."""

    def __init__(
        self,
        root: Path,
        *,
        workers: int = 2,
        memory: int = 8 << 30,
        watch: MemoryWatch | None = None,
    ) -> None:
        self.root, self.book, self.notes = root, MemoryBook(), list[str]()
        progress = _Notes(self.notes)
        watch = watch or MemoryWatch(1 << 50, self.notes.append)
        resources = WorkerResources(workers, None, memory)
        self.flow = Dataflow(
            FolderPlace(root, root / "tmp/attempt"), resources, self.book, progress=progress, watch=watch
        )

    def do(self, *work: Phase | StepRun) -> list[str]:
        """Do phases, or steps; return the units in the order of their commits."""
        before = len(self.book.commits)
        self.flow.do(
            [one if isinstance(one, StepRun) else step_run(f"s{n}", one) for n, one in enumerate(work)]
        )
        return self.book.units[before:]

    def forget(self) -> None:
        """Forget what was done and said; the actors stay."""
        book = self.book
        for known in (book.commits, book.outcomes, book.contents, book.given, book.said):
            known.clear()
        self.notes.clear()
        shutil.rmtree(self.root)
        self.root.mkdir()


Trials = Callable[..., Trial]
