"""Pools: who does the tasks of a step. A plain loop is the oracle; Ray changes nothing but the speed.

Both give each finished task to `done`, in any order, and take from it the task that continues the
same chain (the next part of a file), which goes to the same worker, since that one holds the stream.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import ray
from ray.actor import ActorHandle
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    GetTimeoutError,
    OutOfMemoryError,
    RayTaskError,
    WorkerCrashedError,
)

from pipeline.cluster import check_daemons, check_nodes, code_digest
from pipeline.commits import Outcome
from pipeline.memory import held_bytes
from pipeline.tasks import Task, Worker
from pipeline.watch import MemoryShort, MemoryWatch, end_process
from stages.errors import DataError, ShardmillError, Stopped

Done = Callable[[Task, Outcome], Task | None]

MAX_ATTEMPTS = 3
"""Workers that one task may take down before the run stops."""
START_SECONDS = 120.0
"""Longest wait for an actor's process to start and import this program."""
POLL_SECONDS = 0.5
"""Longest wait for results before signals and nodes are looked at."""
NODE_CHECK_SECONDS = 10.0
_LOST = (ActorDiedError, ActorUnavailableError, OutOfMemoryError, WorkerCrashedError)


class Pool(Protocol):
    """Does tasks."""

    def run(self, tasks: Iterable[Task], done: Done) -> None:
        """Do every task and what `done` adds to them."""
        ...

    def close(self) -> None:
        """Let the workers go."""
        ...


class InlinePool:
    """One worker in this process, one task after the other: `--workers 0`.

    Args:
        root: the run's folder.
        attempt: this run of the program.
        watch: says when memory runs short; then the run stops.
    """

    def __init__(self, root: Path, attempt: str, *, watch: MemoryWatch | None = None) -> None:
        self._worker = Worker(root, attempt)
        self._watch = watch

    def run(self, tasks: Iterable[Task], done: Done) -> None:
        """Do every task and what `done` adds to them."""
        for first in tasks:
            task: Task | None = first
            while task is not None:
                finished, outcome = task, self._do(task)
                task = done(finished, outcome)

    def _do(self, task: Task) -> Outcome:
        """Do one task while it is watched."""
        if self._watch is None:
            return self._worker.run(task)
        try:
            with self._watch.guard_this_process():
                return self._worker.run(task)
        except (MemoryShort, MemoryError):  # compiled code may turn the one into the other
            if not self._watch.gave_up:
                raise  # it is the system that has no more, as under ulimit -v
        return self._watch.refuse(task.name)

    def close(self) -> None:
        """Nothing to let go."""


@dataclass
class _Lane:
    """One actor and what it has been given."""

    actor: ActorHandle[Any]
    pid: int
    """Its process, on its node."""
    running: dict[Any, Task] = field(default_factory=dict)
    given_up: bool = False
    """Whether the watch has ended its process."""


class RayPool:
    """Ray actors with at most two tasks each in flight.

    A lost actor is replaced and its tasks are given out again; a task that takes down `MAX_ATTEMPTS`
    workers stops the run with its name. Actors are never restarted by Ray itself: the driver decides.

    Args:
        root: the run's folder, the same path on every node.
        attempt: this run of the program.
        size: actors.
        num_cpus: CPUs that Ray reserves for each.
        num_gpus: likewise.
        watch: says when memory runs short; then the pool goes on with an actor less.
    """

    def __init__(
        self,
        root: Path,
        attempt: str,
        *,
        size: int,
        num_cpus: float = 1.0,
        num_gpus: float = 0.0,
        watch: MemoryWatch | None = None,
    ) -> None:
        self._arguments = (root, attempt)
        self._asked = self._size = size
        self._watch = watch
        self._actor = ray.remote(
            num_cpus=num_cpus, num_gpus=num_gpus, max_restarts=0, max_task_retries=0
        )(RayWorker)
        self._lanes: list[_Lane] = []
        self._losses: dict[str, int] = {}
        self._checked = time.monotonic()

    def run(self, tasks: Iterable[Task], done: Done) -> None:
        """Do every task and what `done` adds to them."""
        waiting = deque(tasks)
        self._size, self._losses = self._asked, {}  # what an earlier step lost is no news of this one
        self._grow(min(self._size, len(waiting)) - len(self._lanes))
        with nullcontext() if self._watch is None else self._watch.guard(self._give_up):
            self._run(waiting, done)

    def _run(self, waiting: deque[Task], done: Done) -> None:
        while waiting or any(lane.running for lane in self._lanes):
            self._give_out(waiting)
            running = {ref: lane for lane in self._lanes for ref in lane.running}
            ready, _ = ray.wait(list(running), timeout=POLL_SECONDS, fetch_local=False)
            for ref in ready:  # one at most
                lane = running[ref]
                self._take(lane, ref, lane.running.pop(ref), waiting, done)
            check_daemons()
            self._check_nodes()
            for lane in [lane for lane in self._lanes if lane.given_up]:
                self._retire(lane, waiting)

    def close(self) -> None:
        """Stop the actors; what they were writing stays under tmp/ and is swept."""
        for lane in self._lanes:
            ray.kill(lane.actor)
        self._lanes = []

    def _give_out(self, waiting: deque[Task]) -> None:
        """One task for each idle actor; a second in advance only while enough are waiting."""
        for depth in (1, 2):
            for lane in self._lanes:
                if len(lane.running) < depth and len(waiting) > (depth - 1) * len(self._lanes):
                    self._submit(lane, waiting.popleft())

    def _submit(self, lane: _Lane, task: Task) -> None:
        lane.running[lane.actor.run.remote(task)] = task

    def _take(self, lane: _Lane, ref: Any, task: Task, waiting: deque[Task], done: Done) -> None:
        try:
            outcome: Outcome = ray.get(ref, timeout=START_SECONDS)
        except _LOST as error:
            if lane.given_up:  # the watch's doing, and no fault of the task
                lane.running[ref] = task
                return
            self._replace(lane, task, waiting, error)
            return
        except GetTimeoutError as error:
            raise Stopped(f"{task.unit}: its result did not arrive in {START_SECONDS} s") from error
        except RayTaskError as error:
            raise _cause(error, task) from error
        following = done(task, outcome)
        if following is not None:
            self._submit(lane, following)

    def _replace(self, lane: _Lane, task: Task, waiting: deque[Task], error: Exception) -> None:
        """Return a lost actor's tasks out again, on a new actor."""
        losses = self._losses[task.unit] = self._losses.get(task.unit, 0) + 1
        if losses >= MAX_ATTEMPTS:
            raise DataError(
                f"{task.unit}: took down {losses} workers ({type(error).__name__}); if they ran out"
                " of memory, give the run more or set a smaller ingest.unit_size"
            ) from error
        waiting.extendleft(reversed([task, *lane.running.values()]))
        self._lanes.remove(lane)
        ray.kill(lane.actor)  # it may only be out of reach; two must never write one unit
        check_nodes()
        self._grow(1)

    def _give_up(self) -> None:
        """End the actor that holds most, for all have the same reservation; on the watch's thread."""
        lanes = [lane for lane in list(self._lanes) if not lane.given_up]
        if lanes:
            lane = max(lanes, key=lambda lane: held_bytes(lane.pid))
            lane.given_up = True
            end_process(lane.pid)

    def _retire(self, lane: _Lane, waiting: deque[Task]) -> None:
        """Go on without an actor that was given up; its tasks wait for the others."""
        assert self._watch is not None, "only the watch gives up actors"
        tasks = list(lane.running.values())
        waiting.extendleft(reversed(tasks))
        self._lanes.remove(lane)
        self._size -= 1
        ray.kill(lane.actor)
        left = len(self._lanes)
        if not left:
            self._watch.refuse(tasks[0].name if tasks else "none")
        self._watch.note(f"memory is short: going on with {left} worker{'s' if left > 1 else ''}")

    def _grow(self, number: int) -> None:
        """Start actors and wait until each runs the driver's code."""
        number = min(number, self._size - len(self._lanes))
        if number < 1:
            return
        actors = [self._actor.remote(*self._arguments) for _ in range(number)]
        digests = [actor.hello.remote() for actor in actors]
        ready, missing = _wait_all(digests, timeout=START_SECONDS)
        if missing and not ready and not self._lanes:
            raise Stopped(
                f"none of {number} Ray actors started in {START_SECONDS:.0f} s; the cluster has"
                f" {ray.available_resources().get('CPU', 0):.0f} CPUs free"
            )
        for actor, ref in zip(actors, digests, strict=True):
            if ref in missing:
                ray.kill(actor)
                continue
            self._lanes.append(_Lane(actor, _require_same_code(ref)))
        if missing:  # the cluster has fewer CPUs than asked for: go on with those it has, for good
            self._asked = self._size = len(self._lanes)

    def _check_nodes(self) -> None:
        if time.monotonic() - self._checked > NODE_CHECK_SECONDS:
            check_nodes()
            self._checked = time.monotonic()


def _wait_all(refs: list[Any], *, timeout: float) -> tuple[list[Any], list[Any]]:
    """Return the results that are ready, and those that are not, after all are or time is up."""
    end = time.monotonic() + timeout
    while True:
        check_daemons()
        left = min(POLL_SECONDS, max(0.0, end - time.monotonic()))
        ready, missing = ray.wait(refs, num_returns=len(refs), timeout=left, fetch_local=False)
        if not missing or not left:
            return ready, missing


def _require_same_code(hello: Any) -> int:
    """Return an actor's process; refuse one that died while starting, or that imported other code."""
    try:
        digest, pid = ray.get(hello, timeout=START_SECONDS)
    except (*_LOST, GetTimeoutError) as error:
        raise Stopped(f"a Ray actor died while starting: {error}; run again to resume") from error
    if digest != code_digest():
        raise Stopped("a node runs other code than the driver; install the same version")
    return int(pid)


class RayWorker(Worker):
    """A worker as a Ray actor."""

    def hello(self) -> tuple[str, int]:
        """Return the digest of the code that this process imported, and the process."""
        return code_digest(), os.getpid()


def _cause(error: RayTaskError, task: Task) -> Exception:
    """Return what the task raised: our own errors as they are, others with the task's name."""
    cause = error.cause
    if isinstance(cause, ShardmillError | OSError | MemoryError):
        return cause
    return RuntimeError(f"{task.unit}: {error}")
