"""A book of commits that forgets all when the test ends."""

from dataclasses import dataclass, field
from pathlib import Path

from pipeline.engine.memory import Need
from pipeline.engine.step_run import StepRun, one_phase
from pipeline.engine.tasks import Function, Node, Phase, Phases, Task
from pipeline.state.commit_object import Commit
from pipeline.state.publishing import Outcome
from pipeline.state.worker_place import NOTHING, Known


@dataclass
class MemoryBook:
    """What is committed, in the order in which it was."""

    commits: dict[Node, Commit] = field(default_factory=dict)
    outcomes: dict[Node, Outcome] = field(default_factory=dict)
    contents: dict[Node, dict[str, bytes]] = field(default_factory=dict)
    """Of the files of each, by key, as its worker left them."""
    given: list[Node] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def commit_of(self, task: Task) -> Commit | None:
        """Return the commit of a task, if it is done."""
        return self.commits.get(task.node)

    def commit(self, task: Task, outcome: Outcome) -> Commit:
        """Commit what a task made, once."""
        assert task.node not in self.commits
        self.outcomes[task.node] = outcome
        self.contents[task.node] = {key: (outcome.folder / key).read_bytes() for key in outcome.files}
        commit = Commit(
            step=task.step,
            unit=task.unit,
            fingerprint=task.fingerprint,
            files=dict(outcome.files),
            record=outcome.record,
        )
        self.commits[task.node] = commit
        return commit

    def flush(self) -> None:
        """Note nothing: all lasts as long as this."""

    def begin(self, phase: Phase, step: str, total: int) -> "MemoryBatch":
        """Note that work on a phase begins."""
        self.said.append(f"{step}: {phase.title} {total}")
        return MemoryBatch(self, f"{step}: {phase.title}")

    def known(self, task: Task, before: Commit | None) -> Known:
        """Return nothing: the run lies in a folder."""
        del task, before
        return NOTHING

    def count_workers(self, count: int) -> None:
        """Note nothing."""

    def give(self, task: Task, *, waited: float = 0.0) -> None:
        """Note that a task is given to a worker."""
        assert waited >= 0
        self.given.append(task.node)

    @property
    def units(self) -> list[str]:
        """The units in the order of their commits."""
        return [unit for _, unit in self.commits]


@dataclass
class MemoryBatch:
    """A phase of such a book."""

    book: MemoryBook
    name: str

    def advance(self, *, more: bool, documents: int = 0) -> None:  # a batch is told
        """Count one finished task."""

    def grow(self, tasks: int) -> None:
        """Count tasks that were not known before."""

    def end(self) -> None:
        """Say that the phase is done."""
        self.book.said.append(f"{self.name} ended")


def task_of(step: str, unit: str, function: Function, payload: object, *after: Node) -> Task:
    """Return a task of a step."""
    return Task(step, unit, function, payload, "f", after)


def step_run(
    name: str,
    work: "Phases[object] | Phase",
    *,
    after: tuple[str, ...] = (),
    overlaps: tuple[str, ...] = (),
    need: Need | None = None,
) -> StepRun:
    """Return a step that is to be done, of one phase or of more."""
    phases = one_phase(work) if isinstance(work, Phase) else work
    return StepRun(name, need or Need(0), phases, after=frozenset(after), overlaps=frozenset(overlaps))


def outcome_of(task: Task) -> Outcome:
    """Return what a task that does nothing makes."""
    return Outcome(Path(task.unit), {})
