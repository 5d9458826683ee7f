"""Execution: what a session works with: commits, journal, progress, and the engine that does steps.

Opening: a run's folder is held by one process, which leaves it in order however it ends.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TextIO

from pipeline.engine.memory import Need, WorkerResources
from pipeline.engine.plain_loop import PlainLoop
from pipeline.engine.progress import BatchProgress, Progress
from pipeline.engine.step_run import PhaseProgress, StepRun, documents_of, one_phase
from pipeline.engine.tasks import Phase, Task
from pipeline.engine.watch import MemoryWatch, Peak
from pipeline.state.attempts import new_attempt, sweep
from pipeline.state.commit_object import Commit, Reported
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.journal import Journal, end_last_line, read_lock, run_lock
from pipeline.state.ledger import ledger_key, write_flows
from pipeline.state.other_runs import other_runs
from pipeline.state.places import place_of, working_commits_of
from pipeline.state.publishing import Outcome
from pipeline.state.read_only import ReadOnlyCommits
from pipeline.state.stored_run import stored_run_at
from pipeline.state.worker_place import NOTHING, Known
from pipeline.steps.changed_files import ChangedFilesRecord, compare_files, files_to_check
from pipeline.steps.records import StepRecord
from pipeline.steps.step import StepPlan
from pipeline.system.disk_faults import disk_faults
from pipeline.system.limits import require_address_space
from pipeline.system.printable import show_bytes
from pipeline.system.stopping import reason_of, signals_stop, tidying
from stages.ledger import Flow
from stages.store.digests import FileDigest, digest_file, sync_files
from stages.stores.bucket import BUFFER_BYTES
from stages.stores.outages import telling_of_outages


class Engine(Protocol):
    """Does steps."""

    def do(self, steps: Sequence[StepRun]) -> None:
        """Do steps to their ends, each after those that it reads."""
        ...

    def close(self) -> None:
        """Let the workers go."""
        ...


@dataclass
class Execution:
    """A session's means to work in a run's folder; Ray starts when the first task needs it."""

    root: Path
    attempt: str
    resources: WorkerResources
    commits: Commits
    journal: Journal
    progress: Progress
    watch: MemoryWatch
    needs: Mapping[str, Need]
    """What a worker of each step may take."""
    trusting: bool = False
    """Whether inputs of steps are read unchecked: the checks of `verify` report what they find."""
    _engine: Engine | None = None

    @property
    def temporary(self) -> Path:
        """Folder of this session's unfinished files."""
        return self.commits.storage.temporary / self.attempt

    def do(self, steps: Sequence[StepRun]) -> None:
        """Do steps to their ends."""
        if not steps:
            return
        if self._engine is None:
            self._engine = self._new_engine()
        self._engine.do(steps)

    def _new_engine(self) -> Engine:
        place = place_of(self.root, self.temporary)
        if not self.resources.workers:
            return PlainLoop(place, self, memory=self.resources.memory, watch=self.watch)
        from pipeline.engine.dataflow import Dataflow  # noqa: PLC0415  # Ray is imported only where it runs

        return Dataflow(place, self.resources, self, progress=self.progress, watch=self.watch)

    def commit_of(self, task: Task) -> Commit | None:
        """Return the commit of a task, if it is done."""
        return self.commits.get(task.step, task.unit, task.fingerprint)

    def commit(self, task: Task, outcome: Outcome) -> Commit:
        """Commit what a task made, and log what that took; `flush` makes both last."""
        commit = self.commits.put(task.step, task.unit, task.fingerprint, outcome)
        metrics = {name: round(value, 4) for name, value in outcome.metrics.items()}
        self.journal.log_soon("commit", step=task.step, unit=task.unit, host=outcome.host, **metrics)
        self.progress.tell_unit(lambda: _unit_line(task, outcome))
        return commit

    def flush(self) -> None:
        """Have what was committed outlast a power cut, and what was logged outlast a kill."""
        self.commits.flush()
        self.journal.flush()

    def give(self, task: Task, *, waited: float = 0.0) -> None:
        """Log that a task is given to a worker, and for how many seconds it was ready before."""
        self.journal.log_soon("dispatch", step=task.step, unit=task.unit, waited=round(waited, 4))

    def known(self, task: Task, before: Commit | None) -> Known:
        """Return what a worker is told of the files that a task may read; nothing in a folder."""
        run = stored_run_at(self.root)
        return NOTHING if run is None else run.known(self.root, task.after, before)

    def count_workers(self, count: int) -> None:
        """Log how many workers have started and not ended."""
        self.journal.log("workers", count=count)

    def begin(self, phase: Phase, step: str, total: int) -> PhaseProgress:
        """Note that work on a phase begins."""
        self.journal.log("begin", step=step, title=phase.title, tasks=total)
        self._tell_files(step)
        progress = self.progress.start(step, phase.title, total=total)
        return _PhaseBar(self, step, progress, self.watch.new_peak())

    def step_commit(self, step: StepPlan) -> Commit | None:
        """Return the commit of a whole step."""
        return self.commits.get(step.name, STEP_COMMIT, step.fingerprint, trusting=self.trusting)

    def finish(
        self,
        step: StepPlan,
        record: StepRecord,
        flows: Mapping[str, Flow] | None = None,
        *,
        passing: tuple[str, ...] = (),
    ) -> Commit:
        """Commit a step as a whole, with what later steps read of it.

        Args:
            step: the step.
            record: what later steps and the report read.
            flows: of its units, if it is to have a table in the ledger.
            passing: beginnings of the names of units that the step is whole without; they go.
        """
        folder = self.temporary / f"{step.name}-ledger"
        files = {}
        if flows is not None:
            key = ledger_key(step.name)
            write_flows(folder / key, flows)
            sync_files(folder)
            files[key] = digest_file(folder / key)
        outcome = Outcome(folder, files, record.model_dump(mode="json"))
        commit = self.commits.put(step.name, STEP_COMMIT, step.fingerprint, outcome, passing=passing)
        self.flush()
        self.commits.release(step.name, passing)
        self._tell_files(step.name)
        self.journal.log("step", step=step.name, fingerprint=step.fingerprint)
        self.progress.end_step()
        return commit

    def need_of(self, step: str) -> Need:
        """Return the memory that a worker of a step may take, with the buffers of a store's client."""
        need = self.needs[step]
        return replace(need, bytes=need.bytes + store_buffers(self.root))

    def _tell_files(self, step: str) -> None:
        """Let the tasks of a run in a store know what is committed of a step."""
        run = stored_run_at(self.root)
        if run is not None:
            run.tell_files(self.root, step)

    def changed_files(self, step: StepPlan, files: Mapping[str, FileDigest]) -> dict[str, str]:
        """Return those of some files that are not what was committed, each with what was found.

        Args:
            step: whose workers compare them.
            files: committed files by key.
        """
        changed: dict[str, str] = {}
        phase = comparison(step, files, changed)
        self.do_phase(step, phase)
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

        self.do_phase(step, Phase("", tasks, take=take))
        return records

    def do_phase(self, step: StepPlan, phase: Phase) -> None:
        """Do one phase and nothing else."""
        if phase.tasks:
            self.do([StepRun(step.name, self.need_of(step.name), one_phase(phase))])
            self._tell_files(step.name)

    def close(self) -> None:
        """Leave Ray."""
        if self._engine is not None:
            self._engine.close()


def store_buffers(root: Path) -> int:
    """Return the bytes that a worker of a run needs for the client of a store; 0 if it has none."""
    return BUFFER_BYTES if stored_run_at(root) is not None or other_runs() else 0


def _unit_line(task: Task, outcome: Outcome) -> str:
    """Say what a unit of work took and made."""
    documents, size = documents_of(outcome.record), sum(one.bytes for one in outcome.files.values())
    counted = f"{documents:,} documents, " if documents else ""
    seconds, peak = outcome.metrics.get("seconds", 0.0), outcome.metrics.get("peak_rss", 0.0)
    return (
        f"  {task.step} {task.unit}: {counted}{show_bytes(size)} written, {seconds:.1f} s,"
        f" a worker of {show_bytes(peak)}"
    )


@dataclass(eq=False)
class _PhaseBar:
    """A phase at work, in the log and before people's eyes."""

    execution: Execution
    step: str
    progress: BatchProgress
    peak: Peak

    def advance(self, *, more: bool, documents: int = 0) -> None:
        """Count one finished task and its documents."""
        self.progress.advance(more=more, documents=documents)

    def grow(self, tasks: int) -> None:
        """Count tasks that were not known before."""
        self.progress.grow(tasks)

    def end(self) -> None:
        """Say that the phase is done."""
        peak = self.execution.watch.end_peak(self.peak)
        title = self.progress.title
        self.execution.journal.log("end", step=self.step, title=title, peak_memory=peak)
        self.progress.end()


def comparison(
    step: StepPlan,
    files: Mapping[str, FileDigest],
    changed: dict[str, str],
    *,
    folder: Path | None = None,
    name: str = "held",
) -> Phase:
    """Return work that compares files with what was committed and notes what was found instead.

    Args:
        step: whose workers do it.
        files: by key.
        changed: what was found, by key; filled.
        folder: of the run that the files are of; None is this one.
        name: begins the names of its tasks, no other's of the step.
    """

    def take(_: Task, outcome: Outcome) -> None:
        changed.update(ChangedFilesRecord.model_validate(outcome.record).changed)

    tasks = [
        Task(step.name, f"{name}-{number:05d}", compare_files, part, step.fingerprint)
        for number, part in enumerate(files_to_check(files, folder=folder))
    ]
    return Phase("compare files", tasks, take=take)


def new_watch(resources: WorkerResources, note: Callable[[str], None]) -> MemoryWatch:
    """Return a watch of what a run with these resources holds; tests put a cheaper one in its place."""
    return MemoryWatch(resources.memory, note)


@contextmanager
def open_execution(
    output: Path,
    resources: WorkerResources,
    *,
    needs: Mapping[str, Need],
    stream: TextIO | None,
    verbose: bool = False,
    own: Path | None = None,
) -> Iterator[Execution]:
    """Hold a run's folder and give the means to work in it; leave both in order.

    Args:
        output: folder of the run.
        resources: workers and memory.
        needs: the memory that a worker of each step may take.
        stream: where progress is shown.
        verbose: whether each unit of work is told.
        own: where this session writes, if the folder of the run is only read.

    Raises:
        Stopped: the libraries could not work here; nothing is written.
    """
    require_address_space()
    attempt = new_attempt()
    lock = run_lock if own is None else read_lock
    written = output if own is None else own
    with disk_faults(output), lock(output), signals_stop():
        sweep(written)
        end_last_line(written)
        journal = Journal(written, attempt)
        journal.log("start", workers=resources.workers)
        progress = Progress(journal, stream, verbose=verbose)
        root = output.resolve()
        commits = working_commits_of(root) if own is None else ReadOnlyCommits(root, own)
        watch = new_watch(resources, progress.note)
        progress.watch_memory(lambda: watch.memory, resources.memory)
        execution = Execution(root, attempt, resources, commits, journal, progress, watch, needs)
        try:
            with watch, telling_of_outages(progress.note):
                yield execution
        except BaseException as error:
            with tidying():
                journal.log("stop", error=f"{type(error).__name__}: {error}")
                journal.status("stopped", error=reason_of(error))
            raise
        finally:
            with tidying():
                progress.close()
                execution.close()
                sweep(written)
                with suppress(OSError):  # a full disk has ended the run, and that is told
                    progress.write_metrics(running=False)
        journal.log("stop")
