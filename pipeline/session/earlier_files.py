"""Earlier files: the files of earlier runs that steps read, held to what was committed there.

Each file is compared once in a session, before a step reads it. Files that no step reads may be gone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.engine.step_run import StepRun
from pipeline.engine.tasks import Phases
from pipeline.session.execution import Execution, comparison
from pipeline.steps.earlier_runs import EarlierRun
from pipeline.steps.replay.step import REPLAY
from pipeline.steps.replayed_runs import ReplayedRun
from pipeline.steps.run_folder import RunFolder
from pipeline.steps.step import StepPlan
from pipeline.steps.table import STEPS, step_of
from pipeline.steps.tokenize.step import TOKENIZE
from stages.errors import DataError
from stages.store.digests import FileDigest


@dataclass(frozen=True)
class FilesRead:
    """Files of another run that steps of this one read."""

    name: str
    """Of their check."""
    begin: str
    """How a message about them begins."""
    folder: Path | None
    """Of the other run; what needs it says so itself where there is none."""
    step: str
    """That committed them."""
    readers: Sequence[StepRun]
    borrowed: Mapping[str, FileDigest] = field(default_factory=dict)
    """Digests that files had when they were indexed, in place of those that are committed now."""


def checks_of_other_runs(
    runs: Mapping[str, StepRun],
    earlier: Sequence[EarlierRun],
    replayed: Sequence[ReplayedRun],
    *,
    plan: Mapping[str, StepPlan],
    execution: Execution,
) -> Iterator[StepRun]:
    """Yield the checks of files of other runs; the steps that read them wait for the checks.

    Args:
        runs: the steps to be done, by name.
        earlier: runs that this one is deduplicated against.
        replayed: runs whose token stores it reads.
        plan: steps by name.
        execution: the session.

    Raises:
        DataError: a commit is gone, or cannot be believed.
    """
    for read in (*_of_earlier(runs, earlier), *_of_replayed(runs, replayed, plan, execution)):
        if not read.readers or read.folder is None:
            continue
        files = {**_files_of(read.begin, read.step, read.folder), **read.borrowed}
        for run in read.readers:
            run.after |= {read.name}
        own = plan[read.readers[0].name]
        work = _compare(read.begin, files, own, name=read.name, folder=read.folder)
        yield StepRun(read.name, execution.needs[own.name], work)


def _of_earlier(runs: Mapping[str, StepRun], earlier: Sequence[EarlierRun]) -> Iterator[FilesRead]:
    for step in STEPS:  # as the earlier runs have them
        readers = [run for name, run in runs.items() if step.name in step_of(name).earlier]
        for number, one in enumerate(earlier):
            name, begin = f"earlier-{number}-{step.name}", f"dedup.against: {one.label}"
            yield FilesRead(name, begin, one.folder, step.name, readers)


def _of_replayed(
    runs: Mapping[str, StepRun],
    replayed: Sequence[ReplayedRun],
    plan: Mapping[str, StepPlan],
    execution: Execution,
) -> Iterator[FilesRead]:
    readers = [run for run in runs.values() if TOKENIZE.name in step_of(run.name).replayed]
    for number, one in enumerate(replayed):
        borrowed = _borrowed(one, plan, execution) if readers else {}
        begin = f"sources.{one.source}.run: {one.label}"
        yield FilesRead(f"replayed-{number}", begin, one.folder, TOKENIZE.name, readers, borrowed)


def _borrowed(
    run: ReplayedRun, plan: Mapping[str, StepPlan], execution: Execution
) -> dict[str, FileDigest]:
    """Return the digests that the arrays of ids had when they were indexed; none if they are not yet."""
    whole = execution.step_commit(plan[REPLAY.name])
    if whole is None:
        return {}
    borrowed = whole.read(REPLAY.record).borrowed
    return {
        f"tokens/{unit.name}/ids.npy": borrowed[own.commit_name]
        for unit, own in run.pairs()
        if own.commit_name in borrowed
    }


def _files_of(begin: str, step: str, folder: Path) -> dict[str, FileDigest]:
    """Return the files of a step of an earlier run that others read; the rest may be gone.

    Raises:
        DataError: a commit is gone, or cannot be believed.
    """
    survey = RunFolder(folder).commits.survey(step)
    for fault in survey.unreadable.values():
        raise _refusal(begin, fault)
    unread = step_of(step).unread
    files = (item for commit in survey.commits.values() for item in commit.files.items())
    return {key: digest for key, digest in files if not key.startswith(unread)}


def _compare(
    begin: str,
    files: Mapping[str, FileDigest],
    step: StepPlan,
    *,
    name: str,
    folder: Path,
) -> Phases[None]:
    """Refuse files that are not what was committed.

    Raises:
        DataError: one is not.
    """
    changed: dict[str, str] = {}
    if files:
        yield comparison(step, files, changed, folder=folder, name=name)
    for key, fault in changed.items():
        raise _refusal(begin, f"{folder}/{key}: {fault}")


def _refusal(begin: str, fault: str) -> DataError:
    return DataError(f"{begin}: {fault}; restore it, or make that run again with --replace")
