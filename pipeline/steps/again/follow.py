"""Follow: the work of a finished step once more, from its first task to its record, no task done.

    work of the step -> phase -> commits of its tasks, as they are -> next phase -> ... -> record

So each number of a step's record is held to the records of its units, by the code that added them up.
Which of the tasks are done again is decided elsewhere (`pipeline.steps.again.choice`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.engine.tasks import Phase, Task
from pipeline.state.commit_object import Commit, commit_key
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.ledger import flow_table, ledger_key
from pipeline.steps.again.differences import differing_tables, differing_values, lacking_keys
from pipeline.steps.records import FoundIn
from pipeline.steps.step import Job, Result, Step
from stages.errors import ShardmillError, is_of_the_system
from stages.ledger import Flow, Tally, total_flow
from stages.stores.mounts import here

MADE_AGAIN = "made again"
"""Name of the check."""
FOR_PEOPLE = {"warnings"}
"""What of a record hangs on settings that decide no byte."""


@dataclass(frozen=True)
class DoneTask:
    """A task of a finished step, and what it committed."""

    task: Task
    commit: Commit
    phase: Phase


@dataclass(frozen=True)
class RepeatedStep:
    """A finished step, followed to its end or to where its commits do not fit together."""

    tasks: tuple[DoneTask, ...]
    findings: tuple[FoundIn, ...]
    lacking: tuple[str, ...] = ()
    """Keys that its record lacks, as one of an earlier version does; or the first commit that it lacks,
    of a step whose last tasks were others: it is followed up to these."""


def follow(step: Step[Any], job: Job, commits: Commits) -> RepeatedStep:
    """Follow the work of a finished step.

    Args:
        step: the step.
        job: its job, as it was when it was done.
        commits: of the run.
    """
    tasks: list[DoneTask] = []
    place = commit_key(job.plan.name, STEP_COMMIT)
    kept = commits.get(job.plan.name, STEP_COMMIT, job.plan.fingerprint, trusting=True)
    assert kept is not None, "only a finished step is followed"
    try:
        result = _end_of(step, job, commits, tasks, kept.units)
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
        return RepeatedStep(tuple(tasks), (FoundIn(file=place, check=MADE_AGAIN, message=message),))
    if isinstance(result, Phase):
        return RepeatedStep(tuple(tasks), (), (commit_key(job.plan.name, result.tasks[0].unit),))
    record = result.record
    if result.flows is not None:
        total = total_flow(result.flows.values()) or Flow(input=Tally(), output=Tally())
        record = record.model_copy(update={"ledger": total})
    rest = {name: value for name, value in kept.record.items() if name not in FOR_PEOPLE}
    again = record.model_dump(mode="json", exclude=FOR_PEOPLE)
    tables = () if result.flows is None else _of_ledger(job, result.flows)
    messages = (
        f"{name} is {own}, and its units give {other}"
        for name, own, other in differing_values(rest, again)
    )
    records = (FoundIn(file=place, check=MADE_AGAIN, message=text) for text in messages)
    lacking = (f"{place}: {key}" for key in lacking_keys(rest, again))
    return RepeatedStep(tuple(tasks), (*records, *tables), tuple(lacking))


def _of_ledger(job: Job, flows: Mapping[str, Flow]) -> Iterator[FoundIn]:
    """Hold the table of a step in the ledger to the flows of its units."""
    key = ledger_key(job.plan.name)
    order = [(name, "ascending") for name in ("unit", "side", "reason")]  # of old runs it may be another
    try:
        own = pq.read_table(here(job.root / key), use_threads=False).sort_by(order)
        found = differing_tables(own, flow_table(flows).sort_by(order))
    except (OSError, pa.ArrowException, KeyError) as error:
        if is_of_the_system(error):
            raise
        found = str(error).splitlines()[0]
    if found is not None:
        yield FoundIn(file=key, check=MADE_AGAIN, message=found)


def _end_of(
    step: Step[Any], job: Job, commits: Commits, tasks: list[DoneTask], units: Mapping[str, str]
) -> Result[Any] | Phase:
    """Return what the work of a step comes to, or the first phase that it was finished without.

    Args:
        step: the step.
        job: its job, as it was when it was done.
        commits: of the run.
        tasks: those that it has are added as they come.
        units: that it was finished with.
    """
    otherwise = not units.keys().isdisjoint(step.former)
    if step.ended is not None:
        return step.ended(job, _units_of(job, commits))
    work = step.work(job)
    committed: dict[str, Commit] | None = None
    while True:
        try:
            phase = next(work) if committed is None else work.send(committed)
        except StopIteration as end:
            result: Result[Any] = end.value
            return result
        if otherwise and phase.tasks and all(task.unit not in units for task in phase.tasks):
            return phase
        done = list(_done(phase, commits, step.passing))
        tasks += done
        committed = {one.task.unit: one.commit for one in done}


def _units_of(job: Job, commits: Commits) -> dict[str, Commit]:
    """Return the commits of the units of ingest, in the order in which its record names them."""
    survey = commits.survey(job.plan.name)
    named = [one["name"].replace("/", ".", 1) for one in survey.commits[STEP_COMMIT].record["units"]]
    others = sorted(survey.commits.keys() - {STEP_COMMIT, *named})
    return {unit: survey.commits[unit] for unit in (*named, *others)}


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
            yield DoneTask(task, commit, phase)
            task = None if phase.follow is None else phase.follow(task, commit)
