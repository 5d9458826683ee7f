"""Run folders: a run that others read, with what it keeps of its plan, its commits and its generations.

DIR/run.json            the plan as it was kept
DIR/commits/            what is done of it
DIR/datasets/           the datasets
DIR/generations/0001    a later generation, a run folder likewise

Lineage: which generation of its run a folder is, and a digest of what later generations rest on.

    digest of a generation = SHA-256 of the canonical JSON of
        [digest of the one before, or null, digests of the input files, [step, what it decided] of each]

The steps are those that decide what is read, kept and held out, and the tokenizer. What they decided is
in their commits: documents by their ids, and the files of the tokenizer. Datasets are no part of it, so
that a dataset can be made again. No path, time, number of workers or size of units is part of it either:
so fingerprints, which depend on the size of units, are none.

A generation whose documents are compared with those of earlier ones rests on their texts alone until its
rows are made: `run.json` has a digest of the steps up to the last that decides what is kept.
"""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pipeline.run_file.config import RunFile
from pipeline.run_file.dataset import without_shards
from pipeline.run_file.datasets import finished_splits
from pipeline.state.commit_object import COMMITS, Commit
from pipeline.state.commits import DATASETS, PLAN, SCAN, STEP_COMMIT, Commits
from pipeline.state.places import commits_of
from pipeline.state.state_files import as_model, read_object
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.kept_plan import WAY_OUT, KeptPlan
from pipeline.steps.records import StepRecord
from pipeline.steps.selection import DEDUP_NAME, SELECTING
from pipeline.steps.split.step import SPLIT
from pipeline.steps.step import Step
from pipeline.steps.tokenizer.load import FOLDER
from pipeline.steps.tokenizer.step import TOKENIZER
from stages.config import canonical_json
from stages.errors import ConfigError, DataError, FormatError
from stages.store.folders import entries
from stages.store.generations import (
    generation_name,
    missing_generation,
    numbered_generations,
    require_no_gap,
)
from stages.store.manifest import Lineage

KEEPING = (INGEST.name, *SELECTING)
"""Names of the steps that decide what is kept."""
_DECIDING = (*KEEPING, SPLIT.name, TOKENIZER.name)
_DECIDED = ("ledger", "held_out")
"""Of the record of a step."""
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
        place = self.path / PLAN
        try:
            content = read_object(place, way_out=WAY_OUT)
        except (FileNotFoundError, NotADirectoryError) as error:
            if (self.path / COMMITS).is_dir():
                raise FormatError(
                    f"{place}: is missing, though the folder holds a run; run the run file again, which"
                    " writes it anew; what is committed stays"
                ) from error
            raise ConfigError(
                f"{self.path}: holds no run (no {PLAN}); name the --output of one"
            ) from error
        return as_model(KeptPlan, content, place, way_out=WAY_OUT)

    @property
    def known_plan(self) -> KeptPlan | None:
        """The same; None where it cannot be read, which the run itself says."""
        try:
            return self.plan
        except (ConfigError, FormatError):
            return None

    @property
    def file(self) -> RunFile:
        """The run file that the plan holds.

        Raises:
            ConfigError: the folder holds no run.
            FormatError: run.json is damaged, or holds none.
        """
        run = without_shards(self.plan.run)
        return as_model(RunFile, run, self.path / PLAN, way_out=WAY_OUT)

    @cached_property
    def commits(self) -> Commits:
        """What is committed there."""
        return commits_of(self.path)

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

    def is_done(self, step: str) -> bool:
        """Say whether a step of the plan is whole, whatever became of its files since."""
        planned = self.plan.steps.get(step)
        if planned is None:
            return False
        return self.commits.get(step, STEP_COMMIT, planned.fingerprint, trusting=True) is not None

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

    @property
    def datasets(self) -> list[str]:
        """Return the names of the datasets of which a split is finished."""
        return [path.name for path in entries(self.path / DATASETS) if finished_splits(path)]

    def dataset(self, name: str) -> Path:
        """Return the folder of a dataset.

        Raises:
            ConfigError: no such dataset.
        """
        there = {path.name: path for path in entries(self.path / DATASETS) if path.is_dir()}
        if name not in there:
            found = self.datasets
            what = f"datasets here: {', '.join(found)}" if found else "no dataset here"
            raise ConfigError(f"{self.path}: no dataset {name!r}; {what}")
        return there[name]

    def digest(self, after: str | None, steps: Collection[str] = _DECIDING) -> str | None:
        """Return the digest of a generation; None if what it decided is not whole, or damaged.

        Args:
            after: the digest of the one before; None for a run's own.
            steps: names of those that the digest is of.
        """
        plan = self.known_plan  # a damaged commit or plan is named where it is looked at
        if plan is None or INGEST.name not in plan.steps:
            return None
        files = plan.steps[INGEST.name].config.get("files")
        try:
            decided = [one for name in steps if (one := self._decided(name)) is not None]
        except FormatError:
            return None
        if files is None or set(steps) - set(SELECTING) - {name for name, *_ in decided}:
            return None
        return hashlib.sha256(canonical_json([after, files, decided])).hexdigest()

    def _decided(self, name: str) -> list[Any] | None:
        """Return the name of a step and what it decided; None if it is not whole."""
        whole = self.commits.whole(name)
        if whole is None:
            return None
        decided = {key: whole.record[key] for key in _DECIDED if key in whole.record}
        if name == TOKENIZER.name:
            every = (item for _, one in self.commits.all(name) for item in one.files.items())
            decided["files"] = {key: file.sha256 for key, file in every if key.startswith(f"{FOLDER}/")}
        return [name, decided]

    def digest_before(self, number: int, steps: Collection[str] = _DECIDING) -> str | None:
        """Return the digest of the generation before; None if there is none, or it is not whole.

        Args:
            number: of this one.
            steps: names of those that the digest is of.
        """
        if not number:
            return None
        folder = self.path.resolve().parent
        digest = RunFolder(folder.parent).digest(None, steps)
        for one in range(1, number):
            before = RunFolder(folder / generation_name(one))
            digest = None if digest is None else before.digest(digest, steps)
        return digest

    def lineage(self, number: int) -> Lineage:
        """Return the lineage of a generation whose deciding steps are done.

        Args:
            number: its number; 0 is a run's own.
        """
        after = self.digest_before(number)
        return Lineage(number=number, digest=self.digest(after) or "", after=after)

    def generations(self) -> list[Path]:
        """Return the folders of the run's later generations, in their order.

        The last one may have been stopped before it was planned, and then counts as not there.

        Raises:
            FormatError: one before the last is missing, or is not the one that later ones rest on.
        """
        found = numbered_generations(self.path)
        require_no_gap(self.path, found)
        last = max(found, default=0)
        for number, path in list(found.items()):
            if (path / PLAN).exists():
                continue
            if number < last or not path.is_dir() or RunFolder(path).was_planned:
                what = "holds no run" if path.is_dir() else "is no folder"
                raise missing_generation(self.path, number, last=last, why=f"{what} (no {PLAN})")
            del found[number]
        folders = list(found.values())
        self._require_chain(folders)
        return folders

    def _require_chain(self, folders: Sequence[Path]) -> None:
        """Refuse a generation that was decided against others than those before it.

        What a deduplication was made against is in run.json: fingerprints of ingest and dedup, those of
        earlier generations last, and a digest of the generation before.

        Raises:
            FormatError: names the generation.
        """
        identities = [self.identity]
        digest = self.digest(None, KEEPING) if folders else None
        for number, folder in enumerate(folders, 1):
            run = RunFolder(folder)
            kept = run.known_plan
            if kept is not None and not _fits(kept, number, identities, digest):
                raise missing_generation(
                    self.path,
                    number,
                    last=len(folders),
                    why="was made after other generations than those before it: it is of another run, or"
                    " its number was another one",
                )
            identities.append(run.identity)
            digest = None if digest is None else run.digest(digest, KEEPING)


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
    against = kept.earlier()
    own = [(run.ingest, run.dedup) for run in against[-number:]]
    decided = not against or (
        len(own) == number and all(known in (None, one) for known, one in zip(before, own, strict=True))
    )
    rests = None in (kept.after, digest) or kept.after == digest
    return decided and rests and kept.generation in (None, number)
