"""Actors: the Ray processes that do tasks, how they start, what each has been given, how they end."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from pipeline.engine.memory import WORKER
from pipeline.engine.nodes import Greeting, greeting
from pipeline.engine.schedule import Item
from pipeline.engine.tasks import Worker
from pipeline.state.commits import Outcome
from pipeline.state.worker_place import WorkerPlace
from pipeline.system.stopping import collect_rarely
from stages.errors import ShardmillError

START_SECONDS = 120.0
"""Longest wait for an actor's process to start and import this program."""


class LostError(Exception):
    """A worker that is gone; its cause says how."""


class RayWorker(Worker):
    """A worker as a Ray actor."""

    def __init__(self, place: WorkerPlace) -> None:
        collect_rarely()  # most of the program is imported by the first tasks
        place.open()
        super().__init__(place)

    def hello(self, question: Path | None) -> Greeting:
        """Say what this process is; `question` is a file of the driver that it should see."""
        return greeting(question)


@dataclass(eq=False)
class Actor:
    """One actor and what it has been given."""

    handle: ActorHandle[Any]
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
    running: dict[Any, Item] = field(default_factory=dict)
    """At most two tasks, by where their results arrive."""
    preferred: list[Item] = field(default_factory=list)
    """Tasks that became ready by what it did, the last first."""
    given_up: bool = False
    """Whether the watch has ended its process."""

    @property
    def has_started(self) -> bool:
        """Whether it runs the driver's code."""
        return self.pid != 0

    @property
    def reserved(self) -> int:
        """Bytes that it may hold: an idle worker's, and what the largest of its tasks needs."""
        given = [*self.running.values(), *([] if self.only_item is None else [self.only_item])]
        return WORKER + max((item.work.need.bytes for item in given), default=0)

    def give(self, item: Item) -> None:
        """Have it do a task; Ray's own tools name the call by step and unit."""
        call = self.handle.run.options(name=f"{item.task.step}/{item.task.unit}")
        self.running[call.remote(item.task, item.work.known(item.task))] = item

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
        """End its process; what it was writing stays under tmp/ and is swept."""
        ray.kill(self.handle)


def start_actor(
    place: WorkerPlace,
    node: str,
    question: Path | None,
    *,
    only_item: Item | None = None,
    num_gpus: float = 0.0,
) -> Actor:
    """Start an actor; Ray never starts one again by itself: the driver decides.

    Args:
        place: of the run.
        node: where it is to be, by Ray's name.
        question: a file of the driver that it should see; None if there is no shared folder.
        only_item: the task that it is for, if for one only; then it takes no CPU of Ray's.
        num_gpus: that Ray reserves for it.
    """
    kind = ray.remote(
        num_cpus=1.0 if only_item is None else 0.0,
        num_gpus=num_gpus,
        max_restarts=0,
        max_task_retries=0,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
    )(RayWorker)
    handle = kind.remote(place)
    return Actor(handle, handle.hello.remote(question), node, only_item, num_gpus)


def result_of(ref: Any, item: Item) -> Outcome:
    """Return what a task made, or raise what it raised.

    Raises:
        LostError: its worker is gone. Every error of Ray about a call says so, but the one that holds
            what the task itself raised.
    """
    try:
        outcome: Outcome = ray.get(ref, timeout=START_SECONDS)
    except RayTaskError as error:
        cause = error.cause
        if isinstance(cause, RayError):
            raise LostError from cause
        if isinstance(cause, ShardmillError | OSError | MemoryError):
            raise cause from error
        raise RuntimeError(f"{item.task.unit}: {error}") from error
    except RayError as error:
        raise LostError from error
    return outcome
