"""Earlier runs: which finished runs a run is deduplicated against, found as it is planned.

A run folder stands for its own run and for its generations, in this order. Their signatures must be
comparable with those of this run. What a finished deduplication was made against stands in
run.json, and counts, whatever becomes of those folders later.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pipeline.planning.kept_plan import KeptPlan, KeptStep, read_kept_plan
from pipeline.planning.outputs import PLAN, require_local
from pipeline.run_file.config import RunFile
from pipeline.run_file.fingerprints import full_settings
from pipeline.state.commits import SCAN, STEP_COMMIT, Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.dedup.step import DEDUP
from pipeline.steps.earlier import RANKS_UNIT, EarlierRun
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.lineage import KEEPING, digest_of
from pipeline.steps.selection import CUT_NAME, DEDUP_NAME, SELECTING
from pipeline.steps.split.step import SPLIT
from pipeline.steps.step import Scope
from pipeline.steps.units import units_of
from stages.config import canonical_json
from stages.errors import ConfigError, DataError, FormatError
from stages.store.generations import missing_generation, numbered_generations, require_no_gap

_AGAINST = "against"


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
        if number < last or not path.is_dir() or _was_planned(path):
            what = "holds no run" if path.is_dir() else "is no folder"
            raise missing_generation(output, number, last=last, why=f"{what} (no {PLAN})")
        del found[number]
    folders = list(found.values())
    _require_chain(output, folders)
    return folders


def _was_planned(folder: Path) -> bool:
    """Say whether a step is committed in a folder that is done after run.json is written: no scan."""
    return any(step != SCAN for step in Commits(LocalStorage(folder)).steps())


def _require_chain(output: Path, folders: Sequence[Path]) -> None:
    """Refuse a generation that was decided against others than those before it.

    What a deduplication was made against is in run.json: fingerprints of ingest and dedup, those of
    earlier generations last, and a digest of the generation before.

    Raises:
        FormatError: names the generation.
    """
    kept = _kept(output)
    identities = [_identity(kept)]
    digest = digest_of(output, None, KEEPING) if folders else None
    for number, folder in enumerate(folders, 1):
        kept = _kept(folder)
        if kept is not None and not _fits(kept, number, identities, digest):
            raise missing_generation(
                output,
                number,
                last=len(folders),
                why="was made after other generations than those before it: it is of another run, or its"
                " number was another one",
            )
        identities.append(_identity(kept))
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


def _identity(kept: KeptPlan | None) -> tuple[str, str] | None:
    """Return the fingerprints of a run's ingest and dedup; None if they are not known."""
    if kept is None or not {INGEST.name, DEDUP_NAME} <= kept.steps.keys():
        return None
    return kept.steps[INGEST.name].fingerprint, kept.steps[DEDUP_NAME].fingerprint


def _kept(folder: Path) -> KeptPlan | None:
    try:
        return read_kept_plan(folder)
    except (ConfigError, FormatError):  # the run itself says so
        return None


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
        folder = (base / require_local(Path(label), key)).resolve()
        if folder == output.resolve():
            raise ConfigError(f"{key} = {label!r}: is the run's own folder; name another run")
        for place in (folder, *generation_folders(folder)):
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
    key = f"{setting} = {label!r}"
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
    place, ranked = folder.resolve(), commits.get(DEDUP_NAME, RANKS_UNIT, dedup) is not None
    selecting = tuple(name for name in SELECTING if name in kept.steps)
    last = kept.steps[selecting[-1]].fingerprint
    selected = None if commits.get(selecting[-1], STEP_COMMIT, last) is None else last
    if selected is None and file.dedup.cuts:
        raise ConfigError(f"{key}: step {selecting[-1]} of that run is not done; finish that run first")
    return EarlierRun(label, ingest, dedup, split, place, units, methods, ranked, selecting, selected)


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
    try:
        kept = read_kept_plan(output)
    except (ConfigError, FormatError):
        return None
    step, cut = kept.steps.get(DEDUP_NAME), kept.steps.get(CUT_NAME)
    before = kept.run.get(DEDUP_NAME, {}).get(_AGAINST, [])
    if step is None or tuple(before) != file.dedup.against or named_replays(kept) != file.replays:
        return None
    commits = Commits(LocalStorage(output))
    if commits.get(DEDUP_NAME, STEP_COMMIT, step.fingerprint) is None:
        return None
    if cut is not None and commits.get(CUT_NAME, STEP_COMMIT, cut.fingerprint) is None:
        cut = None  # what it is made against is still to be found
    return _named(step, cut)


def against_of(kept: KeptPlan) -> tuple[EarlierRun, ...]:
    """Return the names of the runs that run.json says its run was deduplicated against."""
    step = kept.steps.get(DEDUP_NAME)
    return () if step is None else _named(step, kept.steps.get(CUT_NAME))


def _named(dedup: KeptStep, cut: KeptStep | None) -> tuple[EarlierRun, ...]:
    selected = () if cut is None else cut.config.get(_AGAINST, ())
    return EarlierRun.recorded(dedup.config.get(_AGAINST, ()), selected)


def named_replays(kept: KeptPlan) -> dict[str, str]:
    """Return the folders of the runs that run.json's own run file replays, by source."""
    sources = kept.run.get("sources", ())
    return {one["name"]: one["run"] for one in sources if one.get("run") is not None}


def labels(runs: Sequence[EarlierRun]) -> Iterator[str]:
    """Yield a line for each earlier run, for people."""
    for run in runs:
        where = "which is not there any more" if run.folder is None else f"{run.documents:,} documents"
        yield f"deduplicated against {run.label or 'a run'} ({where}), kept_run {run.dedup}"
