"""Damage and strays: committed files that are missing or changed, and what is no file of the run.

Presence and size are looked at in every session, of every step of the plan. A run without --replace
refuses a damaged folder by name. With it, every digest is compared too; what is damaged is forgotten and
made anew, and so is all that depends on it.

Strays: what lies in a run's folders and is none of its files.

Data that no commit names may have been left by a killed run: files that were moved to their keys and not
committed yet. The same run writes them again; one whose settings changed may not. Nothing here is ever
removed by the program, which cannot know whose it is: `verify` names it.
"""

from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import xxhash

from pipeline.planning.plan import steps_before
from pipeline.session.execution import Execution
from pipeline.state.commit_object import COMMITS, way_out
from pipeline.state.commits import SCAN, STEP_COMMIT, Commits
from pipeline.state.stored_run import stored_run_at
from pipeline.steps.step import StepPlan
from pipeline.steps.table import written_folders
from pipeline.steps.verify.files import DATA_ENDINGS
from stages.errors import DataError
from stages.store.folders import entries, walk
from stages.stores.fetch import is_here
from stages.stores.store import is_key

_NAMED = 3


def handle_damage(execution: Execution, plan: Mapping[str, StepPlan], *, replace: bool) -> None:
    """Refuse damaged files, or forget their commits and those of all steps that depend on them.

    Args:
        execution: the session.
        plan: steps by name.
        replace: whether to forget.

    Raises:
        DataError: a committed file is missing, or is not what was committed.
    """
    run = stored_run_at(execution.root)
    listed = run.listing(execution.root, FOLDERS).damaged if run is not None and replace else {}
    found = {
        name: _damaged_units(execution, step, listed, digests=replace) for name, step in plan.items()
    }
    found = {name: units for name, units in found.items() if units}
    for name in execution.commits.steps():
        if name not in plan and name != SCAN:
            for fault in list(execution.commits.survey(name).damaged.values())[:_NAMED]:
                execution.progress.note(f"warning: {fault}; {left_over(name)}")
    if not found:
        return
    faults = [fault for units in found.values() for fault in units.values()]
    if not replace:
        more = f"; and {len(faults) - _NAMED} more" if len(faults) > _NAMED else ""
        raise DataError(f"{'; '.join(faults[:_NAMED])}{more}; {way_out(next(iter(found)))}")
    for name in reversed(list(plan)):  # last first: a kill on the way leaves a shorter, sound run
        if not found.keys().isdisjoint(steps_before(plan, name)):
            execution.commits.drop(name)
            execution.journal.log("replace", step=name)
        elif name in found:
            execution.commits.drop(name, {*found[name], STEP_COMMIT})
            execution.journal.log("replace", step=name, units=sorted(found[name]))
    execution.progress.note(f"redoing {', '.join(found)} and all later steps, because {faults[0]}")


def drop_damaged_scans(execution: Execution) -> None:
    """Forget what was scanned of inputs where its files are gone or changed: they are scanned again."""
    run, survey = stored_run_at(execution.root), execution.commits.survey(SCAN)
    files = {key: digest for one in survey.commits.values() for key, digest in one.files.items()}
    if run is None:
        damaged = {key for key, digest in files.items() if not is_here(execution.root / key, digest)}
    else:
        damaged = run.listing(execution.root, FOLDERS).damaged.keys() & files.keys()
    if damaged:
        units = {unit for unit, one in survey.commits.items() if damaged & one.files.keys()}
        execution.commits.drop(SCAN, units)


def require_objects(execution: Execution, *, whole: bool) -> None:
    """Hold the objects of a run in a store to its log, before the verdict; nothing in a folder.

    Args:
        execution: the session.
        whole: whether the run has been done to its end; then what killed processes left is removed.

    Raises:
        DataError: an object is missing or changed.
    """
    run = stored_run_at(execution.root)
    if run is None:
        return
    listing = run.listing(execution.root, FOLDERS)
    if listing.damaged:
        faults = [f"{execution.root / key}: {fault}" for key, fault in listing.damaged.items()]
        more = f"; and {len(faults) - _NAMED} more" if len(faults) > _NAMED else ""
        raise DataError(
            f"{'; '.join(faults[:_NAMED])}{more}; run again with --replace to make it anew, with all"
            " that depends on it"
        )
    if whole and listing.strays:
        run.remove_strays(execution.root, listing.strays)
        execution.journal.log("remove", objects=len(listing.strays))


def left_over(step: str) -> str:
    """Say what helps where a damaged file is of a step that the run file no longer has."""
    dataset = step.partition("-")[2]
    folder = f" and datasets/{dataset}" if dataset else ""
    return (
        f"the run file has no step {step} any more: restore the file, or put the dataset back and run"
        f" with --replace, or delete commits/{step}{folder}"
    )


def _damaged_units(
    execution: Execution, step: StepPlan, listed: Mapping[str, str], *, digests: bool
) -> dict[str, str]:
    """Return the units of a step with a damaged file, and what is wrong with it.

    Args:
        execution: the session.
        step: in the plan.
        listed: what a listing of a store says, by key.
        digests: whether files are compared with their digests.
    """
    survey = execution.commits.survey(step.name)
    damaged = dict(survey.damaged)
    if digests:
        sound = {unit: commit for unit, commit in survey.commits.items() if unit not in damaged}
        owners = {key: unit for unit, commit in sound.items() for key in commit.files}
        files = {key: digest for commit in sound.values() for key, digest in commit.files.items()}
        changed = {key: fault for key, fault in listed.items() if key in files}
        left = {key: digest for key, digest in files.items() if key not in changed}
        for key, fault in (changed | execution.changed_files(step, left)).items():
            damaged[owners[key]] = f"{execution.root / key}: {fault}"
        if not damaged:
            execution.commits.mark_checked(step.name)
    return damaged


FOLDERS = (SCAN, "ledger", *written_folders())
"""Where steps write."""


def stray_files(root: Path, commits: Commits) -> Iterator[str]:
    """Return the keys of the data files that no commit names, by folder and name.

    A step of which a commit is missing or cannot be believed may have written any: then none is named.
    """
    run = stored_run_at(root)
    if run is not None:
        yield from run.listing(root, FOLDERS).strays
        return
    steps = commits.steps()
    if any(commits.survey(step).unreadable for step in steps):
        return
    names = _committed(commits, steps)
    for path in _below(root):
        if path.suffix in DATA_ENDINGS and not path.is_symlink() and path.is_file():
            key = path.relative_to(root).as_posix()
            place = np.uint64(_hash(key))
            at = int(np.searchsorted(names, place))
            if at == len(names) or names[at] != place:
                yield key


def links(root: Path) -> Iterator[str]:
    """Return the keys of the symbolic links in the folders of steps, and of folders that are links."""
    steps = (f"{COMMITS}/{path.name}" for path in entries(root / COMMITS))
    for folder in (COMMITS, *steps, *FOLDERS):
        if (root / folder).is_symlink():
            yield folder
    for path in _below(root):
        if path.is_symlink():
            yield path.relative_to(root).as_posix()


def no_commits(root: Path, commits: Commits) -> Iterator[str]:
    """Return the keys of what lies among the commits and is none: a backup copy, a note."""
    for folder in entries(root / COMMITS):
        if not folder.is_dir() or not is_key(folder.name):
            yield f"{COMMITS}/{folder.name}"
            continue
        survey = commits.survey(folder.name)
        known = {f"{unit}.json" for unit in (*survey.commits, *survey.damaged)}
        for path in entries(folder):
            if path.name not in known and not path.name.startswith("."):
                yield f"{COMMITS}/{folder.name}/{path.name}"


def _below(root: Path) -> Iterator[Path]:
    """Return all that is in the folders of steps; a folder that is a link is not entered."""
    for folder in FOLDERS:
        for parent, folders, files in walk(root / folder):
            folders.sort()
            for name in sorted([*files, *(f for f in folders if (parent / f).is_symlink())]):
                yield parent / name


def _committed(commits: Commits, steps: list[str]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return the hashes of all committed keys, sorted: 8 bytes for each, however long their names."""
    known = array("Q")
    for step in steps:
        for commit in commits.survey(step).commits.values():
            known.extend(_hash(key) for key in commit.files)
    return np.unique(np.frombuffer(known, np.uint64)) if known else np.empty(0, np.uint64)


def _hash(key: str) -> int:
    return xxhash.xxh3_64_intdigest(key.encode())
