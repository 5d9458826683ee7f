"""The runner: the steps of a run, one after the other, each skipped if it is whole.

A step gives its phases; the execution does what of them is missing; the end of its work is settled in
the ledger and committed. Steps that each dataset has are done dataset by dataset, but for the tasks that
they do side by side.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.commits import Commit
from pipeline.execution import Execution
from pipeline.ledger import let_out, settle, settle_total
from pipeline.steps.step import Job, Phase, Records, Scope, Step, StepPlan, Takes, Where, Whole, Work
from stages.ledger import Flow, Tally

_Waiting = dict[str, tuple[str, Work[Any], Phase]]
"""By dataset: the name of its step in the plan, the work, and the phase that is to be done."""


@dataclass
class Runner:
    """A run that is ready to go."""

    scope: Scope
    plan: Mapping[str, StepPlan]
    """Steps by name."""
    execution: Execution
    records: Records = field(default_factory=Records)
    """Of the steps that are done."""

    def do(self, step: Step[Any]) -> None:
        """Do a step, for each dataset if it is of datasets, and keep its records."""
        waiting: _Waiting = {}
        for scope in step.scopes(self.scope):
            plan = self.plan[step.name_for(scope)]
            whole = self.execution.whole(plan)
            if whole is not None:
                self._recall(step, scope, whole)
                continue
            if plan.warning:
                self.execution.progress.note(f"warning: {plan.warning}")
            execution = self.execution
            job = Job(plan, scope, self.records, execution.root, execution.resources.workers)
            work = step.work(job)
            phase = self._advance(step, plan, work, None)
            if phase is not None:
                waiting[scope.dataset.name] = (plan.name, work, phase)
        if waiting:
            self._side_by_side(step, waiting)

    def _recall(self, step: Step[Any], scope: Scope, whole: Commit) -> None:
        """Keep the record of a step that an earlier session made whole."""
        record = whole.read(step.record)
        self.records.put(step.name_for(scope), record)
        told = step.recalled(record)
        if told:
            again = f"to check it again: shardmill verify {self.execution.root}"
            self.execution.progress.note(f"{step.name_for(scope)} {told}; {again}")

    def _advance(
        self, step: Step[Any], plan: StepPlan, work: Work[Any], answer: dict[str, Commit] | None
    ) -> Phase | None:
        """Go on with a step to its end, or to the task that it does side by side with others."""
        while True:
            try:
                phase = next(work) if answer is None else work.send(answer)
            except StopIteration as end:
                self._finish(step, plan, end.value)
                return None
            if phase.where is Where.BESIDE:
                return phase
            answer = self._do(plan, phase)

    def _do(self, plan: StepPlan, phase: Phase) -> dict[str, Commit]:
        """Do what of a phase is not committed yet."""
        if phase.need is not None:
            self.execution.pools.require(plan.name, phase.need)
        if phase.where is Where.WORKERS:
            return self.execution.run(plan, phase.tasks, title=phase.title, follow=phase.follow)
        do = self.execution.one if phase.where is Where.ALONE else self.execution.here
        return {task.unit: do(plan, task, title=phase.title) for task in phase.tasks}

    def _side_by_side(
        self, step: Step[Any], waiting: Mapping[str, tuple[str, Work[Any], Phase]]
    ) -> None:
        """Do a task of each dataset, as many at a time as there are workers, and go on with each."""

        def done(dataset: str, commit: Commit) -> None:
            name, work, _ = waiting[dataset]
            following = self._advance(step, self.plan[name], work, {commit.unit: commit})
            assert following is None, "a step does one task beside others, and that last"

        tasks = {}
        for dataset, (name, _, phase) in waiting.items():
            (task,) = phase.tasks
            tasks[dataset] = (self.plan[name], task)
        title = next(phase.title for _, _, phase in waiting.values())
        self.execution.across(tasks, done, title=title)

    def _finish(self, step: Step[Any], plan: StepPlan, whole: Whole[Any]) -> None:
        """Settle a step in the ledger and commit it as a whole."""
        record = whole.record
        if whole.flows is not None:
            total = self._settle(step.takes, plan.name, whole.flows)
            record = record.model_copy(update={"ledger": total})
        for warning in record.warnings:
            self.execution.progress.note(f"warning: {warning}")
        if step.sole is not None:
            self._clear(plan, step.sole)
        self.execution.finish(plan, record, whole.flows)
        self.records.put(plan.name, record)

    def _settle(self, takes: Takes | None, name: str, flows: Mapping[str, Flow]) -> Flow:
        """Hold the flows of a step to each other, and to those of the step whose documents it takes."""
        if takes is None:
            return settle(name, flows)
        before = let_out(self.execution.root, takes.step)
        if takes.by_unit:
            return settle(name, flows, before)
        every = sum(before.values(), start=Tally(bytes=0, tokens=0))
        return settle_total(name, settle(name, flows), every)

    def _clear(self, plan: StepPlan, folder: str) -> None:
        """Remove from a folder of a step what none of its commits names."""
        commits = self.execution.commits
        files = {key for commit in commits.survey(plan.name).commits.values() for key in commit.files}
        for key in list(commits.storage.list(folder)):
            if key not in files:
                commits.storage.delete(key)
