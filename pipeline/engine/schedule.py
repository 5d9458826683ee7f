"""The schedule of a session: which steps may begin, and which tasks are ready, at any moment.

    after      of a step: steps that must be done before it begins; of a task: units, of steps at work
    overlaps   of a step: steps that may be at work beside it; no phase of it ends before they are done
    each       of a phase: the step at work whose commits give its tasks, and so come before them
    urgent     of a phase: its tasks come first of all that are ready; nothing waits for them

A step begins when those that it reads are done, except those that it overlaps: of these its tasks name
the units that they read, and are ready as soon as the units are committed. Nothing here knows of
workers.
"""

import heapq
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.engine.step_run import CommitStore, PhaseRun, StepRun
from pipeline.engine.tasks import Node, Task
from pipeline.state.commit_object import Commit
from pipeline.state.publishing import Outcome

Turn = tuple[int, int]
"""In canonical order: the number of the step, then that of the task."""


@dataclass(frozen=True, order=True)
class Item:
    """A task that is to be done."""

    turn: Turn
    task: Task = field(compare=False)
    work: PhaseRun = field(compare=False)


@dataclass(eq=False)
class _BegunStep:
    """A step that has begun."""

    step: StepRun
    number: int
    work: PhaseRun | None = None
    """None once its work has ended."""
    result: Any = None
    queue: list[Item] = field(default_factory=list)
    """A heap of the tasks that are ready, and of some that were given out since."""
    given: int = 0
    """Tasks that were numbered."""

    @property
    def is_urgent(self) -> bool:
        """Whether its tasks come before those of earlier steps."""
        return self.work is not None and self.work.phase.urgent


class Schedule:
    """Steps of a session on their way.

    Args:
        steps: in canonical order.
        book: what is committed.
    """

    def __init__(self, steps: Sequence[StepRun], book: CommitStore) -> None:
        self._book = book
        self._waiting = dict(enumerate(steps))
        self._open = {step.name for step in steps}
        self.at: Turn = (0, 0)
        """What it was doing when it raised an error."""
        self._active: list[_BegunStep] = []
        self._ready: dict[Node, float] = {}
        """The moments at which tasks became ready."""
        self._made: set[Node] = set()
        self._blocked: defaultdict[Node, list[tuple[_BegunStep, Item]]] = defaultdict(list)
        self._growing: defaultdict[str, list[_BegunStep]] = defaultdict(list)
        """Steps whose phase grows by the commits of another, by the name of that."""

    @property
    def is_done(self) -> bool:
        """Whether all steps are."""
        return not self._open

    def advance(self) -> None:
        """Begin what can begin, go on with what can go on, end what has ended."""
        moved = True
        while moved:
            moved = False
            for number, step in list(self._waiting.items()):
                if self._open.isdisjoint(step.after):
                    del self._waiting[number]
                    active = _BegunStep(step, number)
                    self._active.append(active)
                    self._active.sort(key=lambda one: one.number)
                    self._send(active, None)
                    moved = True
            for active in list(self._active):
                moved |= self._move(active)

    def ready(self) -> Iterator[Item]:
        """Yield the first task that is ready of each step: urgent ones, then in canonical order."""
        for active in sorted(self._active, key=lambda one: not one.is_urgent):
            first = self._first(active)
            if first is not None:
                yield first

    def next_beside(self, item: Item) -> Item | None:
        """Return the first task that is ready of the phase of another."""
        first = self._first(self._of(item))
        return first if first is not None and first.work is item.work else None

    def _first(self, active: _BegunStep) -> Item | None:
        while active.queue and active.queue[0].task.node not in self._ready:
            heapq.heappop(active.queue)  # it was given out of its turn
        return active.queue[0] if active.queue else None

    @property
    def num_ready(self) -> int:
        """How many tasks are ready."""
        return len(self._ready)

    def is_ready(self, item: Item) -> bool:
        """Say whether a task is still ready and not given out."""
        return item.task.node in self._ready

    def is_open(self, name: str) -> bool:
        """Say whether a step is not done yet."""
        return name in self._open

    def give(self, item: Item) -> None:
        """Take out a task that is given to a worker."""
        item.work.give(item.task, waited=time.monotonic() - self._ready.pop(item.task.node))

    def give_back(self, item: Item) -> None:
        """Have a task done again, whose worker is gone."""
        self._ready[item.task.node] = time.monotonic()
        heapq.heappush(self._of(item).queue, item)

    def set_aside(self, item: Item) -> None:
        """Do a task no more that was given back: its phase does not end, and later ones do not begin."""
        del self._ready[item.task.node]

    def commit(self, item: Item, outcome: Outcome) -> tuple[Item | None, list[Item]]:
        """Commit what a task made.

        Returns:
            The task that goes on from it, if any, which is for the same worker and not ready for others;
            and those that became ready.
        """
        active = self._of(item)
        task = item.work.commit(item.task, outcome)
        following = None if task is None else Item(item.turn, task, item.work)
        if task is not None:
            item.work.give(task)
        return following, self._wake(active)

    def _of(self, item: Item) -> _BegunStep:
        return next(active for active in self._active if active.number == item.turn[0])

    def _move(self, active: _BegunStep) -> bool:
        """Go on with a step whose phase is done, or end it."""
        work = active.work
        if (work is not None and not work.is_done) or not self._open.isdisjoint(active.step.overlaps):
            return False
        if work is None:
            self.at = active.number, active.given
            active.step.finish(active.result)
            self._active.remove(active)
            self._open.discard(active.step.name)
            self._free(active.step.name)
            return True
        if work.phase.each is not None:
            self._growing[work.phase.each.step].remove(active)
            work.end()
        self._send(active, work.answer())
        return True

    def _send(self, active: _BegunStep, answer: dict[str, Commit] | None) -> None:
        """Have a step go on to its next phase or to its end."""
        self.at = active.number, active.given
        try:
            phase = active.step.work.send(answer)  # type: ignore[arg-type]  # None begins it
        except StopIteration as end:
            active.work, active.result = None, end.value
            return
        active.work = PhaseRun(active.step, phase, self._book)
        for task in active.work.waiting:
            self._number(active, task)
        each = phase.each
        if each is not None:
            self._growing[each.step].append(active)
            for source in self._active:
                if source.step.name == each.step and source.work is not None:
                    for commit in list(source.work.commits.values()):
                        self._grow(active, commit)
        self._wake(active)

    def _number(self, active: _BegunStep, task: Task) -> Item | None:
        """Put a task behind the others of its step; return it if it is ready."""
        assert active.work is not None, "its tasks are of a phase"
        item = Item((active.number, active.given), task, active.work)
        active.given += 1
        return item if self._lay(active, item) else None

    def _grow(self, active: _BegunStep, commit: Commit) -> Item | None:
        """Add the task that a commit of another step leads to; return it if it is ready."""
        assert active.work is not None, "its tasks are of a phase"
        task = active.work.extend(commit)
        return None if task is None else self._number(active, task)

    def _lay(self, active: _BegunStep, item: Item) -> bool:
        """Put a task where it is ready, or where it waits for a unit; say whether it is ready."""
        for node in item.task.after:
            if node not in self._made and node[0] in self._open:
                self._blocked[node].append((active, item))
                return False
        self._ready[item.task.node] = time.monotonic()
        heapq.heappush(active.queue, item)
        return True

    def _wake(self, active: _BegunStep) -> list[Item]:
        """Note the commits of a phase; return the tasks that became ready."""
        work, woken = active.work, list[Item]()
        assert work is not None, "its tasks are of a phase"
        for unit in work.take_new():
            node = (active.step.name, unit)
            self._made.add(node)
            for waiting, item in self._blocked.pop(node, ()):
                if self._lay(waiting, item):
                    woken.append(item)
            for growing in self._growing[active.step.name]:
                new = self._grow(growing, work.commits[unit])
                woken += [] if new is None else [new]
                woken += self._wake(growing)
        return woken

    def _free(self, name: str) -> None:
        """Have nothing wait for units of a step that is done."""
        for node in [node for node in self._blocked if node[0] == name]:
            for waiting, item in self._blocked.pop(node):
                self._lay(waiting, item)
