"""The dataflow: tasks of all steps that can be at work, on Ray actors, within the memory that there is.

Every task reserves on its node what a worker of its step may hold, before it starts. Tasks are given out
in canonical order, but an actor goes on with the chain it has begun, then with what its last task made
ready, and a task that does not fit lets later ones pass for some seconds only. Which actor does what,
and when, changes no byte; `pipeline.engine.plain_loop` is the oracle.
"""

import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import ray

from pipeline.engine.actor_pool import ActorPool
from pipeline.engine.actors import Actor, LostError, result_of
from pipeline.engine.cluster import check_daemons
from pipeline.engine.memory import WORKER, WorkerResources
from pipeline.engine.progress import Progress
from pipeline.engine.schedule import Item, Schedule, Turn
from pipeline.engine.step_run import CommitStore, StepRun, fitting
from pipeline.engine.tasks import Node, TaskPlace, Worker
from pipeline.engine.watch import MemoryWatch
from pipeline.state.worker_place import WorkerPlace
from pipeline.system.printable import show_bytes
from stages.errors import Stopped, VerificationError

MAX_ATTEMPTS = 3
"""Workers that one task may take down before it is set aside, if all are on one node."""
MAX_NODES = 2
"""Nodes on which one task may take down workers before it is set aside."""
POLL_SECONDS = 0.5
"""Longest wait for results before signals and nodes are looked at."""
NODE_CHECK_SECONDS = 2.0
SPARE_SECONDS = 5.0
"""How long a task waits for room before idle actors are ended for it."""
PASSED_SECONDS = 30.0
"""How long later tasks may pass one that does not fit."""
MAX_PREFERRED = 8
"""Tasks that an actor prefers, of those that its own made ready."""


class Dataflow:
    """Does steps on Ray actors, which stay from one call to the next.

    A lost actor's tasks are given out again. A task that takes down workers again and again is set
    aside: what does not read it is done, what reads it does not begin, and it is named at the end. If a
    task fails, those at work are finished and the first failure in canonical order is raised.

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
        self._pool = ActorPool(place, resources, progress)
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
        self._failures: list[tuple[Turn, Exception]] = []
        self._losses: defaultdict[Node, list[str]] = defaultdict(list)
        """The nodes on which tasks lost workers, one for each."""
        self._set_aside: list[tuple[Turn, VerificationError]] = []
        self._most: dict[str, int] = {}
        """Actors that may work at a time until a step is done, which took too much memory."""
        self._passed: dict[Turn, float] = {}
        """When tasks first did not fit."""
        self._vain = 0
        """Idle actors that were given up since the last commit."""

    def _round(self) -> bool:
        """Go on with what can go on, and wait for a result; say whether there is more to do."""
        if not self._failures:
            try:
                self._go_on()
            except Stopped:
                raise
            except Exception as error:  # noqa: BLE001  # raised when those at work are finished
                self._failures.append((self._schedule.at, error))
        at_work = [actor for actor in self._pool.actors if actor.running or not actor.has_started]
        if self._failures and not any(actor.running for actor in at_work):
            raise min(self._failures, key=lambda failure: failure[0])[1]
        if self._schedule.is_done:
            return False
        if self._set_aside and not at_work and not self._schedule.num_ready:
            raise _error_of(self._set_aside)
        self._wait(at_work)
        return True

    def _go_on(self) -> None:
        """Move the steps on, and give out what is ready."""
        self._schedule.advance()
        while item := next((i for i in self._schedule.ready() if _where(i) is TaskPlace.DRIVER), None):
            self._hand(item)
            self._schedule.at = item.turn
            self._schedule.commit(item, self._here.run(item.task))
            self._schedule.advance()
        if self._schedule.num_ready:
            self._pool.start_ray()
            self._place_on_gpus()
            while self._pool.busy < self._size and self._place_next():
                pass
            self._give_ahead()

    # Where tasks go.

    @property
    def _size(self) -> int:
        """Actors that may work at a time."""
        return min(
            [self._pool.workers, *(n for name, n in self._most.items() if self._schedule.is_open(name))]
        )

    def _hand(self, item: Item) -> None:
        """Note that a task is given to somebody."""
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
        starting = sum(not actor.has_started for actor in self._pool.actors)
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
        self._hand(item)
        actor.give(item)
        return True

    def _give_ahead(self) -> None:
        """Hand a second task to actors while enough are ready, so that none waits for the driver."""
        oldest = min(self._passed.values(), default=math.inf)
        if time.monotonic() - oldest > PASSED_SECONDS:
            return  # what has waited for so long is to have the next room
        for actor in self._pool.actors:
            others = any(self._is_suspect(item) for item in actor.running.values())
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
            if fits and for_workers and not _breaks_chain(item, actor) and not self._is_suspect(item):
                self._hand(item)
                actor.give(item)
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
        self._book.count_workers(sum(actor.has_started for actor in self._pool.actors))

    def _retire(self, actor: Actor) -> None:
        """Go on after an actor was given up, with fewer at a time."""
        if not actor.running:
            self._drop(actor)
            self._vain += 1
            item = next(self._schedule.ready(), None)
            if self._vain >= MAX_ATTEMPTS and item is not None:  # not even idle actors fit
                self._watch.refuse(item.task.name, step=item.task.step, remedy=item.work.need.remedy)
            return
        items = list(actor.running.values())
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
            refs = [*starting, *running]
            ready, _ = ray.wait(refs, timeout=POLL_SECONDS, fetch_local=False)
            for ref in ready:  # one at most
                if ref in starting:
                    self._welcome(starting[ref])
                else:
                    self._take(running[ref], ref)
        check_daemons()
        if time.monotonic() - self._checked > NODE_CHECK_SECONDS:
            self._checked = time.monotonic()
            for actor in self._pool.look_at_nodes():
                self._lose(actor, "its node is gone")
        for actor in [actor for actor in self._pool.actors if actor.given_up]:
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
            actor.give(actor.only_item)

    def _take(self, actor: Actor, ref: Any) -> None:
        """Commit a result, or deal with its failure."""
        item = actor.running.pop(ref)
        try:
            outcome = result_of(ref, item)
            following, woken = self._schedule.commit(item, outcome)
            self._vain = 0
            before = [one for one in actor.preferred if self._schedule.is_ready(one)]
            actor.preferred = [*woken, *before][:MAX_PREFERRED]
        except LostError as lost:
            actor.running = {ref: item, **actor.running}
            if not actor.given_up:  # else it is the watch's doing, and no fault of the task
                self._lose(actor, type(lost.__cause__).__name__)
            return
        except Stopped:
            raise
        except Exception as error:  # noqa: BLE001  # raised when those at work are finished
            self._failures.append((item.turn, error))
            following = None
        if following is not None and not self._failures:
            actor.give(following)
        elif actor.only_item is not None:
            actor.only_item = None
            self._drop(actor)

    def _lose(self, actor: Actor, cause: str) -> None:
        """Have a lost actor's tasks done by others; one that others were lost by, too, is set aside."""
        items = list(actor.running.values())
        self._drop(actor)  # it may only be out of reach; two must never write one unit
        for item in items:
            nodes = self._losses[item.task.node]
            nodes.append(actor.node)
            if len(nodes) < MAX_ATTEMPTS and len(set(nodes)) < MAX_NODES:
                continue
            self._schedule.set_aside(item)
            message = (
                f"{item.task.unit}: took down {len(nodes)} workers ({cause}); if they ran out of"
                " memory, give the run more or set a smaller ingest.unit_size"
            )
            self._set_aside.append((item.turn, VerificationError(message)))
            self._progress.note(f"warning: {message}. What does not need it is done first")

    def _is_suspect(self, item: Item) -> bool:
        """Say whether a task lost a worker: it shares none, so that no other is blamed for it."""
        return item.task.node in self._losses


def _error_of(set_aside: Sequence[tuple[Turn, VerificationError]]) -> VerificationError:
    """Return the error that names all tasks that were set aside."""
    first, *more = (error for _, error in sorted(set_aside, key=lambda one: one[0]))
    return VerificationError(f"{first}; and {len(more)} more, named above") if more else first


def _breaks_chain(item: Item, actor: Actor) -> bool:
    """Say whether a task would come between two that read one stream, or begin another in between."""
    of_step = [one for one in actor.running.values() if one.task.step == item.task.step]
    return any(one.task.chained or item.task.chained for one in of_step)


def _where(item: Item) -> TaskPlace:
    return item.work.phase.where
