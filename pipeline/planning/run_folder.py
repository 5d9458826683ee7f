"""Run folders: a run that others read, with what it keeps of its plan, its commits and its generations.

DIR/run.json            the plan as it was kept
DIR/commits/            what is done of it
DIR/generations/0001    a later generation, a run folder likewise
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from pipeline.planning.kept_plan import KeptPlan, KeptStep, read_kept_plan
from pipeline.planning.outputs import PLAN
from pipeline.state.commit_object import Commit
from pipeline.state.commits import SCAN, STEP_COMMIT, Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.earlier_runs import EarlierRun
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.lineage import KEEPING, digest_of
from pipeline.steps.records import StepRecord
from pipeline.steps.selection import CUT_NAME, DEDUP_NAME
from pipeline.steps.step import Step
from stages.errors import ConfigError, DataError, FormatError
from stages.store.generations import missing_generation, numbered_generations, require_no_gap

AGAINST = "against"
"""The setting by which a step names the runs that it was made against."""
R = TypeVar("R", bound=StepRecord)


@dataclass(frozen=True)
class RunFolder:
    """A folder that holds a run."""

    path: Path

    @cached_property
    def plan(self) -> KeptPlan:
        """What the run keeps of its plan.

        Raises:
            ConfigError: the folder holds no run.
            FormatError: run.json is damaged.
        """
        return read_kept_plan(self.path)

    @property
    def known_plan(self) -> KeptPlan | None:
        """The same; None where it cannot be read, which the run itself says."""
        try:
            return self.plan
        except (ConfigError, FormatError):
            return None

    @cached_property
    def commits(self) -> Commits:
        """What is committed there."""
        return Commits(LocalStorage(self.path))

    @property
    def identity(self) -> tuple[str, str] | None:
        """The fingerprints of ingest and dedup; None if they are not known."""
        plan = self.known_plan
        if plan is None or not {INGEST.name, DEDUP_NAME} <= plan.steps.keys():
            return None
        return plan.steps[INGEST.name].fingerprint, plan.steps[DEDUP_NAME].fingerprint

    def commit(self, step: str) -> Commit | None:
        """Return the commit of a whole step of the plan; None if it is not done.

        Raises:
            DataError: a file of it is gone.
        """
        planned = self.plan.steps.get(step)
        return None if planned is None else self.commits.get(step, STEP_COMMIT, planned.fingerprint)

    def record(self, step: Step[R], *, key: str) -> R:
        """Return the record of a step that must be done.

        Args:
            step: of the run.
            key: the setting that names the run, for messages.

        Raises:
            ConfigError: it is not done.
            DataError: a file of it is gone.
        """
        try:
            commit = self.commit(step.name)
        except DataError as error:
            raise DataError(f"{key}: {error}") from error
        if commit is None:
            raise ConfigError(f"{key}: step {step.name} of that run is not done; finish that run first")
        return commit.read(step.record)

    @property
    def is_finished(self) -> bool:
        """Say whether all steps of the plan are whole; of damaged ones, the run itself says so."""
        return all(self.commits.is_whole(name) for name in self.plan.steps)

    @property
    def was_planned(self) -> bool:
        """Say whether a step is committed that is done after run.json is written: any but the scan."""
        return any(step != SCAN for step in self.commits.steps())


def generation_folders(output: Path) -> list[Path]:
    """Return the folders of a run's later generations, in their order.

    The last one may have been stopped before it was planned, and then counts as not there.

    Raises:
        FormatError: one before the last is missing, or is not the one that later ones rest on.
    """
    found = numbered_generations(output)
    require_no_gap(output, found)
    last = max(found, default=0)
    for number, path in list(found.items()):
        if (path / PLAN).exists():
            continue
        if number < last or not path.is_dir() or RunFolder(path).was_planned:
            what = "holds no run" if path.is_dir() else "is no folder"
            raise missing_generation(output, number, last=last, why=f"{what} (no {PLAN})")
        del found[number]
    folders = list(found.values())
    _require_chain(output, folders)
    return folders


def _require_chain(output: Path, folders: Sequence[Path]) -> None:
    """Refuse a generation that was decided against others than those before it.

    What a deduplication was made against is in run.json: fingerprints of ingest and dedup, those of
    earlier generations last, and a digest of the generation before.

    Raises:
        FormatError: names the generation.
    """
    identities = [RunFolder(output).identity]
    digest = digest_of(output, None, KEEPING) if folders else None
    for number, folder in enumerate(folders, 1):
        run = RunFolder(folder)
        kept = run.known_plan
        if kept is not None and not _fits(kept, number, identities, digest):
            raise missing_generation(
                output,
                number,
                last=len(folders),
                why="was made after other generations than those before it: it is of another run, or its"
                " number was another one",
            )
        identities.append(run.identity)
        digest = None if digest is None else digest_of(folder, digest, KEEPING)


def _fits(
    kept: KeptPlan, number: int, before: Sequence[tuple[str, str] | None], digest: str | None
) -> bool:
    """Say whether a generation was made after those before it, as far as its run.json says.

    Args:
        kept: what that says.
        number: of its folder.
        before: fingerprints of ingest and dedup of those before it; None where they are not known.
        digest: of the one before; None if it is not known.
    """
    against = against_of(kept)
    own = [(run.ingest, run.dedup) for run in against[-number:]]
    decided = not against or (
        len(own) == number and all(known in (None, one) for known, one in zip(before, own, strict=True))
    )
    rests = None in (kept.after, digest) or kept.after == digest
    return decided and rests and kept.generation in (None, number)


def against_of(kept: KeptPlan) -> tuple[EarlierRun, ...]:
    """Return the names of the runs that run.json says its run was deduplicated against."""
    step = kept.steps.get(DEDUP_NAME)
    return () if step is None else recorded_against(step, kept.steps.get(CUT_NAME))


def recorded_against(dedup: KeptStep, cut: KeptStep | None) -> tuple[EarlierRun, ...]:
    """Return the runs that kept steps were made against, without their folders."""
    selected = () if cut is None else cut.config.get(AGAINST, ())
    return EarlierRun.recorded(dedup.config.get(AGAINST, ()), selected)
