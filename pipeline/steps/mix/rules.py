"""Later rules of the mix: which runs they change, and what is otherwise in a run made before them."""

from collections.abc import Mapping
from pathlib import Path

from pipeline.engine.tasks import Workspace
from pipeline.run_file.config import RunFile
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.mix.choose import LATER, MIX_NAME, WITHIN, MixRecord
from pipeline.steps.mix.count import MixUnit, read_counts
from pipeline.steps.replayed_runs import replayed_units
from pipeline.steps.split.step import SPLIT
from pipeline.steps.step import LaterRule, Records, Scope
from pipeline.steps.units import units_of
from stages.errors import ConfigError
from stages.mixing.classes import ClassCounts
from stages.mixing.config import DatasetMix
from stages.mixing.later_generations import left_out_of
from stages.mixing.plan import PlannedMix, Planning, plan_mix

EARLIER = "earlier"
"""The setting of a later generation: tokens of each source in the mixes of the earlier ones."""


def weights_of(file: RunFile) -> dict[str, str]:
    """Return the field that holds the weight of the documents of each source that has one."""
    return {one.name: one.weight_column for one in file.sources if one.weight_column is not None}


def _mix_of(scope: Scope) -> DatasetMix:
    mix = scope.file.mix_of(scope.dataset)
    assert mix is not None, "a dataset without a mix has no such step"
    return mix


def _weights_beside(scope: Scope) -> bool:
    """Say whether a source with weights shares an amount of tokens with another source."""
    mix, weights = _mix_of(scope), weights_of(scope.file)
    filling = [name for name, one in mix.sources.items() if one.share is None and one.whole_epochs]
    return len(filling) > 1 and any(name in weights for name in filling)


def _shares_later(scope: Scope) -> bool:
    return scope.generation > 0 and any(one.share for one in _mix_of(scope).sources.values())


def _later_settings(scope: Scope) -> Mapping[str, object]:
    known = scope.mixed.get(scope.dataset.name, {})
    return {"later": _mix_of(scope).later, EARLIER: dict(sorted(known.items()))}


def _record_of(records: Records, scope: Scope) -> MixRecord:
    found = records.named(f"{MIX_NAME}-{scope.dataset.name}")
    assert isinstance(found, MixRecord)
    return found


def _weights_changed_others(root: Path, records: Records, scope: Scope) -> str | None:
    """Say which sources have other copies than without the weights of others, and how many."""
    record, mix = _record_of(records, scope), _mix_of(scope)
    mix = mix.model_copy(update={"tolerance": 1.0})
    counts = _counts_of(root, records, scope)
    seen = {one.order: one.begin for one in record.classes}
    name = scope.dataset.name
    try:
        then, now = (
            plan_mix(counts, mix, dataset=name, seen=seen, planning=Planning(within, strict=False))
            for within in (False, True)
        )
    except ConfigError:  # what is asked now is another mix; the check of the mix says so
        return None
    wrong = [one for one in mix.sources if _tokens(then, counts, one) != _tokens(now, counts, one)]
    if not wrong:
        return None
    copies, right = _copies(then), _copies(now)
    said = ", ".join(
        f"{one} {copies.get(one, 0):,} copies of documents where {right.get(one, 0):,} are right"
        for one in wrong
    )
    return (
        f"{MIX_NAME}-{name}: was made before the rule {WITHIN!r}: weights changed how often other"
        f" sources are seen: {said}. The rows stay valid; to make them by the rule, run into a new"
        " folder"
    )


def _counts_of(root: Path, records: Records, scope: Scope) -> list[ClassCounts]:
    """Return what the units were counted to hold."""
    units = (*units_of(records.of(INGEST).units), *replayed_units(scope.replayed))
    shards, weights = records.of(SPLIT).shards["train"], weights_of(scope.file)
    name = scope.dataset.name
    counted = (MixUnit(unit, name, shards, weights.get(unit.source)) for unit in units)
    return read_counts(Workspace(root, root), counted)


def _tokens(planned: PlannedMix, counts: list[ClassCounts], source: str) -> object:
    """Return the tokens that a source is to have, before intervals end where bins do."""
    return sum(
        int(one.tokens.sum()) * planned.epochs.get(one.key.order, 0)
        for one in counts
        if one.key.source == source
    )


def _copies(planned: PlannedMix) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in planned.classes:
        found[one.source] = found.get(one.source, 0) + one.documents
    return found


def _documents_left_out(root: Path, records: Records, scope: Scope) -> str | None:
    """Say how many new documents of a generation are in no row, because shares left no room."""
    mix = _mix_of(scope)
    if mix.later == "strict":
        return None
    left: dict[str, int] = {}
    for one in _record_of(records, scope).classes:
        if mix.sources[one.source].share and one.source not in scope.file.replays:
            left[one.source] = left.get(one.source, 0) + left_out_of(one)
    said = ", ".join(f"{number:,} of source {name}" for name, number in left.items() if number)
    if not said:
        return None
    return (
        f"{root.name}: {MIX_NAME}-{scope.dataset.name}: was made before the rule {LATER!r}: new"
        f" documents are in no training row: {said}. The rows stay valid; to make them by the rule, run"
        " into a new folder"
    )


RULES = (
    LaterRule(WITHIN, _weights_beside, _weights_changed_others),
    LaterRule(LATER, _shares_later, _documents_left_out, _later_settings),
)
