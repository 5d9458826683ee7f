"""The dataflow: tasks of all steps that can be at work, on Ray actors, within the memory that there is.

Every task reserves on its node what a worker of its step may hold, before it starts. Tasks are given out
in canonical order, but an actor goes on with the chain it has begun, then with what its last task made
ready, and a task that does not fit lets later ones pass for some seconds only. Which actor does what,
and when, changes no byte; `pipeline.engine.plain_loop` is the oracle.
"""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import ray

from pipeline.engine.actors import START_SECONDS, Actor, LostError, result_of, start_actor
from pipeline.engine.cluster import (
    ClusterConfig,
    check_daemons,
    check_nodes,
    node_names,
    num_gpus,
    ray_cluster,
)
from pipeline.engine.flow import Flow, Item, Place
from pipeline.engine.memory import BASE, WORKER, fitting_workers, held_bytes
from pipeline.engine.phase import Where
from pipeline.engine.progress import Progress
from pipeline.engine.resources import WorkerResources
from pipeline.engine.step_run import Book, StepRun
from pipeline.engine.tasks import Node, Worker
from pipeline.engine.watch import MemoryWatch, end_process
from pipeline.system.printable import show_bytes
from stages.errors import DataError, Stopped

MAX_ATTEMPTS = 3
"""Workers that one task may take down before the run stops."""
POLL_SECONDS = 0.5
"""Longest wait for results before signals and nodes are looked at."""
NODE_CHECK_SECONDS = 10.0
SPARE_SECONDS = 5.0
"""How long a task waits for room before idle actors are ended for it."""
PASSED_SECONDS = 30.0
"""How long later tasks may pass one that does not fit."""


class Dataflow:
    """Does steps on Ray actors, which stay from one call to the next.

    A lost actor's tasks are given out again; a task that takes down `MAX_ATTEMPTS` workers stops the run
    with its name. If a task fails, those at work are finished and the first failure in canonical order
    is raised.

    Args:
        root: the run's folder, the same path on every node.
        attempt: this run of the program.
        resources: how many actors, where, and their memory.
        book: what is committed.
        progress: tells people.
        watch: says when memory runs short; then the work goes on with fewer actors at a time.
    """

    def __init__(
        self,
        root: Path,
        attempt: str,
        resources: WorkerResources,
        book: Book,
        *,
        progress: Progress,
        watch: MemoryWatch,
    ) -> None:
        self._place_of_work = (root, attempt)
        self._workers = resources.workers
        self._resources = resources
        self._book = book
        self._progress = progress
        self._watch = watch
        self._actors: list[Actor] = []
        self._here = Worker(root, attempt)
        self._ray = ExitStack()
        self._nodes: list[str] = []
        self._gpus = 0
        self._told: set[str] = set()
        self._checked = 0.0
        self._begin([])

    def do(self, steps: Sequence[StepRun]) -> None:
        """Do steps to their ends, each as soon as what it reads is there."""
        self._begin(steps)
        with self._watch.guard(self._give_up):
            while self._turn():
                pass

    def close(self) -> None:
        """Let the actors go, and leave Ray."""
        for actor in self._actors:
            actor.end()
        self._actors = []
        self._ray.close()

    def _begin(self, steps: Sequence[StepRun]) -> None:
        self._flow = Flow(steps, self._book)
        self._failures: list[tuple[Place, Exception]] = []
        self._losses: defaultdict[Node, int] = defaultdict(int)
        self._most: dict[str, int] = {}
        """Actors that may work at a time until a step is done, which took too much memory."""
        self._passed: dict[Place, float] = {}
        """When tasks first did not fit."""

    def _turn(self) -> bool:
        """Go on with what can go on, and wait for a result; say whether there is more to do."""
        if not self._failures:
            try:
                self._go_on()
            except Stopped:
                raise
            except Exception as error:  # noqa: BLE001  # raised when those at work are finished
                self._failures.append((self._flow.at, error))
        at_work = [actor for actor in self._actors if actor.running or not actor.has_started]
        if self._failures and not any(actor.running for actor in at_work):
            raise min(self._failures, key=lambda failure: failure[0])[1]
        if self._flow.is_done:
            return False
        self._wait(at_work)
        return True

    def _go_on(self) -> None:
        """Move the steps on, and give out what is ready."""
        self._flow.advance()
        while item := next((i for i in self._flow.ready() if _where(i) is Where.DRIVER), None):
            self._flow.give(item)
            self._flow.keep(item, self._here.run(item.task))
            self._flow.advance()
        if self._flow.num_ready:
            self._start_ray()
            while self._busy < self._size and self._place_next():
                pass
            self._give_ahead()

    # Where tasks go.

    @property
    def _size(self) -> int:
        """Actors that may work at a time."""
        return min([self._workers, *(n for name, n in self._most.items() if self._flow.is_open(name))])

    @property
    def _busy(self) -> int:
        """Actors that work or start; those with a GPU do not count."""
        return sum(
            bool(actor.running) or not actor.has_started for actor in self._actors if not actor.num_gpus
        )

    def _idle(self) -> list[Actor]:
        return [one for one in self._actors if one.has_started and not one.running and not one.given_up]

    def _room(self, node: str) -> int:
        """Return the bytes of a node that are not reserved."""
        held = (one.reserved for one in self._actors if one.node == node or not one.has_started)
        return self._resources.memory - BASE - sum(held)

    def _place_next(self) -> bool:
        """Give out a task, or start or end an actor for one; say whether anything was done."""
        now, idle = time.monotonic(), self._idle()
        waited = {place: now - since for place, since in self._passed.items()}
        blocked = max(waited.values(), default=0.0) > PASSED_SECONDS
        for actor in idle if not blocked else ():
            for item in actor.preferred:
                if self._flow.is_ready(item) and self._give(actor, item):
                    return True
        for item in self._flow.ready():
            if _where(item) is Where.DRIVER:
                continue
            if self._place(item, idle):
                self._passed.pop(item.place, None)
                return True
            self._passed.setdefault(item.place, now)
            if waited.get(item.place, 0.0) > PASSED_SECONDS:
                break
        return self._make_room(idle, waited)

    def _place(self, item: Item, idle: Sequence[Actor]) -> bool:
        """Give a task to an actor, or start one; say whether there was room."""
        self._tell_room(item)
        need = WORKER + item.work.need.bytes
        if _where(item) is not Where.WORKERS:
            gpu = self._gpus > 0 and _where(item) is Where.TRAINER
            if gpu and sum(actor.num_gpus for actor in self._actors) >= self._gpus:
                return False
            if not any(self._room(node) >= need for node in self._nodes):
                return False
            self._flow.give(item)
            self._start(item, num_gpus=1.0 if gpu else 0.0)
            return True
        if any(self._give(actor, item) for actor in idle):
            return True
        starting = sum(not actor.has_started for actor in self._actors)
        pool = sum(actor.alone is None for actor in self._actors)
        more = pool < self._workers and starting < self._flow.num_ready
        if more and any(self._room(node) >= need for node in self._nodes):
            self._start(None)
            return True
        return False

    def _give(self, actor: Actor, item: Item) -> bool:
        """Give a task to an idle actor if its node has room for it."""
        if item.work.need.bytes > self._room(actor.node):
            return False
        self._flow.give(item)
        actor.give(item)
        return True

    def _give_ahead(self) -> None:
        """Give a second task to actors while enough are ready, so that none waits for the driver."""
        for actor in self._actors:
            if len(actor.running) == 1 and actor.alone is None and not actor.given_up:
                if self._flow.num_ready <= len(self._actors):
                    return
                self._give_one_ahead(actor)

    def _give_one_ahead(self, actor: Actor) -> None:
        """Give an actor a task that its last one made ready, or one that reserves no more memory."""
        room = self._room(actor.node)
        for item in (*actor.preferred, *self._flow.ready()):
            more = WORKER + item.work.need.bytes - actor.reserved
            fits = more <= (room if item in actor.preferred else 0)
            if fits and _where(item) is Where.WORKERS and self._flow.is_ready(item):
                self._flow.give(item)
                actor.give(item)
                return

    def _make_room(self, idle: Sequence[Actor], waited: Mapping[Place, float]) -> bool:
        """End an idle actor if a task waits for room; say whether one was ended."""
        if not idle and not self._busy and not self._actors:
            item = next(self._flow.ready(), None)
            assert item is None, f"{item}: one worker of every step has room"
        stuck = not any(actor.running or not actor.has_started for actor in self._actors)
        if idle and (stuck or max(waited.values(), default=0.0) > SPARE_SECONDS):
            self._drop(idle[-1])
            return True
        return False

    def _tell_room(self, item: Item) -> None:
        """Refuse a step of which no worker fits; tell people if not as many fit as asked for."""
        name, need, memory = item.task.step, item.work.need, self._resources.memory
        key = f"{name} {need.bytes}"
        if key in self._told:
            return
        self._told.add(key)
        workers = self._workers
        fitting = fitting_workers(memory, workers, step=name, need=need.bytes, remedy=need.remedy)
        if fitting * len(self._nodes) < workers and _where(item) is Where.WORKERS:
            self._progress.note(
                f"resources.memory = {show_bytes(memory)}: a node has room for {fitting} of"
                f" {workers} workers in step {name}"
            )

    # Actors.

    def _start_ray(self) -> None:
        if self._nodes:
            return
        resources = self._resources
        self._progress.note("joining Ray" if resources.address else "starting Ray")
        config = ClusterConfig(resources.workers, resources.address, resources.memory)
        self._ray.enter_context(ray_cluster(config))
        self._nodes, self._gpus = node_names(), num_gpus()

    def _start(self, alone: Item | None, *, num_gpus: float = 0.0) -> None:
        """Start an actor; one that is alone is given its task at once."""
        actor = start_actor(*self._place_of_work, alone=alone, num_gpus=num_gpus)
        self._actors.append(actor)

    def _drop(self, actor: Actor) -> None:
        """End an actor; what it was given is ready again."""
        self._actors.remove(actor)
        for item in actor.running.values():
            self._flow.give_back(item)
        if actor.alone is not None and not actor.running:
            self._flow.give_back(actor.alone)
        actor.end()

    def _give_up(self) -> None:
        """End the actor that is furthest over its reservation; on the watch's thread."""
        live = [actor for actor in list(self._actors) if actor.has_started and not actor.given_up]
        actors = [actor for actor in live if actor.running] or live
        if actors:
            actor = max(actors, key=lambda one: held_bytes(one.pid) - one.reserved)
            actor.given_up = True
            end_process(actor.pid)

    def _retire(self, actor: Actor) -> None:
        """Go on after an actor was given up, with fewer at a time."""
        if not actor.running:
            self._drop(actor)
            return
        items = list(actor.running.values())
        others = sum(bool(one.running) for one in self._actors) - 1
        self._drop(actor)
        first = items[0]
        idle = self._idle()
        if not others and not idle:
            self._watch.refuse(first.task.name, step=first.task.step, remedy=first.work.need.remedy)
        for one in idle:
            self._drop(one)
        left = max(others, 1)
        self._most[first.task.step] = left
        self._watch.note(f"memory is short: going on with {left} worker{'s' if left > 1 else ''}")

    # Results.

    def _wait(self, at_work: Sequence[Actor]) -> None:
        """Wait for a result, or for an actor to start, and look after the actors."""
        running = {ref: actor for actor in at_work for ref in actor.running}
        starting = {actor.hello: actor for actor in at_work if not actor.has_started}
        if running or starting:
            refs = [*running, *starting]
            ready, _ = ray.wait(refs, timeout=POLL_SECONDS, fetch_local=False)
            for ref in ready:  # one at most
                if ref in starting:
                    self._welcome(starting[ref])
                else:
                    self._take(running[ref], ref)
        check_daemons()
        if time.monotonic() - self._checked > NODE_CHECK_SECONDS:
            check_nodes()
            self._checked = time.monotonic()
        for actor in [actor for actor in self._actors if actor.given_up]:
            self._retire(actor)
        self._give_up_waiting()

    def _welcome(self, actor: Actor) -> None:
        actor.greet()
        if actor.alone is not None:
            actor.give(actor.alone)

    def _give_up_waiting(self) -> None:
        """Go on without actors that do not start: the cluster has fewer CPUs than asked for."""
        late = time.monotonic() - START_SECONDS
        missing = [a for a in self._actors if not a.has_started and a.started < late]
        if not missing:
            return
        for actor in missing:
            self._drop(actor)
        if not self._actors:
            raise Stopped(
                f"none of {len(missing)} Ray actors started in {START_SECONDS:.0f} s; the cluster has"
                f" {ray.available_resources().get('CPU', 0):.0f} CPUs free"
            )
        self._workers = len(self._actors)  # for good

    def _take(self, actor: Actor, ref: Any) -> None:
        """Commit a result, or deal with its failure."""
        item = actor.running.pop(ref)
        try:
            outcome = result_of(ref, item)
            following, woken = self._flow.keep(item, outcome)
            before = [one for one in actor.preferred if self._flow.is_ready(one)]
            actor.preferred = [*woken, *before]
        except LostError as lost:
            actor.running[ref] = item
            if not actor.given_up:  # else it is the watch's doing, and no fault of the task
                self._lose(actor, item, lost)
            return
        except Stopped:
            raise
        except Exception as error:  # noqa: BLE001  # raised when those at work are finished
            self._failures.append((item.place, error))
            following = None
        if following is not None and not self._failures:
            actor.give(following)
        elif actor.alone is not None:
            actor.alone = None
            self._drop(actor)

    def _lose(self, actor: Actor, item: Item, lost: LostError) -> None:
        """Have a lost actor's tasks done by others."""
        self._drop(actor)  # it may only be out of reach; two must never write one unit
        losses = self._losses[item.task.node] = self._losses[item.task.node] + 1
        if losses >= MAX_ATTEMPTS:
            error = DataError(
                f"{item.task.unit}: took down {losses} workers ({type(lost.__cause__).__name__});"
                " if they ran out of memory, give the run more or set a smaller ingest.unit_size"
            )
            error.__cause__ = lost.__cause__
            self._failures.append((item.place, error))
        check_nodes()


def _where(item: Item) -> Where:
    return item.work.phase.where
