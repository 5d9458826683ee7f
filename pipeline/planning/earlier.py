"""Earlier runs: which finished runs a run is deduplicated against, found as it is planned.

A run folder stands for its own run and for its generations, in this order. Their signatures must be
comparable with those of this run. What a finished deduplication was made against stands in
run.json, and counts, whatever becomes of those folders later.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pipeline.planning.kept_plan import KeptPlan, read_kept_plan
from pipeline.planning.outputs import PLAN, require_local
from pipeline.run_file.config import RunFile
from pipeline.run_file.fingerprints import full_settings
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.dedup.step import DEDUP
from pipeline.steps.earlier import ORDER, EarlierRun
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.selection import DEDUP_NAME
from pipeline.steps.split.step import SPLIT
from pipeline.steps.step import Scope
from pipeline.steps.units import units_of
from stages.config import canonical_json
from stages.errors import ConfigError, FormatError
from stages.store.folders import entries

GENERATIONS = "generations"
_AGAINST = "against"


def generation_folders(output: Path) -> list[Path]:
    """Return the folders of a run's later generations, in their order."""
    found = [path for path in entries(output / GENERATIONS) if path.name.isdecimal()]
    return sorted((path for path in found if (path / PLAN).exists()), key=lambda path: int(path.name))


def find_earlier(file: RunFile, base: Path, *, output: Path) -> tuple[EarlierRun, ...]:
    """Return the runs that a run file names as `dedup.against`, in the order of their rank.

    Raises:
        ConfigError: a folder holds no run, or one that cannot be compared with this run.
    """
    found: list[EarlierRun] = []
    seen: dict[Path, str] = {}
    for label in file.dedup.against:
        folder = (base / require_local(Path(label), "dedup.against")).resolve()
        if folder == output.resolve():
            raise ConfigError(f"dedup.against = {label!r}: is the run's own folder; name another run")
        for place in (folder, *generation_folders(folder)):
            if place in seen:
                raise ConfigError(f"dedup.against: {label!r} and {seen[place]!r} are the same run")
            seen[place] = label
            name = label if place == folder else f"{label}/{place.relative_to(folder)}"
            found.append(open_earlier(place, file, label=name))
    return tuple(found)


def recorded_or_found(
    file: RunFile, base: Path, *, output: Path, before: Sequence[Path] = (), anew: bool = False
) -> tuple[EarlierRun, ...]:
    """Return what a finished deduplication in a folder was made against, or else what there is now.

    Args:
        file: the run file.
        base: folder that its paths are relative to.
        output: the run's folder.
        before: folders of the generations before it.
        anew: whether to take what there is now, if it is there.
    """
    if not file.dedup.exact:  # nothing is compared
        return ()
    recorded = _recorded(output, file)
    try:
        found = find_earlier(file, base, output=output)
        own = (open_earlier(folder, file, label=f"generation {n}") for n, folder in enumerate(before))
        found = (*found, *own)
    except (ConfigError, FormatError):
        if recorded is None:
            raise
        return recorded
    if recorded is None or anew:
        return found
    there = {run.dedup: run for run in found}
    return tuple(
        replace(there[run.dedup], split=run.split) if run.dedup in there else run for run in recorded
    )


def open_earlier(folder: Path, file: RunFile, *, label: str) -> EarlierRun:
    """Return a finished run that another one is to be deduplicated against.

    Raises:
        ConfigError: it has not got so far, or its signatures are others.
    """
    key = f"dedup.against = {label!r}"
    try:
        kept = read_kept_plan(folder)
    except ConfigError as error:
        raise ConfigError(f"{key}: {folder} holds no run; name the folder of a finished one") from error
    _require_signatures(kept, file, key)
    _require_values(kept, file, key)
    commits, prints = Commits(LocalStorage(folder)), dict[str, str | None]()
    for name in (INGEST.name, DEDUP_NAME, SPLIT.name):
        fingerprint = kept.steps[name].fingerprint if name in kept.steps else ""
        commit = commits.get(name, STEP_COMMIT, fingerprint)
        if commit is None and name != SPLIT.name:
            raise ConfigError(f"{key}: step {name} of that run is not done; finish that run first")
        prints[name] = None if commit is None else fingerprint
        if name == INGEST.name and commit is not None:
            sizes = commit.read(INGEST.record).units
        if name == DEDUP_NAME and commit is not None:
            methods = tuple(commit.read(DEDUP.record).removed)
    units = tuple(replace(unit, folder=str(folder.resolve())) for unit in units_of(sizes))
    ingest, dedup, split = prints.values()
    assert ingest is not None
    assert dedup is not None
    place, ranked = folder.resolve(), (folder / ORDER).exists()
    return EarlierRun(label, ingest, dedup, split, place, units, methods, ranked)


def _require_signatures(kept: KeptPlan, file: RunFile, key: str) -> None:
    """Refuse a run whose signatures cannot be compared with this run's.

    Raises:
        ConfigError: names the settings that differ.
    """
    if not file.dedup.near:
        return
    own = json.loads(canonical_json(full_settings(INGEST.settings(Scope(file))["signatures"])))
    ingest = kept.steps.get(INGEST.name)
    theirs = None if ingest is None else ingest.config.get("signatures")
    if not isinstance(theirs, Mapping):
        raise ConfigError(
            f"{key}: that run has no signatures, because its dedup.near is false; set dedup.near ="
            " false here too, or make that run with dedup.near = true"
        )
    differing = sorted(name for name in own.keys() | theirs.keys() if own.get(name) != theirs.get(name))
    if differing:
        said = ", ".join(
            f"dedup.minhash.{name} is {theirs.get(name)!r} there and {own.get(name)!r} here"
            for name in differing
        )
        raise ConfigError(f"{key}: its signatures cannot be compared with this run's: {said}")


def _require_values(kept: KeptPlan, file: RunFile, key: str) -> None:
    """Refuse a run that kept other fields than this run compares.

    Raises:
        ConfigError: names the settings.
    """
    if not file.dedup.value_columns:
        return
    own = json.loads(canonical_json(INGEST.settings(Scope(file)).get("compared", [])))
    ingest = kept.steps.get(INGEST.name)
    theirs = [] if ingest is None else ingest.config.get("compared", [])
    if not isinstance(theirs, list) or own[:2] != theirs[:2]:
        raise ConfigError(
            f"{key}: that run compares other fields, so dedup.url and dedup.keys cannot find its"
            " documents; give both runs the same ones, or leave them out here"
        )


def _recorded(output: Path, file: RunFile) -> tuple[EarlierRun, ...] | None:
    """Return what the deduplication of a folder was made against, if it is whole; or None."""
    try:
        kept = read_kept_plan(output)
    except (ConfigError, FormatError):
        return None
    step = kept.steps.get(DEDUP_NAME)
    before = kept.run.get(DEDUP_NAME, {}).get(_AGAINST, [])
    if step is None or tuple(before) != file.dedup.against:
        return None
    if Commits(LocalStorage(output)).get(DEDUP_NAME, STEP_COMMIT, step.fingerprint) is None:
        return None
    return EarlierRun.recorded(step.config.get(_AGAINST, ()))


def against_of(kept: KeptPlan) -> tuple[EarlierRun, ...]:
    """Return the names of the runs that run.json says its run was deduplicated against."""
    step = kept.steps.get(DEDUP_NAME)
    return () if step is None else EarlierRun.recorded(step.config.get(_AGAINST, ()))


def labels(runs: Sequence[EarlierRun]) -> Iterator[str]:
    """Yield a line for each earlier run, for people."""
    for run in runs:
        where = "which is not there any more" if run.folder is None else f"{run.documents:,} documents"
        yield f"deduplicated against {run.label or 'a run'} ({where}), kept_run {run.dedup}"
