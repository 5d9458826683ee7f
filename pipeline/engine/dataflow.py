"""The dataflow: tasks of all steps that can be at work, on Ray actors, within the memory that there is.

Every task reserves on its node what a worker of its step may hold, before it starts. Tasks are given out
in canonical order, but an actor goes on with the chain it has begun, then with what its last task made
ready, and a task that does not fit lets later ones pass for some seconds only. Which actor does what,
and when, changes no byte; `pipeline.engine.plain_loop` is the oracle.
"""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.engine.actor_pool import ActorPool
from pipeline.engine.actors import Actor, LostError, arrived, batch_size, results_of
from pipeline.engine.cluster import check_daemons
from pipeline.engine.failures import Failures
from pipeline.engine.losses import Losses
from pipeline.engine.memory import WORKER, WorkerResources
from pipeline.engine.progress import Progress
from pipeline.engine.schedule import Item, Schedule, Turn
from pipeline.engine.step_run import CommitStore, StepRun, fitting
from pipeline.engine.tasks import TaskPlace, Worker
from pipeline.engine.watch import MemoryWatch
from pipeline.state.publishing import Outcome
from pipeline.state.worker_place import WorkerPlace
from pipeline.system.printable import show_bytes
from stages.errors import Stopped

MAX_VAIN = 3
"""Idle actors that are given up for memory, one after the other, before a step is refused."""
NODE_CHECK_SECONDS = 2.0
SPARE_SECONDS = 5.0
"""How long a task waits for room before idle actors are ended for it."""
PASSED_SECONDS = 30.0
"""How long later tasks may pass one that does not fit."""
_SHARES = 4
"""An actor is given at most one part in so many of its share of the tasks that are ready."""
MAX_PREFERRED = 8
"""Tasks that an actor prefers, of those that its own made ready."""


class Dataflow:
    """Does steps on Ray actors, which stay from one call to the next.

    A lost actor's tasks are given out again, or set aside (`pipeline.engine.losses`). If a task fails,
    those at work are finished, and those that came back from a batch and come before it. Then the first
    failure in canonical order is raised.

    Args:
        place: of the run.
        resources: how many actors, where, and their memory.
        book: what is committed.
        progress: tells people.
        watch: says when memory runs short; then the work goes on with fewer actors at a time.
    """

    def __init__(
        self,
        place: WorkerPlace,
        resources: WorkerResources,
        book: CommitStore,
        *,
        progress: Progress,
        watch: MemoryWatch,
    ) -> None:
        self._pool = ActorPool(place, resources, progress, watch)
        self._book = book
        self._progress = progress
        self._watch = watch
        self._here = Worker(place)
        self._announced: set[str] = set()
        self._checked = 0.0
        self._begin([])

    def do(self, steps: Sequence[StepRun]) -> None:
        """Do steps to their ends, each as soon as what it reads is there."""
        self._begin(steps)
        with self._watch.guard(self._pool.give_up):
            while self._round():
                pass

    def close(self) -> None:
        """Let the actors go, and leave Ray."""
        self._pool.close()

    def _begin(self, steps: Sequence[StepRun]) -> None:
        self._schedule = Schedule(steps, self._book)
        self._failures = Failures(self._schedule)
        self._losses = Losses()
        self._most: dict[str, int] = {}
        """Actors that may work at a time until a step is done, which took too much memory."""
        self._passed: dict[Turn, float] = {}
        """When tasks first did not fit."""
        self._vain = 0
        """Idle actors given up since the last commit."""

    def _round(self) -> bool:
        """Go on with what can go on, and wait for a result; say whether there is more to do."""
        if self._failures:
            self._do_undone()
        else:
            try:
                self._go_on()
            except Stopped:
                raise
            except Exception as error:  # noqa: BLE001  # raised when those at work are finished
                self._failures.add(self._schedule.at, error)
        at_work = [actor for actor in self._pool.actors if actor.running or not actor.has_started]
        if self._failures and not any(actor.running for actor in at_work):
            raise self._failures.error()
        if self._schedule.is_done:
            return False
        if self._losses.set_aside and not at_work and not self._schedule.num_ready:
            raise self._losses.error()
        self._wait(at_work)
        return True

    def _go_on(self) -> None:
        """Move the steps on, and give out what is ready."""
        self._schedule.advance()
        while item := next((i for i in self._schedule.ready() if _where(i) is TaskPlace.DRIVER), None):
            self._hand(item)
            self._schedule.at = item.turn
            self._schedule.commit(item, self._here.run(item.task))
            self._book.flush()
            self._here.tidy([item.task.node])
            self._schedule.advance()
        if self._schedule.num_ready:
            self._pool.start_ray()
            self._place_on_gpus()
            while self._pool.busy < self._size and self._place_next():
                pass
            self._give_ahead()

    def _do_undone(self) -> None:
        """Give out alone what came back and comes before the first failure, as far as there is room."""
        for item in self._failures.undone():
            need = item.work.need.bytes
            actor = next((one for one in self._pool.idle() if need <= self._pool.room(one.node)), None)
            if actor is not None:
                self._hand(item)
                actor.give([item])

    # Where tasks go.

    @property
    def _size(self) -> int:
        """Actors that may work at a time."""
        return min(
            [self._pool.workers, *(n for name, n in self._most.items() if self._schedule.is_open(name))]
        )

    def _hand(self, item: Item) -> None:
        """Note that somebody gets a task."""
        self._passed.pop(item.turn, None)
        self._schedule.give(item)

    def _place_on_gpus(self) -> None:
        """Start an actor for each task that gets a GPU; it takes none of the workers' places."""
        for item in list(self._schedule.ready()):
            if self._gets_gpu(item) and self._pool.free_gpus > 0:
                self._tell_room(item)
                node = self._pool.node_with(WORKER + item.work.need.bytes)
                if node is not None:
                    self._hand(item)
                    self._pool.start(node, item, num_gpus=1.0)

    def _gets_gpu(self, item: Item) -> bool:
        return self._pool.num_gpus > 0 and _where(item) is TaskPlace.TRAINER

    def _place_next(self) -> bool:
        """Hand out a task, or start or end an actor for one; say whether anything was done."""
        now, idle = time.monotonic(), self._pool.idle()
        waited = {turn: now - since for turn, since in self._passed.items()}
        blocked = max(waited.values(), default=0.0) > PASSED_SECONDS
        for actor in idle if not blocked else ():
            for item in actor.preferred:
                if self._schedule.is_ready(item) and self._give(actor, item):
                    return True
        for item in self._schedule.ready():
            if _where(item) is TaskPlace.DRIVER or self._gets_gpu(item):
                continue
            if self._place(item, idle):
                return True
            self._passed.setdefault(item.turn, now)
            if waited.get(item.turn, 0.0) > PASSED_SECONDS:
                break
        return self._make_room(idle, waited)

    def _place(self, item: Item, idle: Sequence[Actor]) -> bool:
        """Hand a task to an actor, or start one; say whether there was room."""
        self._tell_room(item)
        need = WORKER + item.work.need.bytes
        if _where(item) is not TaskPlace.WORKERS:
            node = self._pool.node_with(need)
            if node is None:
                return False
            self._hand(item)
            self._pool.start(node, item)
            return True
        if any(self._give(actor, item) for actor in idle):
            return True
        starting = len(self._pool.actors) - self._pool.num_started
        pool = sum(actor.only_item is None for actor in self._pool.actors)
        more = pool < self._pool.workers and starting < self._schedule.num_ready
        node = self._pool.node_with(need) if more else None
        if node is not None:
            self._pool.start(node)
        return node is not None

    def _give(self, actor: Actor, item: Item) -> bool:
        """Hand a task to an idle actor if its node has room for it."""
        if item.work.need.bytes > self._pool.room(actor.node):
            return False
        self._give_batch(actor, item)
        return True

    def _give_batch(self, actor: Actor, item: Item) -> None:
        """Hand a task to an actor, and short ones of its phase with it."""
        share = self._schedule.num_ready // (_SHARES * self._pool.workers)
        size = 1 if self._losses.suspect(item) else min(share, batch_size(item.work))
        preferred = [one for one in actor.preferred if one.work is item.work]
        batch = [item]
        self._hand(item)
        while len(batch) < size:
            more = next((one for one in preferred if self._schedule.is_ready(one)), None)
            more = more or self._schedule.next_beside(item)
            if more is None or self._losses.suspect(more):
                break
            self._hand(more)
            batch.append(more)
        actor.give(batch)

    def _give_ahead(self) -> None:
        """Hand a second task to actors while enough are ready, so that none waits for the driver."""
        oldest = min(self._passed.values(), default=math.inf)
        if time.monotonic() - oldest > PASSED_SECONDS:
            return  # what has waited for so long is to have the next room
        for actor in self._pool.actors:
            others = any(self._losses.suspect(item) for item in actor.items)
            if len(actor.running) == 1 and actor.only_item is None and not actor.given_up and not others:
                if self._schedule.num_ready <= len(self._pool.actors):
                    return
                self._give_one_ahead(actor)

    def _give_one_ahead(self, actor: Actor) -> None:
        """Hand an actor a task that its last one made ready, or one that reserves no more memory."""
        room = self._pool.room(actor.node)
        for item in (*actor.preferred, *self._schedule.ready()):
            more = WORKER + item.work.need.bytes - actor.reserved
            fits = more <= (room if item in actor.preferred else 0)
            for_workers = _where(item) is TaskPlace.WORKERS and self._schedule.is_ready(item)
            if fits and for_workers and not actor.breaks_chain(item) and not self._losses.suspect(item):
                self._give_batch(actor, item)
                return

    def _make_room(self, idle: Sequence[Actor], waited: Mapping[Turn, float]) -> bool:
        """End an idle actor if a task waits for room; say whether one was ended."""
        if not idle and not self._pool.busy and not self._pool.actors:
            item = next(self._schedule.ready(), None)
            assert item is None, f"{item}: one worker of every step has room"
        stuck = not any(actor.running or not actor.has_started for actor in self._pool.actors)
        if idle and (stuck or max(waited.values(), default=0.0) > SPARE_SECONDS):
            self._drop(idle[-1])
            return True
        return False

    def _tell_room(self, item: Item) -> None:
        """Refuse a step of which no worker fits; tell people if not as many fit as asked for."""
        name, need, memory = item.task.step, item.work.need, self._pool.memory
        key = f"{name} {need.bytes} {memory}"
        if key in self._announced:
            return
        self._announced.add(key)
        workers = self._pool.workers
        room = fitting(item.work, memory, workers)
        if room * len(self._pool.nodes) < workers and _where(item) is TaskPlace.WORKERS:
            self._progress.note(
                f"resources.memory = {show_bytes(memory)}: a node has room for {room} of"
                f" {workers} workers in step {name}"
            )

    # Actors.

    def _drop(self, actor: Actor) -> None:
        """End an actor; what it was given is ready again."""
        for item in self._pool.drop(actor):
            self._schedule.give_back(item)
        self._count_workers()

    def _count_workers(self) -> None:
        self._book.count_workers(self._pool.num_started)

    def _retire(self, actor: Actor) -> None:
        """Go on after an actor was given up, with fewer at a time."""
        if not actor.running:
            self._drop(actor)
            self._vain += 1
            item = next(self._schedule.ready(), None)
            if self._vain >= MAX_VAIN and item is not None:  # not even idle actors fit
                self._watch.refuse(item.task.name, step=item.task.step, remedy=item.work.need.remedy)
            return
        items = actor.items
        others = sum(bool(one.running) for one in self._pool.actors) - 1
        self._drop(actor)
        first = items[0]
        rest = [] if others else list(self._pool.actors)
        if not others and not rest:
            self._watch.refuse(first.task.name, step=first.task.step, remedy=first.work.need.remedy)
        for one in rest:
            self._drop(one)
        left = max(others, 1)
        self._most[first.work.step.name] = left
        self._watch.note(f"memory is short: going on with {left} worker{'s' if left > 1 else ''}")

    # Results.

    def _wait(self, at_work: Sequence[Actor]) -> None:
        """Wait for a result, or for an actor to start, and look after the actors."""
        running = {ref: actor for actor in at_work for ref in actor.running}
        starting = {actor.hello: actor for actor in at_work if not actor.has_started}
        if running or starting:
            for ref in arrived([*starting, *running]):
                actor = starting.get(ref) or running[ref]
                if actor not in self._pool.actors:
                    continue  # an answer before this one ended it
                if ref in starting:
                    self._welcome(actor)
                else:
                    self._take(actor, ref)
            self._book.flush()
        check_daemons()
        if time.monotonic() - self._checked > NODE_CHECK_SECONDS:
            self._checked = time.monotonic()
            for actor in self._pool.look_at_nodes():
                self._lose(actor, "its node is gone")
        for actor in self._pool.given_up():
            self._retire(actor)
        for item in self._pool.drop_late():
            self._schedule.give_back(item)

    def _welcome(self, actor: Actor) -> None:
        ended = self._pool.welcome(actor)
        for one in ended:
            self._drop(one)
        self._count_workers()
        if actor in ended:
            return
        if actor.only_item is not None and self._failures:
            self._drop(actor)
        elif actor.only_item is not None:
            actor.give([actor.only_item])

    def _take(self, actor: Actor, ref: Any) -> None:
        """Commit the results of a batch, or deal with its failure."""
        batch = actor.running.pop(ref)
        following, outcomes = None, list[Outcome]()
        with self._failures.noting(batch[0]):
            try:
                outcomes = results_of(ref, batch)
            except LostError as lost:
                actor.running = {ref: batch, **actor.running}
                if not self._pool.has_given_up(actor):  # else it is no fault of the task
                    self._lose(actor, type(lost.__cause__).__name__)
                return
        for item in batch[max(len(outcomes), 1) :]:
            self._failures.give_back(item)
        for item, outcome in zip(batch, outcomes, strict=False):
            with self._failures.noting(item):
                following = self._commit(actor, item, outcome)
        if following is not None and not self._failures:
            actor.give([following])
        elif actor.only_item is not None:
            actor.only_item = None
            self._drop(actor)

    def _commit(self, actor: Actor, item: Item, outcome: Outcome) -> Item | None:
        """Commit a result; return the task that goes on from it, if any."""
        following, woken = self._schedule.commit(item, outcome)
        actor.committed.append(item.task.node)
        self._vain = 0
        before = [one for one in actor.preferred if self._schedule.is_ready(one)]
        actor.preferred = [*woken, *before][:MAX_PREFERRED]
        return following

    def _lose(self, actor: Actor, cause: str) -> None:
        """Have a lost actor's tasks done by others; one that others were lost by, too, is set aside."""
        items = actor.items
        self._drop(actor)
        for item in items:
            message = self._losses.count(item, actor.node, cause)
            if message:
                self._schedule.set_aside(item)
                self._progress.note(f"warning: {message}. What does not need it is done first")


def _where(item: Item) -> TaskPlace:
    return item.work.phase.where
