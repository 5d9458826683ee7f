"""Choice: which tasks of finished steps are done again, all of them or a sample that is drawn.

    whole      decides once, from tables: who stays, what is held out, what a mix takes
    sampled    does a part of the corpus: of such tasks 1%, and more of few documents, up to all of 1,000
    listed     lists rows of evidence: such tasks as have 100,000 of them

The draw hangs on the step's commit, and so on all that its units committed: evidence that is changed,
and signed again, is drawn anew. How much of how much was looked at is told. Other
tasks are not done again, since checks of their own look at all that they make.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.engine.memory import Need
from pipeline.engine.tasks import Phase, Phases, Task
from pipeline.run_file.fingerprints import without_limits
from pipeline.state.commits import STEP_COMMIT
from pipeline.steps.again.differences import mapped_array
from pipeline.steps.again.follow import DoneTask, RepeatedStep, follow
from pipeline.steps.again.redo import RepeatedTask, redo
from pipeline.steps.again.signatures import (
    MOST,
    EmbeddedUnit,
    SignedUnit,
    drawn,
    drawn_units,
    embed_again,
    sign_again,
)
from pipeline.steps.dedup.step import DEDUP
from pipeline.steps.dedup.unit_groups import unit_groups
from pipeline.steps.earlier_runs import behind, earlier_documents, numbered
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.records import CheckRecord, LookedAt, read_all, together
from pipeline.steps.run_folder import RunFolder
from pipeline.steps.step import Job, RowsOf, Scope, Step
from pipeline.steps.units import Unit, units_of
from stages.errors import is_of_the_system
from stages.stores.mounts import here

SHARE, LEAST = 0.01, 1000
"""Of the documents of a run, and at least so many."""
ROWS = 100_000
"""Of each kind of listed evidence: of a table with as many or fewer, all."""


@dataclass(frozen=True)
class FollowedStep:
    """A finished step that was followed."""

    step: Step[Any]
    name: str
    """In the plan."""
    scope: Scope
    followed: RepeatedStep
    digest: str
    """Of its commit, on which hangs which of its tasks are drawn."""


def followed_steps(job: Job, steps: Sequence[Step[Any]]) -> Iterator[FollowedStep]:
    """Follow some steps in their order, up to one that is not finished.

    Left out are steps that were made without a later rule, and those that were made against an
    earlier run which is not there any more.

    Args:
        job: of the check; if it is of a dataset, the steps of that dataset are followed.
        steps: the steps.
    """
    commits = RunFolder(job.root).commits
    for step in steps:
        for scope in step.scopes(job.scope):
            plan = job.plans.get(step.name_for(scope))
            lost = step.earlier and any(not run.units for run in scope.earlier)
            other = job.scope.of is not None and scope.of != job.scope.of
            if plan is None or other:
                continue
            whole = commits.survey(plan.name).commits.get(STEP_COMMIT)
            if whole is None or whole.fingerprint != plan.fingerprint:
                return  # later steps read it
            if not plan.missed and not lost:
                unlimited = replace(scope, file=without_limits(scope.file))
                own = Job(plan, unlimited, job.records, job.root, job.workers)
                yield FollowedStep(step, plan.name, scope, follow(step, own, commits), whole.xxh3)


def steps_behind(job: Job) -> list[Step[Any]]:
    """Return the steps that a check rests on: what it reads was made by them, or from what they made.

    A check of the run rests on steps of the run, and one of a dataset on those of its dataset: the run's
    have a check of their own.

    Args:
        job: of the check.
    """
    assert job.steps, "a check that knows no step would look at nothing, and pass"
    behind, todo = set[str](), [job.plan.name]
    while todo:
        new = [name for name in job.plans[todo.pop()].inputs if name not in behind]
        behind.update(new)
        todo += new
    own = [step for step in job.steps if step.of_datasets == (job.scope.of is not None)]
    return [step for step in own if any(step.name_for(one) in behind for one in step.scopes(job.scope))]


def made_again(job: Job, steps: Sequence[Step[Any]], *, documents: int) -> Phases[CheckRecord]:
    """Follow finished steps, do some of their tasks again, and return what is found.

    Args:
        job: of the check.
        steps: those that are looked at, if the run has them.
        documents: of the run.
    """
    found: list[CheckRecord] = []
    chosen: list[DoneTask] = []
    most = Need(0)
    outside = {function for step in steps for function in step.outside}
    otherwise = {step.name: step.otherwise for step in steps}
    for one in followed_steps(job, steps):
        own = chosen_tasks(one, job.root, documents=documents)
        chosen += own.tasks
        found.append(
            CheckRecord(findings=one.followed.findings, looked=own.looked, lacking=one.followed.lacking)
        )
        most = max(most, one.step.need(one.scope), key=lambda need: need.bytes)
    for where in dict.fromkeys(one.phase.where for one in chosen):
        tasks = [
            job.task(
                f"again-{one.task.step}-{one.task.unit}",
                redo,
                RepeatedTask(
                    one.task,
                    one.commit.files,
                    one.commit.record,
                    outside=one.task.function in outside,
                    otherwise=otherwise.get(one.task.step, frozenset()),
                ),
            )
            for one in chosen
            if one.phase.where is where
        ]
        done = yield Phase("make evidence again", tasks, where, need=most)
        found += read_all(done, CheckRecord).values()
    return together(found)


def signed_again(job: Job, *, documents: int) -> Phases[CheckRecord]:
    """Sign some documents again, and return what is found.

    Args:
        job: of the check.
        documents: of the run.
    """
    units = units_of(job.records.of(INGEST).units)
    wanted = max(LEAST, math.ceil(SHARE * documents))
    tasks = [
        job.task(f"signed-{one.unit.commit_name}", sign_again, SignedUnit(one, job.file.dedup.minhash))
        for one in drawn_units(units, wanted, _digest_of(job, INGEST))
    ]
    return (yield from _of_documents("sign again", tasks, "signatures", units))


def embedded_again(job: Job) -> Phases[CheckRecord]:
    """Embed some documents again, and return what is found; nothing if an earlier run is gone."""
    config = job.file.dedup.semantic
    assert config is not None, "is asked of runs with semantic deduplication alone"
    earlier = job.scope.earlier
    if any(not run.units for run in earlier):
        return CheckRecord()
    units = behind(units_of(job.records.of(INGEST).units), earlier_documents(earlier))
    groups = {unit: group for group in unit_groups((*numbered(earlier), *units)) for unit in group.units}
    tasks = [
        job.task(
            f"embedded-{one.unit.commit_name}",
            embed_again,
            EmbeddedUnit(one, groups[one.unit].name, one.unit.first - groups[one.unit].first, config),
        )
        for one in drawn_units(units, MOST, _digest_of(job, DEDUP))
    ]
    return (yield from _of_documents("embed again", tasks, "vectors", units))


def _digest_of(job: Job, step: Step[Any]) -> str:
    """Return the digest of the commit of a step, and so of all that its units committed."""
    plan = job.plans[step.name]
    whole = RunFolder(job.root).commits.get(plan.name, STEP_COMMIT, plan.fingerprint)
    assert whole is not None, "what a step made is checked once it is whole"
    return whole.xxh3


def _of_documents(
    title: str, tasks: Sequence[Task], what: str, units: Sequence[Unit]
) -> Phases[CheckRecord]:
    """Look at some documents of all units, and say how many they are."""
    found = together(read_all((yield Phase(title, tasks)), CheckRecord).values())
    looked, of = sum(one.looked for one in found.looked), sum(unit.documents for unit in units)
    every = LookedAt(what=what, unit="documents", looked=looked, of=of)
    return found.model_copy(update={"looked": (every,)})


def remade(done: DoneTask, step: Step[Any]) -> RepeatedTask:
    """Return a task to be done again as `verify` does it, perhaps without its dearest part."""
    function = step.remade[done.task.function]
    return RepeatedTask(replace(done.task, function=function), done.commit.files, done.commit.record)


@dataclass(frozen=True)
class ChosenTasks:
    """Tasks that are done again."""

    tasks: tuple[DoneTask, ...]
    looked: tuple[LookedAt, ...]


def chosen_tasks(one: FollowedStep, root: Path, *, documents: int) -> ChosenTasks:
    """Return the tasks of a step that are done again, in their order, and how many of how many they are.

    Args:
        one: the step.
        root: the run's folder.
        documents: of the run.
    """
    step, tasks = one.step, one.followed.tasks
    again = {*step.whole, *step.outside, *step.sampled, *step.listed}
    chosen: set[str] = set()
    looked: list[LookedAt] = []
    share = min(1.0, max(SHARE, LEAST / max(1, documents)))
    for phase, own in _by_phase(tasks).items():
        function, what = own[0].task.function, f"{one.name}: {phase}"
        if function not in again:
            continue
        sizes, wanted = {done.task.unit: 1 for done in own}, len(own)
        if function in step.sampled:
            wanted = math.ceil(share * len(own))
        elif function in step.listed:
            listed = step.listed[function]
            sizes, wanted = {done.task.unit: listed_rows(root, done, listed) for done in own}, ROWS
        units = list(drawn(sizes, one.digest, name=str, size=sizes.__getitem__, wanted=wanted))
        if function in step.listed:
            rows, of = sum(sizes[unit] for unit in units), sum(sizes.values())
            looked.append(LookedAt(what=what, unit="rows", looked=rows, of=of))
        chosen.update(units)
        looked.append(LookedAt(what=what, unit="tasks", looked=len(units), of=len(own)))
    return ChosenTasks(tuple(done for done in tasks if done.task.unit in chosen), tuple(looked))


def _by_phase(tasks: Iterable[DoneTask]) -> dict[str, list[DoneTask]]:
    found: dict[str, list[DoneTask]] = {}
    for done in tasks:
        found.setdefault(done.phase.title, []).append(done)
    return found


def listed_rows(root: Path, done: DoneTask, rows: RowsOf) -> int:
    """Return how many rows the files of a task have; a file that cannot be read, none."""
    keys = [key for key in done.commit.files if key.endswith(rows.ending)]
    return sum(_rows_in(here(root / key), rows.axis) for key in keys)


def _rows_in(path: Path, axis: int) -> int:
    try:
        if path.suffix == ".parquet":
            return int(pq.read_metadata(path).num_rows)
        return int(mapped_array(path).shape[axis])
    except (OSError, ValueError, LookupError, pa.ArrowException) as error:
        if is_of_the_system(error):
            raise
        return 0
