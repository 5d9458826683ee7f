"""Planning a mix: from the tokens that there are and the settings to an interval for each class.

The pools (pools.py) say how often each class is seen. An interval ends where a bin does, so a class has
a little more or less than that. The classes of a pool are cut in the order of their tokens, and what one
has too much, the next has less. So a pool is off by at most half of the largest bin of any of its
classes, and mostly by less than half a bin of its largest class. A class whose epochs are a whole number
has exactly these: `epochs = 1` is every document once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from stages.mixing.classes import BINS, ClassCounts, MixClass
from stages.mixing.config import DatasetMix
from stages.mixing.pools import ClassTokens, Pool, epochs_of, pools_of, without_missing
from stages.mixing.refusals import require_possible, require_within_tolerance, total_or_refusal


@dataclass(frozen=True)
class PlannedMix:
    """What a dataset takes of each class."""

    classes: tuple[MixClass, ...]
    """In the order of source, language and level; all that have documents."""
    shares: dict[str, float]
    """Asked for: the part of the tokens of each source that has a share. The mix may be off by half a
    bin."""

    @property
    def tokens(self) -> int:
        """Of all copies."""
        return sum(one.tokens for one in self.classes)


def plan_mix(
    counts: Sequence[ClassCounts],
    mix: DatasetMix,
    *,
    dataset: str,
    seen: Mapping[tuple[str, str, int], int] | None = None,
) -> PlannedMix:
    """Return what a dataset takes of each class of training documents.

    Args:
        counts: all classes that there are.
        mix: of the dataset; its `sources` name every source of the run.
        dataset: its name, for messages.
        seen: by class, where the interval of the stage before ends.

    Raises:
        ConfigError: a source has too little for what is asked, or whole documents miss its share by more
            than the tolerance; says what is possible and what to change.
    """
    ordered = sorted(counts, key=lambda one: one.key.order)
    tokens = [ClassTokens(one.key, int(one.tokens.sum())) for one in ordered]
    if mix.missing == "leave_out":
        mix = without_missing(tokens, mix)
    total = total_or_refusal(tokens, mix, dataset)
    pools = pools_of(tokens, mix, total)
    require_possible(tokens, mix, pools, dataset=dataset)
    classes: list[MixClass] = []
    for pool in pools.values():
        own = [ordered[row] for row in pool.rows]
        classes += _intervals(own, pool, epochs_of(pool), seen or {})
    classes.sort(key=lambda one: one.order)
    asked = {name: source.share for name, source in mix.sources.items() if source.share is not None}
    require_within_tolerance(classes, mix, dataset)
    return PlannedMix(tuple(classes), asked)


def _intervals(
    counts: Sequence[ClassCounts],
    pool: Pool,
    epochs: Sequence[Fraction],
    seen: Mapping[tuple[str, str, int], int],
) -> list[MixClass]:
    """Return the classes of a pool with their intervals; those of few tokens first."""
    order = sorted(range(len(counts)), key=lambda row: (pool.classes[row].tokens, counts[row].key.order))
    carried, found = Fraction(0), []
    for row in order:
        one, tokens = counts[row], pool.classes[row].tokens
        whole = epochs[row].denominator == 1
        wanted = tokens * epochs[row] if whole else tokens * epochs[row] + carried
        made = _interval(
            one, seen.get(one.key.order, 0), min(wanted, Fraction(tokens * ceil(pool.most[row])))
        )
        if not whole:
            carried = wanted - made.tokens
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
