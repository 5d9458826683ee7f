"""Choosing: the interval of each class, from the counts of all units."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipeline.engine.tasks import Workspace
from pipeline.steps.mix.count import MixUnit, count_again, read_counts
from pipeline.steps.mix.intervals import mix_key, read_classes, write_classes
from pipeline.steps.records import StepRecord
from stages.mixing.classes import BINS, ClassCounts, MixClass
from stages.mixing.config import DatasetMix
from stages.mixing.plan import PlannedMix, plan_mix


@dataclass(frozen=True)
class MixChoice:
    """One dataset whose units are all counted."""

    dataset: str
    units: tuple[MixUnit, ...]
    mix: DatasetMix
    after: str | None
    """The stage before it, if that has a mix; without one it has seen every document once."""
    unweighted: int


class MixRecord(StepRecord):
    """What a dataset takes of each class of documents."""

    classes: tuple[MixClass, ...]
    shares: dict[str, float]
    """Asked for, of the sources that have a share."""
    unweighted: int = 0
    """Training documents without a number where their weight should be: they have weight 1."""

    @property
    def documents(self) -> int:
        """Copies of documents."""
        return sum(one.documents for one in self.classes)

    @property
    def tokens(self) -> int:
        """Of these copies."""
        return sum(one.tokens for one in self.classes)


def choose_mix(workspace: Workspace, work: MixChoice) -> MixRecord:
    """Plan the mix of a dataset and write it.

    Raises:
        ConfigError: it cannot be met.
    """
    planned = _planned(workspace, work, read_counts(workspace, work.units))
    write_classes(workspace.create(mix_key(work.dataset)), planned.classes)
    return MixRecord(
        classes=planned.classes,
        shares=planned.shares,
        unweighted=work.unweighted,
        warnings=nothing_taken(planned, work.mix, dataset=work.dataset),
    )


def nothing_taken(planned: PlannedMix, mix: DatasetMix, *, dataset: str) -> tuple[str, ...]:
    """Return a warning for each source that the mix asks for and of which it has no document.

    None if sources without documents are left out: then the run file says that this may be.
    """
    if mix.missing == "leave_out":
        return ()
    taken = {one.source for one in planned.classes if one.documents}
    asked = {
        name: f"epochs = {one.whole_epochs:g}" if one.share is None else f"share = {one.share:g}"
        for name, one in mix.sources.items()
        if name not in taken and (one.share is None or one.share) and one.whole_epochs
    }
    return tuple(
        f"dataset {dataset!r}: mix: it has no document of source {name!r}, which has {said}: filters,"
        " deduplication or the validation split left none to train on, or its part is less than a"
        " document; see what was removed in the report, or write epochs = 0"
        for name, said in asked.items()
    )


def planned_again(workspace: Workspace, work: MixChoice) -> PlannedMix:
    """Return what the token store itself and the settings give, whatever whole documents miss.

    The audit of the rows holds shares to the tolerance, so here it refuses nothing.

    Raises:
        ConfigError: the mix cannot be met.
        FormatError: the token store is damaged.
    """
    lenient = replace(work, mix=work.mix.model_copy(update={"tolerance": 1.0}))
    return _planned(workspace, lenient, count_again(workspace, work.units))


def _planned(workspace: Workspace, work: MixChoice, counts: Sequence[ClassCounts]) -> PlannedMix:
    return plan_mix(counts, work.mix, dataset=work.dataset, seen=_seen(workspace, work, counts))


def _seen(
    workspace: Workspace, work: MixChoice, counts: Sequence[ClassCounts]
) -> dict[tuple[str, str, int], int]:
    """Return where the intervals of the stage before end."""
    if work.mix.after is None:
        return {}
    if work.after is None:
        return {one.key.order: BINS for one in counts}
    return {one.order: one.end for one in read_classes(workspace, work.after)}
