"""A step at work: its phases one after the other, and of each what is committed and what is left.

Both engines, the plain loop and the dataflow, do steps by these two classes alone.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pipeline.engine.memory import Need, fitting_workers
from pipeline.engine.tasks import Phase, Task
from pipeline.state.commit_object import Commit
from pipeline.state.publishing import Outcome
from pipeline.state.worker_place import Known

_NEWS = 0.125
"""Weight of the last task in the seconds that tasks take on average."""


class PhaseProgress(Protocol):
    """A phase as people see it."""

    def advance(self, *, more: bool, documents: int = 0) -> None:
        """Count one finished task and its documents; `more` says that it was followed by another."""
        ...

    def grow(self, tasks: int) -> None:
        """Count tasks that were not known before."""
        ...

    def end(self) -> None:
        """Say that the phase is done."""
        ...


class CommitStore(Protocol):
    """What is committed."""

    def commit_of(self, task: Task) -> Commit | None:
        """Return the commit of a task, if it is done."""
        ...

    def commit(self, task: Task, outcome: Outcome) -> Commit:
        """Commit what a task made; `flush` makes that last."""
        ...

    def flush(self) -> None:
        """Have what was committed outlast a power cut, and what was noted outlast a kill."""
        ...

    def begin(self, phase: Phase, step: str, total: int) -> PhaseProgress:
        """Note that work on a phase begins."""
        ...

    def give(self, task: Task, *, waited: float = 0.0) -> None:
        """Note that a task is given to a worker, and for how many seconds it was ready before."""
        ...

    def known(self, task: Task, before: Commit | None) -> Known:
        """Return what a worker is told of the files that a task may read.

        Args:
            task: to be done.
            before: the commit that it goes on from.
        """
        ...

    def count_workers(self, count: int) -> None:
        """Note how many workers have started and not ended."""
        ...


@dataclass(eq=False)
class StepRun:
    """A step that is to be done in this session."""

    name: str
    """No other's."""
    need: Need
    """The memory of a worker."""
    work: Generator[Phase, dict[str, Commit], Any]
    finish: Callable[[Any], None] = lambda _: None
    """Told what the work returned."""
    after: frozenset[str] = frozenset()
    """Names of those that must be done before it begins."""
    overlaps: frozenset[str] = frozenset()
    """Names of those that may be at work beside it: they must be done before any of its phases ends."""


@dataclass(eq=False)
class PhaseRun:
    """A phase at work."""

    step: StepRun
    phase: Phase
    book: CommitStore
    waiting: list[Task] = field(default_factory=list)
    """The first task of each chain that is not committed, in canonical order."""
    commits: dict[str, Commit] = field(default_factory=dict)
    """By unit."""
    _chains: dict[str, list[str]] = field(default_factory=dict)
    """By its first unit: those of a chain that are committed."""
    _chain_of: dict[str, list[str]] = field(default_factory=dict)
    """The chain of each unit that was given out."""
    _new: list[str] = field(default_factory=list)
    _batch: PhaseProgress | None = None
    _left: int = 0
    seconds: float | None = None
    """What its tasks took of late, on average; None before the first."""

    def __post_init__(self) -> None:
        """Look what of it is committed."""
        for first in self.phase.tasks:
            chain = self._chains[first.unit] = []
            task = first if self.phase.take else self._resumed(first, chain)
            if task is not None:
                self.waiting.append(task)
        self._left = len(self.waiting)
        if (self.waiting or self.phase.each) and self.phase.take is None:
            self._batch = self.book.begin(self.phase, self.step.name, self._left)

    @property
    def is_done(self) -> bool:
        """Whether nothing of what is known of it is left to do."""
        return not self._left

    def end(self) -> None:
        """Note that nothing is left to do, and no more will come."""
        if self._batch is not None:
            self._batch.end()
            self._batch = None

    def extend(self, commit: Commit) -> Task | None:
        """Return the task that a commit of another step leads to, unless it is committed itself."""
        assert self.phase.each is not None, "all its tasks were known"
        task = self.phase.each.task(commit)
        chain = self._chains[task.unit] = []
        left = self._resumed(task, chain)
        if left is not None:
            self._left += 1
            if self._batch is not None:
                self._batch.grow(1)
        return left

    @property
    def need(self) -> Need:
        """The memory of a worker."""
        return self.phase.need or self.step.need

    def give(self, task: Task, *, waited: float = 0.0) -> None:
        """Note that a task is given to a worker, and for how many seconds it was ready before."""
        if self.phase.take is None:
            self.book.give(task, waited=waited)

    def known(self, task: Task) -> Known:
        """Return what a worker is told of the files that a task may read."""
        chain = self._chain_of.get(task.unit, [])
        return self.book.known(task, self.commits[chain[-1]] if chain else None)

    def commit(self, task: Task, outcome: Outcome) -> Task | None:
        """Commit what a task made; return the task that goes on from it, if any."""
        took = outcome.metrics.get("seconds", 0.0)
        self.seconds = took if self.seconds is None else self.seconds + (took - self.seconds) * _NEWS
        if self.phase.take is not None:
            self.phase.take(task, outcome)
            self._left -= 1
            return None
        assert self._batch is not None, "there was something to do"
        chain = self._chain_of.pop(task.unit)
        following = self._resumed(self._noted(task, self.book.commit(task, outcome), chain), chain)
        self._batch.advance(more=following is not None, documents=documents_of(outcome.record))
        self._left -= following is None
        if self.is_done and self.phase.each is None:
            self.end()
        return following

    def take_new(self) -> list[str]:
        """Return the units that were found committed since the last call."""
        new, self._new = self._new, []
        return new

    def answer(self) -> dict[str, Commit]:
        """Return all commits by unit, in the order of the tasks, chains one after the other."""
        firsts = self._chains if self.phase.each is None else self.phase.each.order()
        return {unit: self.commits[unit] for first in firsts for unit in self._chains[first]}

    def _noted(self, task: Task, commit: Commit, chain: list[str]) -> Task | None:
        """Note a commit; return the task that goes on from it, if any."""
        self.commits[task.unit] = commit
        self._new.append(task.unit)
        chain.append(task.unit)
        return self.phase.follow(task, commit) if self.phase.follow else None

    def _resumed(self, task: Task | None, chain: list[str]) -> Task | None:
        """Return the first task of a chain that has no commit, from a task on."""
        while task is not None and (commit := self.book.commit_of(task)) is not None:
            task = self._noted(task, commit, chain)
        if task is not None:
            self._chain_of[task.unit] = chain
        return task


def documents_of(record: Mapping[str, Any]) -> int:
    """Return how many documents went into a unit of work, as its record says; 0 if it counts none."""
    flow = record.get("flow")
    count = flow["input"]["documents"] if isinstance(flow, dict) else record.get("documents")
    return count if isinstance(count, int) else 0


def fitting(work: PhaseRun, memory: int, workers: int) -> int:
    """Return how many workers of a phase fit into a node's memory.

    Raises:
        ConfigError: not even one.
    """
    remedy = work.need.remedy
    if remedy and work.phase.need is not None:  # what was known before the run was checked before it
        remedy += " and run with --replace"
    return fitting_workers(memory, workers, step=work.step.name, need=work.need.bytes, remedy=remedy)


def one_phase(phase: Phase) -> Generator[Phase, dict[str, Commit], Mapping[str, Commit]]:
    """Return work of one phase, which returns its commits."""
    return (yield phase)
