"""Execution: tasks in, commits out; the bridge between steps, pools, commits and the journal."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from pathlib import Path

from pipeline.commits import STEP_COMMIT, Commit, Commits, Outcome, Reported, way_out
from pipeline.journal import Journal
from pipeline.ledger import ledger_key, write_flows
from pipeline.memory import Need
from pipeline.plan import steps_before
from pipeline.pools import PoolKind, Pools, WorkerResources
from pipeline.progress import Progress
from pipeline.steps.held import HeldRecord, compare_files, held_files
from pipeline.steps.records import Record
from pipeline.steps.step import StepPlan
from pipeline.storage import TEMPORARY
from pipeline.tasks import Task
from pipeline.watch import MemoryWatch
from stages.errors import DataError
from stages.ledger import Flow
from stages.store.digests import FileDigest, digest_file, sync_files

Follow = Callable[[Task, Commit], Task | None]
_NAMED = 3
"""Names of which people read all."""


@dataclass
class Execution:
    """Runs the tasks of one step after another; Ray starts when the first task needs it."""

    root: Path
    attempt: str
    resources: WorkerResources
    commits: Commits
    journal: Journal
    progress: Progress
    watch: MemoryWatch
    needs: InitVar[Mapping[str, Need]]
    """What a worker of each step may take."""
    plan: dict[str, StepPlan] = field(default_factory=dict)
    """Steps by name, once they are known: a step's inputs are checked before it reads them."""
    trusting: bool = False
    """Whether inputs of steps are read unchecked: the checks of `verify` report what they find."""
    pools: Pools = field(init=False)

    def __post_init__(self, needs: Mapping[str, Need]) -> None:
        """Keep the pools beside what they need."""
        self.pools = Pools(self.root, self.attempt, self.resources, self.progress, self.watch, needs)

    def run(
        self, step: StepPlan, tasks: Iterable[Task], *, title: str, follow: Follow | None = None
    ) -> dict[str, Commit]:
        """Do the tasks of a step that are not committed, on a pool of actors, and commit each.

        Args:
            step: the step they belong to.
            tasks: in canonical order.
            title: what people read.
            follow: gives the task that continues a chain after one is committed.

        Returns:
            Every commit by unit, in the order of the tasks, chains one after the other.
        """
        chains = [list(self._committed(step, task, follow)) for task in tasks]
        done = {task.unit: commit for chain in chains for task, commit in chain if commit}
        waiting = [chain[-1][0] for chain in chains if chain[-1][1] is None]
        if waiting:
            self._do(step, waiting, done, title=title, follow=follow)
        return {unit: done[unit] for chain in chains for unit in _chain(chain, done, follow)}

    def across(
        self,
        work: Mapping[str, tuple[StepPlan, Task]],
        done: Callable[[str, Commit], None],
        *,
        title: str,
    ) -> None:
        """Do a task each of several steps, as many at a time as there are workers; or GPUs, if any.

        Args:
            work: the step and its task, by what people call it; no two units have the same name.
            done: told of each commit, of those that were there first.
            title: what people read before the names.
        """
        waiting = {}
        for name, (step, task) in work.items():
            commit = self._commit_of(step, task)
            if commit is None:
                waiting[name] = (step, task)
            else:
                done(name, commit)
        if waiting:
            self._do_across(waiting, done, title=title)

    def one(self, step: StepPlan, task: Task, *, title: str) -> Commit:
        """Do one task on an actor of its own that takes no CPU from the pools."""
        commit = self._commit_of(step, task)
        if commit is None:
            done: dict[str, Commit] = {}
            self._do(step, [task], done, title=title, kind=PoolKind(1, num_cpus=0.0))
            commit = done[task.unit]
        return commit

    def here(self, step: StepPlan, task: Task, *, title: str) -> Commit:
        """Do one task in this process: it only sums up what others committed."""
        commit = self._commit_of(step, task)
        if commit is None:
            done: dict[str, Commit] = {}
            self._do(step, [task], done, title=title, kind=PoolKind(0))
            commit = done[task.unit]
        return commit

    def whole(self, step: StepPlan) -> Commit | None:
        """Return the commit of a whole step."""
        return self.commits.get(step.name, STEP_COMMIT, step.fingerprint)

    def finish(self, step: StepPlan, record: Record, flows: Mapping[str, Flow] | None = None) -> Commit:
        """Commit a step as a whole, with what later steps read of it.

        Args:
            step: the step.
            record: what later steps and the report read.
            flows: of its units, if it is to have a table in the ledger.
        """
        folder = self.root / TEMPORARY / self.attempt / f"{step.name}-ledger"
        files = {}
        if flows is not None:
            key = ledger_key(step.name)
            write_flows(folder / key, flows)
            sync_files(folder)
            files[key] = digest_file(folder / key)
        outcome = Outcome(folder, files, record.model_dump(mode="json"))
        commit = self.commits.put(step.name, STEP_COMMIT, step.fingerprint, outcome)
        self.journal.log("step", step=step.name, fingerprint=step.fingerprint)
        return commit

    def changed_files(self, step: StepPlan, files: Mapping[str, FileDigest]) -> dict[str, str]:
        """Return those of some files that are not what was committed, each with what was found.

        Args:
            step: whose workers compare them.
            files: committed files by key.
        """
        tasks = [
            Task(f"held-{number:05d}", compare_files, part, step.fingerprint)
            for number, part in enumerate(held_files(files))
        ]
        changed: dict[str, str] = {}
        for record in self.ask(step, tasks, HeldRecord):
            changed |= record.changed
        return changed

    def ask(self, step: StepPlan, tasks: Sequence[Task], kind: type[Reported]) -> list[Reported]:
        """Do tasks that leave no file and are not committed; return their records in any order.

        Args:
            step: whose workers do them.
            tasks: with units of different names.
            kind: of their records.
        """
        records: list[Reported] = []

        def take(_: Task, outcome: Outcome) -> None:
            records.append(kind.model_validate(outcome.record))

        if tasks:
            with self.pools.for_step(step.name, None) as pool:
                pool.run(tasks, take)
        return records

    def close(self) -> None:
        """Leave Ray."""
        self.pools.close()

    def _committed(
        self, step: StepPlan, task: Task, follow: Follow | None
    ) -> Iterator[tuple[Task, Commit | None]]:
        """Yield a chain's tasks up to the first that is not committed."""
        following: Task | None = task
        while following is not None:
            task, commit = following, self._commit_of(step, following)
            yield task, commit
            following = follow(task, commit) if follow and commit else None

    def _commit_of(self, step: StepPlan, task: Task) -> Commit | None:
        """Return the commit of a task, if it is done."""
        return self.commits.get(step.name, task.unit, task.fingerprint)

    def _do(
        self,
        step: StepPlan,
        tasks: list[Task],
        done: dict[str, Commit],
        *,
        title: str,
        follow: Follow | None = None,
        kind: PoolKind | None = None,
    ) -> None:
        def commit(task: Task, outcome: Outcome) -> Task | None:
            committed = done[task.unit] = self._keep(step, task, outcome)
            following = follow(task, committed) if follow else None
            while following is not None and (found := self._commit_of(step, following)) is not None:
                done[following.unit] = found  # of a chain that lost a commit in its middle
                following = follow(following, found) if follow else None
            self.progress.advance(more=following is not None)
            if following is not None:
                self.journal.log("dispatch", step=step.name, unit=following.unit)
            return following

        self._check_inputs(step)
        self.progress.start(step.name, title, total=len(tasks))
        self._begin(step, tasks, title=title)
        self.watch.take_peak()
        self.watch.begin(step.name, self.pools.needs[step.name].remedy)
        with self.pools.for_step(step.name, kind) as pool:
            pool.run(tasks, commit)
        self.journal.log("end", step=step.name, title=title, peak_memory=self.watch.take_peak())
        self.progress.stop()

    def _do_across(
        self,
        work: Mapping[str, tuple[StepPlan, Task]],
        done: Callable[[str, Commit], None],
        *,
        title: str,
    ) -> None:
        named = {task.unit: (name, step) for name, (step, task) in work.items()}
        assert len(named) == len(work), "two units of one name would write into one folder"
        peak = 0

        def commit(task: Task, outcome: Outcome) -> None:
            nonlocal peak
            name, step = named[task.unit]
            committed = self._keep(step, task, outcome)
            self.progress.advance(more=False)
            peak = max(peak, self.watch.take_peak())
            self.journal.log("end", step=step.name, title=f"{title} {name}", peak_memory=peak)
            done(name, committed)

        steps = [step.name for step, _ in work.values()]
        for step, _ in work.values():
            self._check_inputs(step)
        self.progress.start(listed(steps), f"{title} {listed(list(work))}", total=len(work))
        for name, (step, task) in work.items():
            self._begin(step, [task], title=f"{title} {name}")
        self.watch.take_peak()
        neediest = max(steps, key=lambda step: self.pools.needs[step].bytes)
        self.watch.begin(neediest, self.pools.needs[neediest].remedy)
        with self.pools.for_step(neediest, self.pools.on_gpus(neediest, len(work))) as pool:
            pool.run([task for _, task in work.values()], commit)
        self.progress.stop()

    def _check_inputs(self, step: StepPlan) -> None:
        """Refuse files of earlier sessions that the step reads and that are not what was committed.

        Raises:
            DataError: one is not; each is hashed once in a session.
        """
        if self.trusting or step.name not in self.plan:
            return
        for name in (*steps_before(self.plan, step.name), step.name):
            files = self.commits.unchecked(name)
            skipped = () if name == step.name else self.plan[name].unread
            read = {key: digest for key, digest in files.items() if not key.startswith(skipped)}
            for key, fault in self.changed_files(step, read).items():
                raise DataError(f"{self.root / key}: {fault}; {way_out(name)}")
            self.commits.mark_checked(name)

    def _begin(self, step: StepPlan, tasks: Sequence[Task], *, title: str) -> None:
        self.journal.log("begin", step=step.name, title=title, tasks=len(tasks))
        for task in tasks:
            self.journal.log("dispatch", step=step.name, unit=task.unit)

    def _keep(self, step: StepPlan, task: Task, outcome: Outcome) -> Commit:
        """Commit what a task made, and log what that took."""
        commit = self.commits.put(step.name, task.unit, task.fingerprint, outcome)
        metrics = {name: round(value, 4) for name, value in outcome.metrics.items()}
        self.journal.log("commit", step=step.name, unit=task.unit, **metrics)
        return commit


def _chain(
    chain: list[tuple[Task, Commit | None]], done: dict[str, Commit], follow: Follow | None
) -> Iterator[str]:
    """Yield the units of a finished chain in order."""
    task: Task | None = chain[0][0]
    while task is not None:
        yield task.unit
        task = follow(task, done[task.unit]) if follow else None


def listed(names: Sequence[str]) -> str:
    """Return names as people read them, the first few of many.

    clm mlm t5 ul2 -> "clm, mlm and 2 more"
    """
    if len(names) <= _NAMED:
        return ", ".join(names)
    few = ", ".join(names[: _NAMED - 1])
    return f"{few} and {len(names) - _NAMED + 1} more"
