"""Replays: which finished runs are sources of a run, found as it is planned, and whether they fit.

Ids are taken as they are, so those of the tokenizer and of what frames documents must be this run's.
What a finished deduplication was made with stands in run.json, and counts, so that a folder that grows
later changes nothing of a run that has replayed it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from pipeline.inputs.files import NamedFile
from pipeline.planning.against import named_replays
from pipeline.planning.outputs import require_place
from pipeline.planning.plan import StepStatus
from pipeline.run_file.config import RunFile
from pipeline.state.other_runs import folder_of
from pipeline.steps.decode.step import DECODE
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.kept_plan import KeptPlan
from pipeline.steps.replay.step import REPLAY, REPLAYED
from pipeline.steps.replayed_runs import ReplayedRun, replayed_columns
from pipeline.steps.run_folder import RunFolder
from pipeline.steps.selection import DEDUP_NAME, SELECTING
from pipeline.steps.split.step import SPLIT
from pipeline.steps.step import Scope
from pipeline.steps.tokenize.step import TOKENIZE
from pipeline.steps.tokenizer.adopt import AdoptedTokenizer
from pipeline.steps.tokenizer.load import model_key, special_ids_of
from pipeline.steps.units import units_of
from pipeline.system.printable import as_known
from stages.errors import ConfigError, DataError
from stages.store.digests import digest_file
from stages.tokenizer.framing import BEGIN

_STORED = ("eos", BEGIN)
"""The roles of the ids that frame documents in the token store."""


def find_replays(
    file: RunFile, base: Path, *, output: Path, adopted: AdoptedTokenizer | None, anew: bool = False
) -> tuple[ReplayedRun, ...]:
    """Return the runs whose documents a run replays, each generation of a folder as a run.

    Args:
        file: the run file.
        base: folder that its paths are relative to.
        output: the run's folder.
        adopted: the run's tokenizer.
        anew: whether to take what there is now, and not what the folder's deduplication was made with.

    Raises:
        ConfigError: a folder holds no run, or one that does not fit this one.
    """
    if not file.replays:
        return ()
    assert adopted is not None, "a run with replays trains no tokenizer"
    recorded = None if anew else _recorded(output, file)
    try:
        found = _found(file, base, output=output)
        _require_fit(file, found, adopted)
    except (ConfigError, DataError):
        if recorded is None:
            raise
        return recorded
    if recorded is None:
        return found
    there = {(run.source, run.tokenize): run for run in found}
    return tuple(_in_place(run, there.get((run.source, run.tokenize))) for run in recorded)


def replays_again(file: RunFile, kept: KeptPlan) -> tuple[ReplayedRun, ...]:
    """Return the runs that run.json says its run replays, with what is there of them now."""
    step, found = kept.steps.get(REPLAY.name), list[ReplayedRun]()
    if step is None:
        return ()
    recorded = ReplayedRun.recorded(step.config.get(REPLAYED, ()))
    places = kept.replayed if len(kept.replayed) == len(recorded) else ("",) * len(recorded)
    for run, place in zip(recorded, places, strict=True):
        label = file.replays.get(run.source, place)
        try:
            folder = folder_of(place, Path("/"), key=f"sources.{run.source}.run")
            there = _opened(folder, run.source, run.number, label) if place else None
        except (ConfigError, DataError):
            there = None
        found.append(_in_place(run, there))
    return tuple(found)


def require_other_files(files: Iterable[NamedFile], runs: Sequence[ReplayedRun]) -> None:
    """Refuse files whose documents would have the ids of replayed ones.

    Raises:
        ConfigError: names one.
    """
    taken: dict[str, str] = {}
    for run in runs:
        both = sorted(run.files & taken.keys())
        if both:
            raise ConfigError(
                f"sources.{run.source}.run: {run.label} and {taken[both[0]]} both have {both[0]} (source"
                " and path), so that their documents would have the same ids; leave one of the two out"
            )
        taken.update(dict.fromkeys(run.files, run.label))
    for file in files:
        key = f"{file.source}/{file.path}"
        if key in taken:
            raise ConfigError(
                f"sources.{file.source}: {key} (source and path) is also a file of the replayed run"
                f" {taken[key]}, so that their documents would have the same ids; give the source"
                " another name here, or, if it is the same file, leave it out: it is replayed"
            )


def replay_lines(runs: Sequence[ReplayedRun]) -> list[str]:
    """Return a line for each replayed run, for people."""
    return [
        f"source {run.source} replays "
        + (
            f"{run.label} ({sum(unit.documents for unit in run.units):,} documents before its selection)"
            if run.folder is not None
            else "a run that is not there any more"
        )
        for run in runs
    ]


def noted(status: StepStatus, scope: Scope) -> StepStatus:
    """Return how far a step is, with the earlier runs that it reads, if nothing else is said of it."""
    against = ", ".join(run.label or "a run that is gone" for run in scope.earlier)
    replays = ", ".join(f"{run.source}: {run.label or 'a run that is gone'}" for run in scope.replayed)
    said = {DEDUP_NAME: f"against {against}" if against else "", REPLAY.name: replays}
    why = said.get(status.step.name, "")
    return replace(status, why=why) if why and not status.why else status


def _found(file: RunFile, base: Path, *, output: Path) -> tuple[ReplayedRun, ...]:
    found: list[ReplayedRun] = []
    seen: dict[Path, str] = {}
    for source, label in sorted(file.replays.items()):
        key = f"sources.{source}.run"
        require_place(Path(label), key)
        folder = folder_of(label, base, key=key)
        own, other = (as_known(str(one)) for one in (output.resolve(), folder))
        if f"{other}/".startswith(f"{own}/"):
            raise ConfigError(f"{key} = {label!r}: is the run's own folder; name another run")
        for number, place in enumerate((folder, *RunFolder(folder).generations())):
            if place in seen:
                raise ConfigError(
                    f"{key} = {label!r}: source {seen[place]!r} replays this run already; make them one"
                    " source"
                )
            seen[place] = source
            name = label if place == folder else f"{label}/{place.relative_to(folder)}"
            found.append(_opened(place, source, number, name))
    return tuple(found)


def _opened(folder: Path, source: str, number: int, label: str) -> ReplayedRun:
    """Return a finished run whose documents may be replayed.

    Raises:
        ConfigError: there is none, or it has not got so far, or a check found faults.
    """
    key = f"sources.{source}.run = {label!r}"
    run = RunFolder(folder)
    try:
        kept = run.plan
    except ConfigError as error:
        raise ConfigError(
            f"{key}: {folder} holds no run; name the folder of a finished one, relative to the run file"
        ) from error
    ingest, split = run.record(INGEST, key=key), run.record(SPLIT, key=key)
    run.record(TOKENIZE, key=key)
    if run.record(DECODE, key=key).findings:
        raise ConfigError(f"{key}: verification of that run found faults; make it again with --replace")
    place = folder.resolve()
    return ReplayedRun(
        source,
        number,
        kept.steps[INGEST.name].fingerprint,
        kept.steps[[name for name in SELECTING if name in kept.steps][-1]].fingerprint,
        kept.steps[TOKENIZE.name].fingerprint,
        digest_file(folder / model_key(folder)).sha256,
        label,
        place,
        tuple(replace(unit, folder=str(place)) for unit in units_of(ingest.units)),
        split.shards["train"],
        frozenset(kept.steps[INGEST.name].config.get("files", {})),
    )


def _require_fit(file: RunFile, runs: Sequence[ReplayedRun], adopted: AdoptedTokenizer) -> None:
    """Refuse runs whose ids mean something else here, or whose documents no dataset can be made of.

    Raises:
        ConfigError: says what differs, and the way out.
    """
    for run in runs:
        assert run.folder is not None, "it was just opened"
        key = f"sources.{run.source}.run = {run.label!r}"
        way = f"write [tokenizer] path = {file.replays[run.source]!r}"
        if run.tokenizer != adopted.sha256:
            raise ConfigError(
                f"{key}: that run has another tokenizer (SHA-256 {run.tokenizer[:12]}...) than"
                f" tokenizer.path = {file.tokenizer.path!r} ({adopted.sha256[:12]}...), so its ids mean"
                f" other text; {way}"
            )
        theirs, own = special_ids_of(run.folder), adopted.special_ids
        roles = [role for role in (*_STORED, *own) if role in theirs or role in _STORED]
        differing = [role for role in roles if theirs.get(role) != own.get(role)]
        if differing:
            said = ", ".join(
                f"{role} is {theirs.get(role, 'not there')} there and {own.get(role, 'not there')} here"
                for role in dict.fromkeys(differing)
            )
            raise ConfigError(
                f"{key}: its documents are framed otherwise than this run's: {said}; give both runs the"
                " same framing and tokenizer.special"
            )
        _require_datasets(file, run, key)


def _require_datasets(file: RunFile, run: ReplayedRun, key: str) -> None:
    """Refuse a run whose documents do not fit the datasets or the weights of the source."""
    source = next(source for source in file.sources if source.name == run.source)
    some = replayed_columns([run])
    columns = [one for one in some if all(one in unit.keep_columns for unit in run.units)]
    if source.weight_column is not None and source.weight_column not in columns:
        there = f"it has {', '.join(columns)}" if columns else "it has none"
        if source.weight_column in some:
            without = sorted({u.source for u in run.units if source.weight_column not in u.keep_columns})
            there = f"its sources {', '.join(without)} do not have it"
        raise ConfigError(
            f"{key}: weight_column = {source.weight_column!r} is no field that goes along with all"
            f" documents of that run (its keep_columns); {there}"
        )
    for dataset in file.datasets:
        if any(u.dialogues for u in run.units) and not dataset.traits.takes_dialogues:
            raise ConfigError(
                f"{key}: has dialogues, and dataset {dataset.name!r} (kind ="
                f" {dataset.objective.kind!r}) takes documents apart; make it in a run without this"
                " source"
            )


def _recorded(output: Path, file: RunFile) -> tuple[ReplayedRun, ...] | None:
    """Return what the runs were when the deduplication of a folder was made, if it is whole; or None."""
    run = RunFolder(output)
    kept = run.known_plan
    if kept is None or REPLAY.name not in kept.steps or named_replays(kept) != file.replays:
        return None
    if run.commit(DEDUP_NAME) is None:
        return None
    return ReplayedRun.recorded(kept.steps[REPLAY.name].config.get(REPLAYED, ()))


def _in_place(run: ReplayedRun, there: ReplayedRun | None) -> ReplayedRun:
    """Return a recorded run with what is there of it now, if that is the same."""
    if there is None or there.identity != run.identity:
        return run
    return there
