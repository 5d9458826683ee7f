"""The runner: the steps of a run, each skipped if it is whole, the others done by the session's engine.

A step gives its phases; the engine does what of them is missing; the end of its work is settled in the
ledger and committed. Before a step reads files of earlier sessions, they are held to their digests.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.engine.step_run import StepRun
from pipeline.engine.tasks import Phases
from pipeline.planning.plan import steps_before
from pipeline.session.earlier_files import checks_of_other_runs
from pipeline.session.execution import Execution, comparison
from pipeline.state.commit_object import Commit, way_out
from pipeline.state.ledger import checked_flow, checked_total, let_out
from pipeline.steps.step import Inputs, Job, Records, Result, Scope, Step, StepPlan, Work
from pipeline.steps.table import STEPS
from stages.errors import DataError
from stages.ledger import Flow, Tally


@dataclass
class Runner:
    """A run that is ready to go."""

    scope: Scope
    plan: Mapping[str, StepPlan]
    """Steps by name."""
    execution: Execution
    records: Records = field(default_factory=Records)
    """Of the steps that are done."""

    def do(self, names: Collection[str]) -> None:
        """Do steps by their names in the plan, and keep the records of all."""
        runs = {}
        for step in STEPS:
            for scope in step.scopes(self.scope):
                plan = self.plan[step.name_for(scope)]
                if plan.name not in names:
                    continue
                whole = self.execution.step_commit(plan)
                if whole is None:
                    self._drop_former(step, plan)
                    runs[plan.name] = self._run_of(step, scope, plan)
                else:
                    self._recall(step, scope, whole)
        self.execution.progress.count_steps(done=len(names) - len(runs), total=len(names))
        checks = [*self._checks(runs)]
        earlier, replayed = self.scope.earlier, self.scope.replayed
        checks += checks_of_other_runs(runs, earlier, replayed, plan=self.plan, execution=self.execution)
        try:
            self.execution.do([*checks, *runs.values()])
        finally:
            self.records.sort(list(self.plan))

    def _drop_former(self, step: Step[Any], plan: StepPlan) -> None:
        """Forget what an earlier version did by other tasks of a step that was stopped."""
        units = [unit for unit in self.execution.commits.units(plan.name) if unit in step.former]
        if units:
            self.execution.commits.drop(plan.name, units)
            self.execution.journal.log("replace", step=plan.name, units=units)

    def _run_of(self, step: Step[Any], scope: Scope, plan: StepPlan) -> StepRun:
        """Return a step as the engine does it."""
        overlaps = frozenset(step.overlaps(scope))
        return StepRun(
            name=plan.name,
            need=self.execution.need_of(plan.name),
            work=self._work(step, scope, plan),
            finish=lambda whole: self._finish(step, plan, whole),
            after=frozenset(steps_before(self.plan, plan.name)) - overlaps,
            overlaps=overlaps,
        )

    def _work(self, step: Step[Any], scope: Scope, plan: StepPlan) -> Work[Any]:
        if plan.warning:
            self.execution.progress.note(f"warning: {plan.warning}")
        execution = self.execution
        workers = execution.resources.workers
        job = Job(plan, scope, self.records, execution.root, workers, self.plan, STEPS)
        return (yield from step.work(job))

    def _recall(self, step: Step[Any], scope: Scope, whole: Commit) -> None:
        """Keep the record of a step that an earlier session made whole."""
        self.execution.commits.release(whole.step, step.passing)  # after a kill some may be left
        record = whole.read(step.record)
        self.records.put(step.name_for(scope), record)
        line = step.recalled(record)
        if line:
            again = (
                f"shardmill verify {self.execution.root} names what is wrong; --replace makes it again"
            )
            self.execution.progress.note(f"{step.name_for(scope)} {line}; {again}")

    def _checks(self, runs: Mapping[str, StepRun]) -> Iterator[StepRun]:
        """Yield the checks of files of earlier sessions that steps read; the steps wait for them."""
        if self.execution.trusting:
            return
        readers: dict[str, list[StepRun]] = {}
        for run in runs.values():
            for name in (*steps_before(self.plan, run.name), run.name):
                readers.setdefault(name, []).append(run)
        for name, waiting in readers.items():
            files = self.execution.commits.unchecked(name)
            skipped = () if name in runs else self.plan[name].unread
            files = {key: digest for key, digest in files.items() if not key.startswith(skipped)}
            check = f"check of {name}"
            for run in waiting:
                run.after |= {check}
            step = self.plan[name]
            yield StepRun(check, self.execution.need_of(name), self._compare(step, files))

    def _compare(self, step: StepPlan, files: Mapping[str, Any]) -> Phases[None]:
        """Refuse files that are not what was committed.

        Raises:
            DataError: one is not.
        """
        changed: dict[str, str] = {}
        if files:
            yield comparison(step, files, changed)
        for key, fault in changed.items():
            raise DataError(f"{self.execution.root / key}: {fault}; {way_out(step.name)}")
        self.execution.commits.mark_checked(step.name)

    def _finish(self, step: Step[Any], plan: StepPlan, result: Result[Any]) -> None:
        """Settle a step in the ledger and commit it as a whole."""
        record = result.record
        if result.flows is not None:
            total = self._checked_flow(step.takes, plan.name, result.flows)
            record = record.model_copy(update={"ledger": total})
        for warning in record.warnings:
            if warning != plan.warning:  # which was told when the step began
                self.execution.progress.note(f"warning: {warning}")
        if step.owned_folder is not None:
            self._clear(plan, step.owned_folder)
        self.execution.finish(plan, record, result.flows, passing=step.passing)
        self.records.put(plan.name, record)

    def _checked_flow(self, takes: Inputs | None, name: str, flows: Mapping[str, Flow]) -> Flow:
        """Hold the flows of a step to each other, and to those of the step whose documents it takes."""
        if takes is None:
            return checked_flow(name, flows)
        before = [let_out(self.execution.root, step) for step in takes.of(self.plan)]
        if takes.by_unit:
            return checked_flow(name, flows, before[0])
        tallies = (tally for one in before for tally in one.values())
        return checked_total(
            name, checked_flow(name, flows), sum(tallies, start=Tally(bytes=0, tokens=0))
        )

    def _clear(self, plan: StepPlan, folder: str) -> None:
        """Remove from a folder of a step what none of its commits names."""
        commits = self.execution.commits
        files = {key for commit in commits.survey(plan.name).commits.values() for key in commit.files}
        for key in list(commits.storage.list(folder)):
            if key not in files:
                commits.storage.delete(key)
