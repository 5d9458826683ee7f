"""Weights within a source: what a source with weights gives and takes concerns no other source.

    without weights   how many tokens each source with epochs has, and the copies of every source
                      whose documents all have one weight
    with weights      how the tokens of one source are divided among its own documents

So the copies of other sources are those of the mix without the weights, to the last one. A level that
reaches `max_epochs` leaves its excess to the other documents of its source. A document with a weight of
0 or less is treated as if it were not there.

`language_alpha` balances all sources with epochs together. Here too weights stay within: the size of a
language is what the weights of this source make of it, and the plain tokens of the other sources.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from stages.mixing.classes import NO_WEIGHT, ClassCounts, ClassKey, weight_of
from stages.mixing.config import DatasetMix
from stages.mixing.pools import (
    ClassTokens,
    Pool,
    epochs_asked,
    epochs_of,
    epochs_pool,
    language_factors,
    rounded,
    source_scales,
)


@dataclass(frozen=True)
class WeightedPool:
    """The classes of one source with weights, to be cut by themselves."""

    counts: tuple[ClassCounts, ...]
    pool: Pool


@dataclass(frozen=True)
class SeparatedPool:
    """The pool of sources with epochs, in parts that do not touch each other."""

    plain: tuple[ClassCounts, ...]
    """The classes of all sources without weights, one for each language."""
    pool: Pool
    """Of these."""
    kept: tuple[ClassCounts, ...]
    """The classes as they are of sources that the plain pool decides."""
    weighted: tuple[WeightedPool, ...]


def weighted_sources(classes: Sequence[ClassTokens], mix: DatasetMix) -> list[str]:
    """Return the sources whose weights could change another: those of several levels beside others.

    Only sources with epochs share an amount of tokens; a source with a share is alone.
    """
    levels: dict[str, set[int]] = {}
    taken = {name for name, times in epochs_asked(mix).items() if times}
    for one in classes:
        if one.counts and one.key.source in taken:
            levels.setdefault(one.key.source, set()).add(one.key.level)
    one_level = len(levels) == 1
    return [] if one_level else sorted(name for name, found in levels.items() if len(found) > 1)


def without_levels(counts: Sequence[ClassCounts]) -> list[ClassCounts]:
    """Return the classes of documents of any weight above 0, all with level 0."""
    found: dict[tuple[str, str], list[ClassCounts]] = {}
    for one in counts:
        if one.key.level != NO_WEIGHT:
            found.setdefault((one.key.source, one.key.language), []).append(one)
    return [_added(source, language, own) for (source, language), own in sorted(found.items())]


def _added(source: str, language: str, own: Sequence[ClassCounts]) -> ClassCounts:
    """Return one class of the documents of several."""
    every = np.concatenate([one.bins for one in own])
    bins, place = np.unique(every, return_inverse=True)
    sums = np.zeros((2, len(bins)), np.int64)
    for row, name in enumerate(("documents", "tokens")):
        np.add.at(sums[row], place, np.concatenate([getattr(one, name) for one in own]))
    return ClassCounts(ClassKey(source=source, language=language), bins, sums[0], sums[1])


def tokens_of(counts: Sequence[ClassCounts]) -> list[ClassTokens]:
    """Return the tokens of each class."""
    return [ClassTokens(one.key, int(one.tokens.sum())) for one in counts]


def separated(
    counts: Sequence[ClassCounts], mix: DatasetMix, weighted: Sequence[str], target: Fraction
) -> SeparatedPool:
    """Return the parts of the pool of sources with epochs.

    Args:
        counts: all classes of these sources.
        mix: of the dataset.
        weighted: names of sources with weights.
        target: tokens of the pool.
    """
    plain, epochs = without_levels(counts), epochs_asked(mix)
    pool = epochs_pool(tokens_of(plain), epochs, mix, target)
    seen = epochs_of(pool)
    targets = dict.fromkeys(weighted, Fraction(0))
    for one, times in zip(pool.classes, seen, strict=True):
        if one.key.source in targets:
            targets[one.key.source] += one.tokens * times
    parts = []
    for name in weighted:
        own = tuple(one for one in counts if one.key.source == name)
        parts.append(WeightedPool(own, _within(own, mix, pool, targets[name])))
    kept = tuple(one for one in counts if one.key.source not in weighted)
    return SeparatedPool(tuple(plain), pool, kept, tuple(parts))


def _within(own: Sequence[ClassCounts], mix: DatasetMix, plain: Pool, target: Fraction) -> Pool:
    """Return the pool of one source with weights.

    Args:
        own: its classes.
        mix: of the dataset.
        plain: the pool of all sources with epochs, without weights.
        target: tokens that the source has there.
    """
    classes, (name, *_) = tokens_of(own), (one.key.source for one in own)
    epochs = epochs_asked(mix)
    levels = {one.key.level: rounded(weight_of(one.key.level)) for one in classes}
    scale = source_scales(classes, levels)[name]
    sizes: dict[str, Fraction] = {}
    for one in plain.classes:
        if one.key.source != name:
            _add(sizes, one.key.language, one.tokens * epochs[one.key.source])
    for one in classes:
        weighted = one.tokens * epochs[name] * scale * levels[one.key.level]
        _add(sizes, one.key.language, weighted)
    factors = language_factors(sizes, mix.language_alpha)
    weights = tuple(levels[one.key.level] * factors[one.key.language] for one in classes)
    most = Fraction(str(mix.sources[name].most_epochs))
    return Pool(tuple(range(len(classes))), tuple(classes), weights, (most,) * len(classes), target)


def _add(sums: dict[str, Fraction], name: str, amount: Fraction) -> None:
    sums[name] = sums.get(name, Fraction(0)) + amount


def single_levels(counts: Sequence[ClassCounts], mix: DatasetMix) -> Mapping[tuple[str, str], int]:
    """Return the level above 0 of each source and language that has one; of sources that are taken."""
    epochs = epochs_asked(mix)
    return {
        (one.key.source, one.key.language): one.key.level
        for one in counts
        if one.key.level != NO_WEIGHT and epochs[one.key.source]
    }
