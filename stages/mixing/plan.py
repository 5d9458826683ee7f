"""Planning a mix: from the tokens that there are and the settings to an interval for each class.

The pools (pools.py) say how often each class is seen. An interval ends where a bin does, so a class has
a little more or less than that. The classes of a pool are cut in the order of their tokens, and what one
has too much, the next has less. So a pool is off by at most half of the largest bin of any of its
classes, and mostly by less than half a bin of its largest class. A class whose epochs are a whole number
has exactly these: `epochs = 1` is every document once.

Weights of documents change nothing outside of their source (weights_in_source.py). A later generation
keeps its new documents (later_generations.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from stages.mixing.classes import BINS, ClassCounts, MixClass
from stages.mixing.config import DatasetMix
from stages.mixing.later_generations import LaterGeneration, keeps_earlier, later_pools, without_empty
from stages.mixing.pools import (
    ClassTokens,
    DrawnSource,
    Pool,
    drawn_sources,
    epochs_asked,
    epochs_of,
    epochs_pool,
    pools_of,
    tokens_by_source,
    without_missing,
)
from stages.mixing.refusals import (
    require_epochs,
    require_possible,
    require_total,
    require_within_tolerance,
    total_or_refusal,
)
from stages.mixing.weights_in_source import (
    separated,
    single_levels,
    tokens_of,
    weighted_sources,
    without_levels,
)

Ends = Mapping[tuple[str, str, int], int]
"""By class, where the interval of a stage ends."""


@dataclass(frozen=True)
class MixStage:
    """A stage of a curriculum before another."""

    mix: DatasetMix
    later: LaterGeneration | None = None


@dataclass(frozen=True)
class Planning:
    """By which rules a mix is planned, and what it comes after."""

    within: bool = True
    """Whether weights act within their source alone; those of earlier versions may change others."""
    strict: bool = True
    """Whether a plan is refused that misses a bound to which earlier versions did not hold it."""
    later: LaterGeneration | None = None
    """Of a later generation by the rules for these."""
    plain: Ends = field(default_factory=dict)
    """Where the stage before would end without weights."""
    largest: int | None = None
    """Tokens of the largest training document; None if only its bin is known."""


TODAY = Planning()


@dataclass(frozen=True)
class PlannedMix:
    """What a dataset takes of each class."""

    classes: tuple[MixClass, ...]
    """In the order of source, language and level; all that have documents."""
    shares: dict[str, float]
    """Asked for: the part of the tokens of each source that has a share. The mix may be off by half a
    bin."""
    drawn: tuple[DrawnSource, ...] = ()
    """What was asked of each source with epochs, and how far a draw may be off."""
    epochs: Mapping[tuple[str, str, int], Fraction] = field(default_factory=dict, compare=False)
    """By class, how often it is to be seen, before intervals end where bins do."""

    @property
    def tokens(self) -> int:
        """Of all copies."""
        return sum(one.tokens for one in self.classes)


def plan_mix(
    counts: Sequence[ClassCounts],
    mix: DatasetMix,
    *,
    dataset: str,
    seen: Ends | None = None,
    planning: Planning = TODAY,
) -> PlannedMix:
    """Return what a dataset takes of each class of training documents.

    Args:
        counts: all classes that there are.
        mix: of the dataset; its `sources` name every source of the run.
        dataset: its name, for messages.
        seen: by class, where the interval of the stage before ends.
        planning: the rules, and what the dataset comes after.

    Raises:
        ConfigError: a source has too little for what is asked, or whole documents miss its share by more
            than the tolerance; says what is possible and what to change.
    """
    ordered = sorted(counts, key=lambda one: one.key.order)
    tokens, own = tokens_of(ordered), mix
    asked = {name: source.share for name, source in mix.sources.items() if source.share is not None}
    if planning.later is not None and keeps_earlier(mix, planning.later):
        own = without_empty(tokens, mix)
        pools = later_pools(tokens, mix, planning.later)
        given = _given(tokens, own)
        pools[""] = epochs_pool(tokens, epochs_asked(own), own, given)
    else:
        if mix.missing == "leave_out":
            own = without_missing(tokens, mix)
            asked = {name: one.share for name, one in own.sources.items() if one.share is not None}
        total = total_or_refusal(tokens, own, dataset)
        pools = pools_of(tokens, own, total)
        require_possible(tokens, own, pools, dataset=dataset)
        if planning.strict:
            require_epochs(tokens, own, pools[""], dataset=dataset)
    classes, epochs = _cut_pools(ordered, own, pools, seen=seen or {}, planning=planning)
    classes.sort(key=lambda one: one.order)
    require_within_tolerance(classes, own, dataset)
    if planning.strict:
        bins = max((int(one.tokens.max(initial=0)) for one in ordered), default=0)
        largest = bins if planning.largest is None else planning.largest
        require_total(classes, own, largest=largest, dataset=dataset)
    return PlannedMix(tuple(classes), asked, drawn_sources(ordered, own, epochs), epochs)


def _given(tokens: Sequence[ClassTokens], mix: DatasetMix) -> Fraction:
    """Return the tokens that epochs alone give."""
    there = tokens_by_source(tokens)
    epochs = epochs_asked(mix).items()
    return sum((there.get(name, 0) * times for name, times in epochs), Fraction(0))


def _cut_pools(
    ordered: Sequence[ClassCounts],
    mix: DatasetMix,
    pools: Mapping[str, Pool],
    *,
    seen: Ends,
    planning: Planning,
) -> tuple[list[MixClass], dict[tuple[str, str, int], Fraction]]:
    """Return the classes with their intervals, and by class how often it is to be seen."""
    classes, found = list[MixClass](), dict[tuple[str, str, int], Fraction]()
    weighted = weighted_sources(tokens_of(ordered), mix) if planning.within else []
    for name, pool in pools.items():
        own = [ordered[row] for row in pool.rows]
        if not name and weighted:
            parts, epochs = _cut_separately(own, mix, pool, seen=seen, planning=planning)
            classes, found = classes + parts, found | epochs
            continue
        times = epochs_of(pool)
        classes += _intervals(own, pool, times, seen)
        found |= {one.key.order: often for one, often in zip(own, times, strict=True)}
    return classes, found


def _cut_separately(
    own: Sequence[ClassCounts], mix: DatasetMix, pool: Pool, *, seen: Ends, planning: Planning
) -> tuple[list[MixClass], dict[tuple[str, str, int], Fraction]]:
    """Return the same of sources with epochs, where weights of one change no other."""
    names = weighted_sources(tokens_of(own), mix)
    parts = separated(own, mix, names, pool.target)
    levels = single_levels(parts.kept, mix)
    before = {
        one.key.order: _plain_begin(one, own, levels, seen=seen, planning=planning)
        for one in parts.plain
    }
    times = epochs_of(parts.pool)
    cut = _intervals(parts.plain, parts.pool, times, before)
    classes, found = list[MixClass](), dict[tuple[str, str, int], Fraction]()
    often = {one.key.order[:2]: epochs for one, epochs in zip(parts.plain, times, strict=True)}
    for one in cut:
        if (level := levels.get(one.order[:2])) is not None:
            classes.append(one.model_copy(update={"level": level}))
            found[*one.order[:2], level] = often[one.order[:2]]
    for counted in parts.kept:
        if levels.get(counted.key.order[:2]) != counted.key.level:  # no weight, or no epochs
            classes.append(_interval(counted, seen.get(counted.key.order, 0), Fraction(0)))
    for part in parts.weighted:
        epochs = epochs_of(part.pool)
        classes += _intervals(part.counts, part.pool, epochs, seen)
        found |= {one.key.order: own for one, own in zip(part.counts, epochs, strict=True)}
    return classes, found


def _plain_begin(
    one: ClassCounts,
    own: Sequence[ClassCounts],
    levels: Mapping[tuple[str, str], int],
    *,
    seen: Ends,
    planning: Planning,
) -> int:
    """Return where a class without weights begins: where its source ended in the stage before."""
    place = one.key.order[:2]
    if place in levels:
        return seen.get((*place, levels[place]), 0)
    if one.key.order in planning.plain:
        return planning.plain[one.key.order]
    return min(seen.get(other.key.order, 0) for other in own if other.key.order[:2] == place)


def plain_ends(counts: Sequence[ClassCounts], stages: Sequence[MixStage | None]) -> Ends:
    """Return where the last of some stages would end without weights.

    Args:
        counts: all classes that there are.
        stages: the first one first; None has no mix and shows every document once.
    """
    plain = without_levels(counts)
    ends: Ends = {}
    for stage in stages:
        if stage is None:
            ends = {one.key.order: ends.get(one.key.order, 0) + BINS for one in plain}
            continue
        lenient = Planning(strict=False, later=stage.later)
        mix = stage.mix.model_copy(update={"tolerance": 1.0})
        planned = plan_mix(plain, mix, dataset="", seen=ends, planning=lenient)
        ends = {one.order: one.end for one in planned.classes}
    return ends


def _intervals(
    counts: Sequence[ClassCounts], pool: Pool, epochs: Sequence[Fraction], seen: Ends
) -> list[MixClass]:
    """Return the classes of a pool with their intervals; those of few tokens first."""
    order = sorted(range(len(counts)), key=lambda row: (pool.classes[row].tokens, counts[row].key.order))
    carried, found = Fraction(0), []
    for row in order:
        one, tokens = counts[row], pool.classes[row].tokens
        whole = epochs[row].denominator == 1
        wanted = tokens * epochs[row] if whole else tokens * epochs[row] + carried
        wanted = min(wanted, Fraction(tokens * ceil(pool.most[row])))
        if epochs[row] >= 1 and pool.least:  # every document, whatever the others have too much
            wanted = max(wanted, Fraction(tokens))
        made = _interval(one, seen.get(one.key.order, 0), wanted)
        if not whole:
            carried += tokens * epochs[row] - made.tokens
        found.append(made)
    return found


def _interval(counts: ClassCounts, begin: int, wanted: Fraction) -> MixClass:
    """Return the interval from a place on whose tokens are nearest to those wanted."""
    documents, tokens = int(counts.documents.sum()), int(counts.tokens.sum())
    first = int(np.searchsorted(counts.bins, begin % BINS))  # the bins from there on come first
    places = _turned((counts.bins - begin) % BINS, first)
    passes, bins, part = 0, 0, 0
    if tokens and wanted > 0:
        passes = int(wanted // tokens)
        rest = wanted - passes * tokens
        sums = np.concatenate([[0], np.cumsum(_turned(counts.tokens, first))])
        row = int(np.searchsorted(sums, ceil(rest))) - 1  # of the bin with which there is enough
        if row >= 0:
            less, more = int(sums[row]), int(sums[row + 1])
            nearer = rest - less < more - rest
            bins, part = (int(places[row]), less) if nearer else (int(places[row]) + 1, more)
    taken = _turned(counts.documents, first)[: np.searchsorted(places, bins)]
    return MixClass(
        **counts.key.model_dump(),
        begin=begin,
        end=begin + passes * BINS + bins,
        available_documents=documents,
        available_tokens=tokens,
        documents=passes * documents + int(taken.sum()),
        tokens=passes * tokens + part,
    )


def _turned(values: NDArray[np.int64], first: int) -> NDArray[np.int64]:
    """Return values from a place on, and behind them those before it."""
    return np.concatenate([values[first:], values[:first]]) if first else values
