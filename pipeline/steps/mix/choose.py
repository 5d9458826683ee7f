"""Choosing: the interval of each class, from the counts of all units."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import Field

from pipeline.engine.tasks import Workspace
from pipeline.steps.mix.count import MixUnit, count_again, read_counts
from pipeline.steps.mix.intervals import mix_key, read_classes, write_classes
from pipeline.steps.records import StepRecord
from stages.mixing.classes import BINS, ClassCounts, MixClass
from stages.mixing.config import DatasetMix
from stages.mixing.later_generations import LaterGeneration, LaterShare, later_shares
from stages.mixing.plan import Ends, MixStage, PlannedMix, Planning, plain_ends, plan_mix

MIX_NAME = "mix"
"""The step's name, in front of that of its dataset."""
WITHIN = "weights act within their source"
LATER = "a later generation keeps its documents"
"""Names of the rules that came later, as messages and fingerprints have them."""


@dataclass(frozen=True)
class MixChoice:
    """One dataset whose units are all counted."""

    dataset: str
    units: tuple[MixUnit, ...]
    mix: DatasetMix
    after: str | None
    """The stage before it, if that has a mix; without one it has seen every document once."""
    unweighted: int
    rules: tuple[str, ...] = ()
    """Later rules by which it is planned."""
    later: LaterGeneration | None = None
    """Of a later generation by the rule for these."""
    stages: tuple[MixStage | None, ...] = ()
    """All stages before it, the first one first; None has no mix."""
    largest: int | None = None
    """Tokens of the largest training document, if that was counted."""


class MixRecord(StepRecord):
    """What a dataset takes of each class of documents."""

    classes: tuple[MixClass, ...]
    shares: dict[str, float]
    """Asked for, of the sources that have a share."""
    unweighted: int = 0
    """Training documents without a number where their weight should be: they have weight 1."""
    rules: tuple[str, ...] | None = None
    """Later rules by which it was planned; None of earlier versions, which knew of none."""
    earlier: dict[str, int] = Field(default_factory=dict)
    """Tokens of each source in the mixes of earlier generations, of a later one with shares."""
    later: tuple[LaterShare, ...] = ()
    """Each source alone and over all generations, likewise."""

    @property
    def documents(self) -> int:
        """Copies of documents."""
        return sum(one.documents for one in self.classes)

    @property
    def tokens(self) -> int:
        """Of these copies."""
        return sum(one.tokens for one in self.classes)


def tokens_by_source(record: MixRecord) -> dict[str, int]:
    """Return the tokens that a mix takes of each source."""
    found: dict[str, int] = {}
    for one in record.classes:
        found[one.source] = found.get(one.source, 0) + one.tokens
    return found


def choose_mix(workspace: Workspace, work: MixChoice) -> MixRecord:
    """Plan the mix of a dataset and write it.

    Raises:
        ConfigError: it cannot be met.
    """
    planned = _planned(workspace, work, read_counts(workspace, work.units))
    write_classes(workspace.create(mix_key(work.dataset)), planned.classes)
    earlier = {} if work.later is None else dict(work.later.earlier)
    shares = () if work.later is None else later_shares(planned.classes, work.mix, earlier)
    return MixRecord(
        classes=planned.classes,
        shares=planned.shares,
        unweighted=work.unweighted,
        rules=work.rules,
        earlier=earlier,
        later=shares,
        warnings=(
            *nothing_taken(planned, work.mix, dataset=work.dataset),
            *shares_off(shares, work.mix, dataset=work.dataset),
        ),
    )


def shares_off(shares: Sequence[LaterShare], mix: DatasetMix, *, dataset: str) -> tuple[str, ...]:
    """Return a warning for each source whose share over all generations is further off than allowed."""
    off = (one for one in shares if one.share_asked is not None)
    found = []
    for one in off:
        asked = one.share_asked or 0.0
        if abs(one.share_all - asked) <= mix.tolerance:
            continue
        left = f"; {one.left_out:,} of its new documents are left out" if one.left_out else ""
        ways = (
            'raise max_epochs of the sources that are scarce, or set mix.later = "strict"'
            if mix.later == "keep"
            else 'set mix.later = "keep"'
        )
        found.append(
            f"dataset {dataset!r}: mix: source {one.source!r} is to be {asked:g} of the tokens. It has"
            f" {one.share:.2%} of this generation and {one.share_all:.2%} of all generations, and"
            f" mix.tolerance = {mix.tolerance:g}{left}; add data of the sources that have too little, or"
            f" {ways}"
        )
    return tuple(found)


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


def planned_again(workspace: Workspace, work: MixChoice) -> tuple[PlannedMix, int | None]:
    """Return what the token store itself and the settings give, and the largest document's tokens.

    The audit of the rows holds shares to the tolerance, so here it refuses nothing.

    Raises:
        ConfigError: the mix cannot be met.
        FormatError: the token store is damaged.
    """
    counts, largest = count_again(workspace, work.units)
    lenient = replace(work, mix=work.mix.model_copy(update={"tolerance": 1.0}), largest=largest)
    return _planned(workspace, lenient, counts, strict=False), largest


def _planned(
    workspace: Workspace, work: MixChoice, counts: Sequence[ClassCounts], *, strict: bool = True
) -> PlannedMix:
    planning = Planning(
        within=WITHIN in work.rules,
        strict=strict,
        later=work.later,
        plain=plain_ends(counts, work.stages) if WITHIN in work.rules else {},
        largest=work.largest,
    )
    seen = _seen(workspace, work, counts)
    return plan_mix(counts, work.mix, dataset=work.dataset, seen=seen, planning=planning)


def _seen(workspace: Workspace, work: MixChoice, counts: Sequence[ClassCounts]) -> Ends:
    """Return where the intervals of the stage before end."""
    if work.mix.after is None:
        return {}
    if work.after is None:
        return {one.key.order: BINS for one in counts}
    return {one.order: one.end for one in read_classes(workspace, work.after)}


def later_of(record: MixRecord, replays: Mapping[str, str]) -> LaterGeneration | None:
    """Return what a finished mix came after, if it followed the rule for later generations.

    Args:
        record: of the mix.
        replays: the sources that are earlier runs.
    """
    if LATER not in (record.rules or ()):
        return None
    return LaterGeneration(record.earlier, frozenset(replays))
