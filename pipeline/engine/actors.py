"""Actors: the Ray processes that do tasks, how they start, what each has been given, how they end."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from pipeline.engine.memory import WORKER
from pipeline.engine.nodes import Greeting, Question, greeting
from pipeline.engine.schedule import Item
from pipeline.engine.step_run import PhaseRun
from pipeline.engine.tasks import Node, Task, Worker
from pipeline.state.attempts import new_attempt
from pipeline.state.publishing import Outcome
from pipeline.state.worker_place import Known, WorkerPlace
from pipeline.system.stopping import collect_rarely
from stages.errors import ShardmillError

BATCH_SECONDS = 0.5
"""What short tasks that are given at once should take together: a call of Ray costs the driver 1 ms."""
MAX_BATCH = 64
"""Tasks that an actor is given at once."""
POLL_SECONDS = 0.5
"""Longest wait for answers before signals and nodes are looked at."""
_GATHER_SECONDS = 20e-6
"""For each answer that is waited for: how long others may follow the first; a look takes 2 µs."""
START_SECONDS = 120.0
"""Longest wait for an actor's process to start and import this program."""


class LostError(Exception):
    """A worker that is gone; its cause says how."""


class RayWorker(Worker):
    """A worker as a Ray actor."""

    def __init__(
        self, place: WorkerPlace, name: str, node_watch: ActorHandle[Any] | None = None
    ) -> None:
        collect_rarely()  # most of the program is imported by the first tasks
        place.open()
        super().__init__(place, name)
        self._node_watch = node_watch

    def hello(self, question: Question | None) -> Greeting:
        """Say what this process is, once the watch of its node knows it.

        Args:
            question: what is asked of a node that is not known.
        """
        if self._node_watch is not None:
            ray.get(self._node_watch.reserve.remote(os.getpid(), WORKER))
        return greeting(None) if question is None else greeting(question.file, question.inputs)

    def run_all(
        self,
        tasks: Sequence[tuple[Task, Known]],
        *,
        commits: bool,
        committed: Sequence[Node],
        reserved: int = WORKER,
    ) -> list[Outcome]:
        """Do tasks one after the other, until one fails or they have taken long enough.

        Args:
            tasks: each with what it is told of the files that it may read.
            commits: whether what they make is to be committed.
            committed: units that it did, and that were committed since.
            reserved: bytes that this process may hold meanwhile.

        Returns:
            Of the first tasks, at least of one: others are given out again, and may fail then.
        """
        self.tidy(committed)
        if self._node_watch is not None:
            self._node_watch.reserve.remote(os.getpid(), reserved)
        outcomes: list[Outcome] = []
        late = time.monotonic() + BATCH_SECONDS
        for task, known in tasks:
            try:
                outcomes.append(self.run(task, known, commits=commits))
            except Exception:
                if not outcomes:
                    raise
                break
            if time.monotonic() > late:
                break
        return outcomes


@dataclass(eq=False)
class Actor:
    """One actor and what it has been given."""

    handle: ActorHandle[Any]
    name: str
    """Of its folder."""
    hello: Any
    """Where its first answer arrives."""
    node: str
    """Where it is."""
    only_item: Item | None
    """The task that it was started for, if for one only."""
    num_gpus: float
    started: float = field(default_factory=time.monotonic)
    pid: int = 0
    """Its process, on its node; 0 until it has started."""
    running: dict[Any, list[Item]] = field(default_factory=dict)
    """At most two batches of tasks, by where their results arrive."""
    preferred: list[Item] = field(default_factory=list)
    """Tasks that became ready by what it did, the last first."""
    committed: list[Node] = field(default_factory=list)
    """Units that it did, of whose commits it was not told yet."""
    given_up: bool = False
    """Whether the watch has ended its process."""

    @property
    def has_started(self) -> bool:
        """Whether it runs the driver's code."""
        return self.pid != 0

    @property
    def reserved(self) -> int:
        """Bytes that it may hold: an idle worker's, and what the largest of its tasks needs."""
        given = [*self.items, *([] if self.only_item is None else [self.only_item])]
        return WORKER + max((item.work.need.bytes for item in given), default=0)

    @property
    def items(self) -> list[Item]:
        """The tasks that it does or will do, in their order."""
        return [item for batch in self.running.values() for item in batch]

    def breaks_chain(self, item: Item) -> bool:
        """Say whether a task would come between two that read one stream, or begin another there."""
        of_step = [one for one in self.items if one.task.step == item.task.step]
        return any(one.task.chained or item.task.chained for one in of_step)

    def give(self, batch: list[Item]) -> None:
        """Have it do tasks of one phase; Ray's own tools name the call by the first one."""
        first = batch[0]
        call = self.handle.run_all.options(name=f"{first.task.step}/{first.task.unit}")
        tasks = [(item.task, item.work.known(item.task)) for item in batch]
        self.running[
            call.remote(
                tasks,
                commits=first.work.phase.take is None,
                committed=self.committed,
                reserved=WORKER + first.work.need.bytes,
            )
        ] = batch
        self.committed = []

    def greet(self) -> Greeting:
        """Note its process once it has started; return what it says of its node.

        Raises:
            LostError: it died while starting.
        """
        try:
            said: Greeting = ray.get(self.hello, timeout=START_SECONDS)
        except RayError as error:
            raise LostError from error
        self.pid = said.pid
        return said

    def end(self) -> None:
        """End its process."""
        ray.kill(self.handle)


def start_actor(
    place: WorkerPlace,
    node: str,
    question: Question | None,
    *,
    only_item: Item | None = None,
    num_gpus: float = 0.0,
    node_watch: ActorHandle[Any] | None = None,
) -> Actor:
    """Start an actor; Ray never starts one again by itself: the driver decides.

    Args:
        place: of the run.
        node: where it is to be, by Ray's name.
        question: what it is asked about its node; None if the node is known.
        only_item: the task that it is for, if for one only; then it takes no CPU of Ray's.
        num_gpus: that Ray reserves for it.
        node_watch: of its node, where that is not the driver's own.
    """
    kind = ray.remote(
        num_cpus=1.0 if only_item is None else 0.0,
        num_gpus=num_gpus,
        max_restarts=0,
        max_task_retries=0,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
    )(RayWorker)
    name = new_attempt()
    handle = kind.remote(place, name, node_watch)
    return Actor(handle, name, handle.hello.remote(question), node, only_item, num_gpus)


def batch_size(work: PhaseRun) -> int:
    """Return how many tasks of a phase are worth one call."""
    if work.seconds is None or work.phase.follow is not None:
        return 1
    return min(MAX_BATCH, int(BATCH_SECONDS / max(work.seconds, BATCH_SECONDS / MAX_BATCH)))


def arrived(refs: Sequence[Any]) -> list[Any]:
    """Wait for an answer of an actor, and return all that are there soon afterwards."""
    ready, _ = ray.wait(refs, timeout=POLL_SECONDS, fetch_local=False)
    if not ready or len(refs) == 1:
        return list(ready)
    time.sleep(len(refs) * _GATHER_SECONDS)
    ready, _ = ray.wait(refs, num_returns=len(refs), timeout=0, fetch_local=False)
    return list(ready)


def results_of(ref: Any, batch: Sequence[Item]) -> list[Outcome]:
    """Return what the first tasks of a batch made, or raise what its first task raised.

    Raises:
        LostError: its worker is gone. Every error of Ray about a call says so, but the one that holds
            what the task itself raised.
    """
    try:
        outcomes: list[Outcome] = ray.get(ref, timeout=START_SECONDS)
    except RayTaskError as error:
        cause = error.cause
        if isinstance(cause, RayError):
            raise LostError from cause
        if isinstance(cause, ShardmillError | OSError | MemoryError):
            raise cause from error
        raise RuntimeError(f"{batch[0].task.unit}: {error}") from error
    except RayError as error:
        raise LostError from error
    return outcomes
