"""Choice: which tasks of finished steps are done again, all of them or a sample that is drawn.

    whole      decides once, from tables: who stays, what is held out, what a mix takes
    sampled    does a part of the corpus: of such tasks 1%, and more of few documents, up to all of 1,000

The draw hangs on the step's commit, and so on all that its units committed: evidence that is changed, and
signed again, is drawn anew.
"""

import math
from collections.abc import Sequence
from typing import Any

import xxhash

from pipeline.engine.memory import Need
from pipeline.engine.phase import Phase, Phases
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.again.follow import DoneTask, follow
from pipeline.steps.again.redo import Redo, redo
from pipeline.steps.findings import CheckRecord, FoundIn
from pipeline.steps.records import read_all
from pipeline.steps.step import Job, Step

SHARE, LEAST = 0.01, 1000
"""Of the documents of a run, and at least so many."""


def made_again(job: Job, steps: Sequence[Step[Any]], *, documents: int) -> Phases[tuple[FoundIn, ...]]:
    """Follow finished steps, do some of their tasks again, and return what is found.

    Args:
        job: of the check.
        steps: those that are looked at, if the run has them.
        documents: of the run.
    """
    commits = Commits(LocalStorage(job.root))
    found: list[FoundIn] = []
    chosen: list[DoneTask] = []
    needs: list[Need] = []
    for step in steps:
        for scope in step.scopes(job.scope):
            if job.scope.of is not None and scope.of != job.scope.of:
                continue
            plan = job.plans.get(step.name_for(scope))
            lost = step.earlier and any(not run.units for run in scope.earlier)
            if plan is None or plan.missed or lost:  # made by rules of its time, or against what is gone
                continue
            followed = follow(step, Job(plan, scope, job.records, job.root, job.workers), commits)
            found += followed.findings
            whole = commits.get(plan.name, STEP_COMMIT, plan.fingerprint)
            assert whole is not None, "only finished steps are looked at"
            chosen += _chosen(step, followed.tasks, whole.xxh3, documents=documents)
            needs.append(step.need(scope))
    for where in dict.fromkeys(one.where for one in chosen):
        tasks = [
            job.task(
                f"again-{one.task.step}-{one.task.unit}",
                redo,
                Redo(one.task, one.commit.files, one.commit.record),
            )
            for one in chosen
            if one.where is where
        ]
        done = yield Phase(
            "make evidence again", tasks, where, need=max(needs, key=lambda need: need.bytes)
        )
        found += [one for record in read_all(done, CheckRecord).values() for one in record.findings]
    return tuple(found)


def _chosen(step: Step[Any], tasks: Sequence[DoneTask], key: str, *, documents: int) -> list[DoneTask]:
    """Return the tasks of a step that are done again, in their order."""
    chosen = {one.task.unit for one in tasks if one.task.function in step.whole}
    share = min(1.0, max(SHARE, LEAST / max(1, documents)))
    for function in step.sampled:
        own = [one.task.unit for one in tasks if one.task.function is function]
        drawn = sorted(own, key=lambda unit: xxhash.xxh3_128_digest(f"{key}/{unit}".encode()))
        chosen |= set(drawn[: math.ceil(share * len(own))])
    return [one for one in tasks if one.task.unit in chosen]
