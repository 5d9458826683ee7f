"""Commits: a unit of work is whole or absent.

    1. a worker writes its files under tmp/ATTEMPT/WORKER/STEP/UNIT/, and brings them to the disk
    2. it links them to their final keys, which replaces nothing, and writes the commit beside them
    3. the driver links that to commits/STEP/UNIT.json; this object is the commit

A kill before 3 leaves files at final keys that no commit names. They are under tmp/, too, by which
`withdraw` finds and removes them. A step that is whole has commits/STEP/_step.json, which
names the commits of its units. A commit holds its own name and a digest of itself: a copy under another
name, a commit that was changed and one that is missing are damage, and are never acted on.
"""

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.state.commit_object import COMMITS, ENDING, Commit, commit_key, parse_commit, way_out
from pipeline.state.publishing import COMMIT_FILE, Outcome, require_written
from pipeline.state.state_files import readable
from pipeline.state.storage import LocalStorage
from stages.config import canonical_json
from stages.errors import DataError, FormatError
from stages.store.digests import FileDigest
from stages.store.drawn import DRAWN_NAME
from stages.store.folders import entries
from stages.store.manifest import MANIFEST_NAME
from stages.stores.store import is_key

PLAN = "run.json"
STEP_COMMIT = "_step"
SCAN = "scan"
"""The step before the plan: what the plan is made from is committed first."""
DATASETS = "datasets"
_ALL_FIELDS = set(Commit.model_fields)
"""One set for all commits: of its own each would have 728 bytes."""
DRAWN_FOLDER = "drawn"


@dataclass(frozen=True)
class DroppedUnits:
    """What goes with units of a step that are forgotten."""

    units: tuple[str, ...]
    """All of them, those that hold a manifest first."""
    holders: tuple[str, ...]
    """Those that hold a manifest."""
    manifests: tuple[str, ...]
    """Keys."""
    files: tuple[str, ...]
    """Keys that no commit which stays names."""


@dataclass(frozen=True)
class StepCommits:
    """What is there of a step."""

    commits: dict[str, Commit]
    """By unit, those that can be read."""
    damaged: dict[str, str]
    """By unit: which file is missing or of another size, or what is wrong with the commit object."""

    @property
    def unreadable(self) -> dict[str, str]:
        """Return the units whose commit is missing or cannot be believed, with what is wrong."""
        return {unit: fault for unit, fault in self.damaged.items() if unit not in self.commits}


class Commits:
    """The commits of a run.

    Args:
        storage: where the run is.
    """

    def __init__(self, storage: LocalStorage) -> None:
        self.storage = storage
        self._sound: set[str] = set()
        self._checked: set[str] = set()
        """Steps whose earlier commits were compared; what they get later is of this session."""
        self._seals: dict[str, str] = {}
        """Digests of the commits that this session read or made, by key."""
        self._listed: dict[str, set[str]] = {}
        """By step: its units of which there is a commit object."""
        self._unsynced: dict[str, str] = {}
        """By step: the key of a commit, if names of commits are still to be brought to the disk."""

    def get(self, step: str, unit: str, fingerprint: str, *, trusting: bool = False) -> Commit | None:
        """Return the commit of a unit, if there is one of the same fingerprint.

        Args:
            step: name in the plan.
            unit: of the step.
            fingerprint: of the work.
            trusting: whether to leave the sizes of its files to the checks.

        Raises:
            DataError: a committed file is gone or has another size.
        """
        if unit not in self._there(step):
            return None
        commit = self.read(step, unit)
        if commit is None or commit.fingerprint != fingerprint:
            return None
        fault = None if trusting else self._missing(commit)
        if fault:
            raise DataError(f"{fault}; {way_out(step)}")
        return commit

    def _there(self, step: str) -> set[str]:
        """Return the units of a step of which there is a commit object: no other process makes any."""
        if step not in self._listed:
            self._listed[step] = set(self.units(step))
        return self._listed[step]

    def put(
        self,
        step: str,
        unit: str,
        fingerprint: str,
        outcome: Outcome,
        *,
        passing: tuple[str, ...] = (),
    ) -> Commit:
        """Commit what a worker made; or a whole step, once its units are committed. Then call `flush`.

        The worker took the digests; whether the bytes still have them is looked at by who reads them
        later, and by verification. So the driver's work does not grow with the bytes.

        Args:
            step: name in the plan.
            unit: of the step.
            fingerprint: of the work.
            outcome: what the worker hands back.
            passing: beginnings of the names of units that a whole step does not name.

        Raises:
            DataError: a file has not the size that the worker reported.
        """
        seal = outcome.published.seal
        if seal:  # its worker made this very commit
            commit = Commit.model_construct(
                _ALL_FIELDS,
                step=step,
                unit=unit,
                fingerprint=fingerprint,
                files=dict(outcome.files),
                record=outcome.record,
                units={},
                xxh3=seal,
            )
        else:
            commit = Commit(
                step=step,
                unit=unit,
                fingerprint=fingerprint,
                files=dict(outcome.files),
                record=outcome.record,
                units=self._units(step, passing) if unit == STEP_COMMIT else {},
            ).sealed()
        self._publish(commit, outcome)
        return commit

    def _publish(self, commit: Commit, outcome: Outcome) -> None:
        """Bring the files of a unit to their keys as far as its worker did not, then its commit."""
        made = outcome.published
        left = made.taken if made.is_linked else outcome.files
        for key in left:
            require_written(outcome.folder / key, outcome.files[key])
        for key in left:
            self.storage.publish(outcome.folder / key, key)
        if left:
            self.storage.sync_folders(left)
        key = commit_key(commit.step, commit.unit)
        if made.is_linked:
            new = self.storage.link_new(f"{outcome.folder}/{COMMIT_FILE}", key)
        else:
            new = self.storage.put_new(key, canonical_json(commit))
        if not new:
            raise DataError(
                f"{self.storage.root}: another process committed {commit.step}/{commit.unit} meanwhile;"
                " only one run may write to a folder"
            )
        self._sound.add(key)
        self._there(commit.step).add(commit.unit)
        self._seals[key] = commit.xxh3
        self._unsynced[commit.step] = key

    def flush(self) -> None:
        """Have what was committed outlast a power cut."""
        self.storage.sync_folders(self._unsynced.values())
        self._unsynced.clear()

    def unchecked(self, step: str) -> dict[str, FileDigest]:
        """Return the files of a step that were neither made nor checked in this session."""
        if step in self._checked:
            return {}
        units = [unit for unit in self.units(step) if commit_key(step, unit) not in self._sound]
        commits = [self.read(step, unit) for unit in units]
        return {key: digest for commit in commits if commit for key, digest in commit.files.items()}

    def mark_checked(self, step: str) -> None:
        """Note that all files of a step are what was committed."""
        self._checked.add(step)

    def steps(self) -> list[str]:
        """Return the names of the steps of which something is committed."""
        names = [path.name for path in entries(self.storage.path(COMMITS)) if path.is_dir()]
        return sorted(name for name in names if is_key(name))

    def survey(self, step: str) -> StepCommits:
        """Return what is committed of a step, and what of it is missing or damaged."""
        commits: dict[str, Commit] = {}
        damaged: dict[str, str] = {}
        for unit in self.units(step):
            try:
                commit = self.read(step, unit)
            except FormatError as error:
                damaged[unit] = str(error).removesuffix(f"; {way_out(step)}")  # said once, for all
                continue
            if commit is not None:
                commits[unit] = commit
                fault = self._missing(commit)
                if fault:
                    damaged[unit] = fault
        if STEP_COMMIT in commits:
            units = commits[STEP_COMMIT].units
            named = {unit: damaged[unit] for unit in damaged if unit in units or unit == STEP_COMMIT}
            damaged = named | self._lost_units(step, commits)  # the rest is somebody's, and no commit
        return StepCommits(commits, damaged)

    def _lost_units(self, step: str, commits: dict[str, Commit]) -> dict[str, str]:
        """Take out the commits that are not those of the whole step; say what is wrong with each."""
        lost = {}
        for unit, digest in commits[STEP_COMMIT].units.items():
            place = self.storage.path(commit_key(step, unit))
            if unit not in commits and not place.exists():
                lost[unit] = f"{place}: step {step} was finished with this commit, found nothing"
            elif unit in commits and commits[unit].xxh3 != digest:
                lost[unit] = f"{place}: not the commit that step {step} was finished with"
                del commits[unit]
        return lost

    def _missing(self, commit: Commit) -> str | None:
        """Say which file of a commit is gone or of another size, or None if none is."""
        for key, digest in commit.files.items():
            size = self.storage.size(key)
            if size != digest.bytes:
                found = "nothing" if size is None else f"{size:,}"
                path = self.storage.path(key)
                return f"{path}: committed with {digest.bytes:,} bytes, found {found}"
        return None

    def whole(self, step: str) -> Commit | None:
        """Return the commit of a whole step, whichever plan made it.

        Raises:
            FormatError: it is damaged.
        """
        return self.read(step, STEP_COMMIT)

    def is_whole(self, step: str) -> bool:
        """Say whether there is a commit of a whole step that can be read, whichever plan made it."""
        try:
            return self.whole(step) is not None
        except FormatError:
            return False

    def all(self, step: str) -> Iterator[tuple[str, Commit]]:
        """Yield the commits of a step."""
        for unit in self.units(step):
            commit = self.read(step, unit)
            if commit is not None:
                yield unit, commit

    def drop(self, step: str, units: Collection[str] | None = None) -> None:
        """Forget some units of a step, or all.

        In this order, each removed for good before the next is touched: the commit of the whole step,
        which vouches for the others; commits that hold a manifest; manifests; other commits; the files.
        So a kill or a power cut on the way leaves no step that looks whole, no dataset that looks whole,
        and no commit without its files. A manifest goes with any file that it lists, even if a kill came
        between the manifest and its commit. A file that a commit which stays names, too, stays.
        """
        self._remove(step, self._dropped(step, units))

    def _dropped(self, step: str, units: Collection[str] | None) -> DroppedUnits:
        """Return what goes with some units of a step, or all."""
        found = self.survey(step)
        every = found.commits
        known = every.keys() | found.damaged.keys() | {STEP_COMMIT}
        chosen = [unit for unit in sorted(known) if units is None or unit in {*units, STEP_COMMIT}]
        keys = {key for unit in chosen if unit in every for key in every[unit].files}
        manifests = {manifest for key in keys if (manifest := _manifest_of(key)) is not None}
        holders = [unit for unit, commit in every.items() if manifests & commit.files.keys()]
        gone = dict.fromkeys((*holders, *chosen))
        stay = {key for unit, commit in every.items() if unit not in gone for key in commit.files}
        return DroppedUnits(
            tuple(gone), tuple(holders), tuple(sorted(manifests)), tuple(sorted(keys - stay))
        )

    def _remove(self, step: str, dropped: DroppedUnits) -> None:
        for some in (
            [commit_key(step, STEP_COMMIT)],
            [commit_key(step, unit) for unit in dropped.holders],
            dropped.manifests,
            [commit_key(step, unit) for unit in dropped.units],
            dropped.files,
        ):
            self._delete(some)
        self._sound -= {commit_key(step, unit) for unit in dropped.units}

    def release(self, step: str, passing: tuple[str, ...]) -> None:
        """Remove what only the work on a step needed, once the step is whole without it.

        The files go first. A kill on the way leaves commits that the step does not name; they are no
        damage, and go when this is called again.

        Args:
            step: that is whole.
            passing: beginnings of the names of the units that go.
        """
        gone = [unit for unit in self.units(step) if unit.startswith(passing)]
        commits = [self.read(step, unit) for unit in gone]
        files = [key for commit in commits if commit is not None for key in commit.files]
        self._delete(files)
        self._delete([commit_key(step, unit) for unit in gone])
        self._sound -= {commit_key(step, unit) for unit in gone}
        self.storage.remove_empty({folder for key in files for folder in Path(key).parents})

    def _delete(self, keys: Collection[str]) -> None:
        """Remove objects, and return once that would outlast a power cut."""
        self._listed.clear()
        there = [key for key in keys if os.path.lexists(self.storage.path(key))]
        for key in there:
            self.storage.delete(key)
            self._seals.pop(key, None)
        self.storage.sync_folders(there)

    def units(self, step: str) -> list[str]:
        """Return the units that something is named after in a step's folder, sorted."""
        folder = self.storage.path(f"{COMMITS}/{step}")
        with readable(folder, way_out="move it away"):
            if not folder.is_dir():
                return []
            names = sorted(path.name for path in folder.iterdir())
        return [name.removesuffix(ENDING) for name in names if _is_commit(name)]

    def _units(self, step: str, passing: tuple[str, ...]) -> dict[str, str]:
        """Return the digests of the commits that make a step whole."""
        units = {}
        for unit in self.units(step):
            key = commit_key(step, unit)
            if unit == STEP_COMMIT or unit.startswith(passing):
                continue
            if key in self._seals or self.read(step, unit) is not None:
                units[unit] = self._seals[key]
        return units

    def read(self, step: str, unit: str) -> Commit | None:
        """Return the commit of a unit, whichever plan made it; None if there is none.

        Raises:
            FormatError: it is damaged.
        """
        place, then = self.storage.path(commit_key(step, unit)), way_out(step)
        if place.is_symlink():
            raise FormatError(f"{place}: is a symbolic link; {then}")
        with readable(place, way_out=then):
            data = self.storage.get(commit_key(step, unit))
        if data is None:
            return None
        commit = parse_commit(data, place, then)
        if (commit.step, commit.unit) != (step, unit):
            raise FormatError(
                f"{place}: is the commit of unit {commit.unit} of step {commit.step}; {then}"
            )
        self._seals[commit_key(step, unit)] = commit.xxh3
        return commit


def _is_commit(name: str) -> bool:
    return name.endswith(ENDING) and not name.startswith(".") and is_key(name)


def _manifest_of(key: str) -> str | None:
    """Return the key of the manifest that lists a dataset's file.

    datasets/clm/train/epoch-0000/00000/input_ids.npy -> datasets/clm/train/dataset.json
    """
    parts = key.split("/")
    if parts[0] != DATASETS:
        return None
    is_drawn = parts[3] in {DRAWN_NAME, DRAWN_FOLDER}
    return "/".join([*parts[:3], DRAWN_NAME if is_drawn else MANIFEST_NAME])
