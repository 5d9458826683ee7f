"""Follow: the work of a finished step once more, from its first task to its record, no task done.

    work of the step -> phase -> commits of its tasks, as they are -> next phase -> ... -> record

So each number of a step's record is held to the records of its units, by the code that added them up.
Which of the tasks are done again is decided elsewhere (`pipeline.steps.again.choice`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pipeline.engine.phase import Phase, Where
from pipeline.engine.tasks import Task
from pipeline.state.commit_object import Commit, commit_key
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.steps.again.differences import differing_values
from pipeline.steps.findings import FoundIn
from pipeline.steps.step import Job, Step, Whole
from stages.errors import ShardmillError
from stages.ledger import Flow, Tally, total_flow

MADE_AGAIN = "made again"
"""Name of the check."""


@dataclass(frozen=True)
class DoneTask:
    """A task of a finished step, and what it committed."""

    task: Task
    commit: Commit
    where: Where


@dataclass(frozen=True)
class Followed:
    """A finished step, followed to its end or to where its commits do not fit together."""

    tasks: tuple[DoneTask, ...]
    findings: tuple[FoundIn, ...]


def follow(step: Step[Any], job: Job, commits: Commits) -> Followed:
    """Follow the work of a finished step.

    Args:
        step: the step.
        job: its job, as it was when it was done.
        commits: of the run.
    """
    tasks: list[DoneTask] = []
    place = commit_key(job.plan.name, STEP_COMMIT)
    try:
        whole = _end_of(step, job, commits, tasks)
    except (
        ShardmillError,
        AssertionError,
        LookupError,
        ValueError,
        TypeError,
        ArithmeticError,
    ) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        message = f"what the step and its units committed does not fit together: {said}"
        return Followed(tuple(tasks), (FoundIn(file=place, check=MADE_AGAIN, message=message),))
    kept = commits.get(job.plan.name, STEP_COMMIT, job.plan.fingerprint)
    assert kept is not None, "only a finished step is followed"
    record = whole.record
    if whole.flows is not None:
        total = total_flow(whole.flows.values()) or Flow(input=Tally(), output=Tally())
        record = record.model_copy(update={"ledger": total})
    found = differing_values(kept.record, record.model_dump(mode="json"))
    messages = (f"{name} is {own}, and its units give {again}" for name, own, again in found)
    return Followed(
        tuple(tasks), tuple(FoundIn(file=place, check=MADE_AGAIN, message=text) for text in messages)
    )


def _end_of(step: Step[Any], job: Job, commits: Commits, tasks: list[DoneTask]) -> Whole[Any]:
    """Return what the work of a step comes to; its tasks are added as they come."""
    work = step.work(job)
    committed: dict[str, Commit] | None = None
    while True:
        try:
            phase = next(work) if committed is None else work.send(committed)
        except StopIteration as end:
            whole: Whole[Any] = end.value
            return whole
        done = list(_done(phase, commits, step.passing))
        tasks += done
        committed = {one.task.unit: one.commit for one in done}


def _done(phase: Phase, commits: Commits, passing: tuple[str, ...]) -> Iterator[DoneTask]:
    """Yield the tasks of a phase, those that go on from others too, with their commits.

    Args:
        phase: of the step.
        commits: of the run.
        passing: beginnings of the names of units that are gone by now.
    """
    assert phase.each is None, "the units of ingest are known"
    for first in phase.tasks:
        task: Task | None = first
        while task is not None:
            commit = commits.get(task.step, task.unit, task.fingerprint)
            if commit is None and task.unit.startswith(passing):
                break
            if commit is None:
                raise LookupError(f"{commit_key(task.step, task.unit)} is not there")
            yield DoneTask(task, commit, phase.where)
            task = None if phase.follow is None else phase.follow(task, commit)
