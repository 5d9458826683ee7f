"""Choice: which tasks of finished steps are done again, all of them or a sample that is drawn.

    whole      decides once, from tables: who stays, what is held out, what a mix takes
    sampled    does a part of the corpus: of such tasks 1%, and more of few documents, up to all of 1,000

The draw hangs on the step's commit, and so on all that its units committed: evidence that is changed,
and signed again, is drawn anew.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import xxhash

from pipeline.engine.memory import Need
from pipeline.engine.phase import Phase, Phases
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.again.follow import DoneTask, Followed, follow
from pipeline.steps.again.redo import Redo, redo
from pipeline.steps.again.signatures import drawn_units, sign_again
from pipeline.steps.findings import CheckRecord, FoundIn
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.records import read_all
from pipeline.steps.step import Job, Scope, Step
from pipeline.steps.units import units_of

SHARE, LEAST = 0.01, 1000
"""Of the documents of a run, and at least so many."""


@dataclass(frozen=True)
class FollowedStep:
    """A finished step that was followed."""

    step: Step[Any]
    scope: Scope
    followed: Followed
    key: str
    """The digest of its commit."""


def followed_steps(job: Job, steps: Sequence[Step[Any]]) -> Iterator[FollowedStep]:
    """Follow some steps in their order, up to one that is not finished.

    Left out are steps that were made without a later rule, and those that were made against an
    earlier run which is not there any more.

    Args:
        job: of the check; if it is of a dataset, the steps of that dataset are followed.
        steps: the steps.
    """
    commits = Commits(LocalStorage(job.root))
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
                own = Job(plan, scope, job.records, job.root, job.workers)
                yield FollowedStep(step, scope, follow(step, own, commits), whole.xxh3)


def made_again(job: Job, steps: Sequence[Step[Any]], *, documents: int) -> Phases[tuple[FoundIn, ...]]:
    """Follow finished steps, do some of their tasks again, and return what is found.

    Args:
        job: of the check.
        steps: those that are looked at, if the run has them.
        documents: of the run.
    """
    found: list[FoundIn] = []
    chosen: list[DoneTask] = []
    most = Need(0)
    outside = {function for step in steps for function in step.outside}
    for one in followed_steps(job, steps):
        found += one.followed.findings
        chosen += _chosen(one.step, one.followed.tasks, one.key, documents=documents)
        most = max(most, one.step.need(one.scope), key=lambda need: need.bytes)
    for where in dict.fromkeys(one.where for one in chosen):
        tasks = [
            job.task(
                f"again-{one.task.step}-{one.task.unit}",
                redo,
                Redo(
                    one.task, one.commit.files, one.commit.record, outside=one.task.function in outside
                ),
            )
            for one in chosen
            if one.where is where
        ]
        done = yield Phase("make evidence again", tasks, where, need=most)
        found += [one for record in read_all(done, CheckRecord).values() for one in record.findings]
    return tuple(found)


def signed_again(job: Job, *, documents: int) -> Phases[tuple[FoundIn, ...]]:
    """Sign some documents again, and return what is found.

    Args:
        job: of the check.
        documents: of the run.
    """
    minhash, plan = job.file.dedup.minhash, job.plans[INGEST.name]
    whole = Commits(LocalStorage(job.root)).get(plan.name, STEP_COMMIT, plan.fingerprint)
    assert whole is not None, "texts are checked once they are read"
    units = units_of(job.records.of(INGEST).units)
    wanted = max(LEAST, math.ceil(SHARE * documents))
    tasks = [
        job.task(f"signed-{work.unit.commit_name}", sign_again, work)
        for work in drawn_units(units, wanted, minhash, whole.xxh3)
    ]
    done = yield Phase("sign again", tasks)
    return tuple(one for record in read_all(done, CheckRecord).values() for one in record.findings)


def remade(done: DoneTask, step: Step[Any]) -> Redo:
    """Return a task to be done again without its dearest part."""
    function = step.remade[done.task.function]
    return Redo(replace(done.task, function=function), done.commit.files, done.commit.record)


def _chosen(step: Step[Any], tasks: Sequence[DoneTask], key: str, *, documents: int) -> list[DoneTask]:
    """Return the tasks of a step that are done again, in their order."""
    chosen = {one.task.unit for one in tasks if one.task.function in (*step.whole, *step.outside)}
    share = min(1.0, max(SHARE, LEAST / max(1, documents)))
    for function in step.sampled:
        own = [one.task.unit for one in tasks if one.task.function is function]
        drawn = sorted(own, key=lambda unit: xxhash.xxh3_128_digest(f"{key}/{unit}".encode()))
        chosen |= set(drawn[: math.ceil(share * len(own))])
    return [one for one in tasks if one.task.unit in chosen]
