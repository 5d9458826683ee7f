"""Earlier runs: which finished runs a run is deduplicated against, found as it is planned.

A run folder stands for its own run and for its generations, in this order. Their signatures must be
comparable with those of this run. What a finished deduplication was made against stands in
run.json, and counts, whatever becomes of those folders later.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pipeline.planning.outputs import require_place
from pipeline.run_file.config import RunFile
from pipeline.run_file.fingerprints import full_settings
from pipeline.state.other_runs import folder_of
from pipeline.steps.dedup.step import DEDUP
from pipeline.steps.earlier_runs import RANKS_UNIT, EarlierRun
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.kept_plan import AGAINST, KeptPlan
from pipeline.steps.run_folder import RunFolder
from pipeline.steps.selection import CUT_NAME, DEDUP_NAME, SELECTING
from pipeline.steps.split.step import SPLIT
from pipeline.steps.step import Scope
from pipeline.steps.units import units_of
from pipeline.system.printable import as_known
from stages.config import canonical_json
from stages.errors import ConfigError, DataError, FormatError


def find_earlier(file: RunFile, base: Path, *, output: Path) -> tuple[EarlierRun, ...]:
    """Return the runs that a run file names as `dedup.against`, in the order of their rank.

    Behind them come those that it replays, unless they are named: what repeats a replayed document goes.

    Raises:
        ConfigError: a folder holds no run, or one that cannot be compared with this run.
    """
    found: list[EarlierRun] = []
    seen: dict[Path, str] = {}
    named = [("dedup.against", label) for label in file.dedup.against]
    named += [(f"sources.{source}.run", label) for source, label in sorted(file.replays.items())]
    for key, label in named:
        require_place(Path(label), key)
        folder = folder_of(label, base, key=key)
        if as_known(str(folder)) == as_known(str(output.resolve())):
            raise ConfigError(f"{key} = {label!r}: is the run's own folder; name another run")
        for place in (folder, *RunFolder(folder).generations()):
            if place in seen and label in file.replays.values():
                continue
            if place in seen:
                raise ConfigError(f"{key}: {label!r} and {seen[place]!r} are the same run")
            seen[place] = label
            name = label if place == folder else f"{label}/{place.relative_to(folder)}"
            found.append(open_earlier(place, file, label=name, setting=key))
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
    return tuple(_as_recorded(run, there.get(run.dedup)) for run in recorded)


def _as_recorded(run: EarlierRun, there: EarlierRun | None) -> EarlierRun:
    """Return a recorded run with what is there of it now."""
    if there is None:
        return run
    return replace(there, split=run.split, selected=run.selected or there.selected)


def open_earlier(
    folder: Path, file: RunFile, *, label: str, setting: str = "dedup.against"
) -> EarlierRun:
    """Return a finished run that another one is to be deduplicated against.

    Args:
        folder: of the run.
        file: of the other one.
        label: what people call the folder.
        setting: that names it.

    Raises:
        ConfigError: it has not got so far, or its signatures are others.
    """
    run, key = RunFolder(folder), f"{setting} = {label!r}"
    try:
        kept = run.plan
    except ConfigError as error:
        raise ConfigError(f"{key}: {folder} holds no run; name the folder of a finished one") from error
    _require_signatures(kept, file, key)
    _require_values(kept, file, key)
    ingest, dedup = run.record(INGEST, key=key), run.record(DEDUP, key=key)
    selecting = tuple(name for name in SELECTING if name in kept.steps)
    selected = _if_done(run, selecting[-1])
    if selected is None and file.dedup.cuts:
        raise ConfigError(f"{key}: step {selecting[-1]} of that run is not done; finish that run first")
    place, fingerprint = folder.resolve(), kept.steps[DEDUP_NAME].fingerprint
    return EarlierRun(
        label,
        kept.steps[INGEST.name].fingerprint,
        fingerprint,
        _if_done(run, SPLIT.name),
        place,
        tuple(replace(unit, folder=str(place)) for unit in units_of(ingest.units)),
        methods=tuple(dedup.removed),
        ranked=run.commits.get(DEDUP_NAME, RANKS_UNIT, fingerprint) is not None,
        selecting=selecting,
        selected=selected,
    )


def _if_done(run: RunFolder, step: str) -> str | None:
    """Return the fingerprint of a step if it is done."""
    return None if run.commit(step) is None else run.plan.steps[step].fingerprint


def reopened(runs: Sequence[EarlierRun], file: RunFile) -> tuple[EarlierRun, ...]:
    """Return earlier runs as they were opened, but those that are not there, or not as they were.

    Args:
        runs: as run.json names them, with their folders.
        file: of the run that was deduplicated against them.
    """
    return tuple(_reopened(run, file) for run in runs)


def _reopened(run: EarlierRun, file: RunFile) -> EarlierRun:
    if run.folder is None:
        return run
    try:
        found = open_earlier(run.folder, file, label=run.label)
    except (ConfigError, DataError):
        return run
    return found if found.identity == run.identity else run


def _require_signatures(kept: KeptPlan, file: RunFile, key: str) -> None:
    """Refuse a run whose signatures cannot be compared with this run's.

    Raises:
        ConfigError: names the settings that differ.
    """
    if not file.dedup.near:
        return
    own = _signed_with(
        json.loads(canonical_json(full_settings(INGEST.settings(Scope(file))["signatures"])))
    )
    ingest = kept.steps.get(INGEST.name)
    theirs = None if ingest is None else _signed_with(ingest.config.get("signatures"))
    if own is None or theirs is None:
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
        raise ConfigError(
            f"{key}: its signatures cannot be compared with this run's: {said}; set the same"
            " here, or run that run again with what is set here"
        )


def _signed_with(signatures: object) -> dict[str, object] | None:
    """Return the settings that signatures are made with, by name; None if there are no signatures.

    Those of normalised texts are kept as [settings, version of Unicode's tables].
    """
    match signatures:
        case [
            Mapping() as settings,
            version,
        ]:  # rests on Unicode's tables, so it is equal only with them
            return {**settings, "normalize": [*settings["normalize"], f"Unicode {version}"]}
        case Mapping() as settings:
            return {"normalize": [], **settings}  # runs made before there was a normalisation name none
    return None


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
    run = RunFolder(output)
    kept = run.known_plan
    if kept is None or DEDUP_NAME not in kept.steps:
        return None
    before = kept.run.get(DEDUP_NAME, {}).get(AGAINST, [])
    if tuple(before) != file.dedup.against or named_replays(kept) != file.replays:
        return None
    if not run.is_done(DEDUP_NAME):
        return None
    return kept.earlier(cut=run.is_done(CUT_NAME))  # else still to be found


def named_replays(kept: KeptPlan) -> dict[str, str]:
    """Return the folders of the runs that run.json's own run file replays, by source."""
    sources = kept.run.get("sources", ())
    return {one["name"]: one["run"] for one in sources if one.get("run") is not None}


def labels(runs: Sequence[EarlierRun]) -> Iterator[str]:
    """Yield a line for each earlier run, for people."""
    for run in runs:
        where = "which is not there any more" if run.folder is None else f"{run.documents:,} documents"
        yield f"deduplicated against {run.label or 'a run'} ({where}), kept_run {run.dedup}"
