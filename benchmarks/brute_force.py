"""Near-duplicates by brute force: every pair of documents at or above a threshold, without signatures.

`similar_pairs` misses none. Two sets with a Jaccard similarity of at least t share an element among the
first |A| - ceil(t |A|) + 1 of each, whatever the order of elements; with rare ones first, few pairs do.

Source: Chaudhuri, Ganti, Kaushik 2006, "A Primitive Operator for Similarity Joins in Data Cleaning"
(prefix filter).
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.dedup.jaccard import similarities
from stages.dedup.shingle_sets import ShingleSets, shingle_sets

_BATCH = 1 << 22
"""Pairs that are compared together."""


@dataclass(frozen=True)
class Ideal:
    """What the rule of deduplication decides when every pair is compared."""

    first: tuple[int, ...]
    """Of each document the first with the same text."""
    alike: dict[int, set[int]]
    """Of first documents those that are at or above the threshold."""
    removed: frozenset[int]


@dataclass(frozen=True)
class Judgement:
    """What a program removed, held to the ideal."""

    removed: int
    ideal: int
    """Removed by the rule."""
    found: int
    """Removed by both."""
    left: int
    """What the rule still removes of what the program kept; it may have kept another of two."""
    unmatched: int
    """Removed, though nothing at or above the threshold is kept."""

    @property
    def recall(self) -> float:
        """The share of what there is to remove that is not left."""
        return 1 - self.left / self.ideal if self.ideal else 1.0

    @property
    def precision(self) -> float:
        """The share of removed documents for which a similar one is kept."""
        return 1 - self.unmatched / self.removed if self.removed else 1.0


def sets_of(texts: Sequence[str], *, size: int) -> ShingleSets:
    """Return the shingles of texts."""
    data = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, data)], dtype=np.int64)
    parts = list(shingle_sets(np.frombuffer(b"".join(data), np.uint8), offsets, size=size))
    ends = np.cumsum([0, *(n for part in parts for n in np.diff(part.ptr).tolist())], dtype=np.int64)
    return ShingleSets(np.concatenate([part.values for part in parts]), ends)


def similar_pairs(sets: ShingleSets, *, threshold: float) -> list[tuple[int, int]]:
    """Return all pairs of sets (lower, higher number) at or above a threshold."""
    sizes = np.diff(sets.ptr)
    found: list[tuple[int, int]] = []
    for pairs in _sharing_prefixes(sets, threshold):
        low, high = (pairs >> 32).astype(np.int64), (pairs & 0xFFFFFFFF).astype(np.int64)
        smaller, larger = np.minimum(sizes[low], sizes[high]), np.maximum(sizes[low], sizes[high])
        close = smaller >= threshold * larger
        rows = low[close], high[close]
        alike = similarities(sets, sets, rows=rows, threshold=threshold) >= threshold
        found += zip(rows[0][alike].tolist(), rows[1][alike].tolist(), strict=True)
    return sorted(set(found))


def _sharing_prefixes(sets: ShingleSets, threshold: float) -> Iterator[NDArray[np.int64]]:
    """Yield the pairs that share one of their rarest shingles, each pair as one number, in batches."""
    _, places, counts = np.unique(sets.values, return_inverse=True, return_counts=True)
    rarity = np.argsort(np.argsort(counts, kind="stable"), kind="stable")[places]
    owners: list[NDArray[np.int64]] = []
    shingles: list[NDArray[np.int64]] = []
    for number, (start, end) in enumerate(zip(sets.ptr[:-1], sets.ptr[1:], strict=True)):
        size = int(end - start)
        prefix = np.sort(rarity[start:end])[: size - math.ceil(threshold * size - 1e-9) + 1]
        shingles.append(prefix)
        owners.append(np.full(len(prefix), number, np.int64))
    shingle, owner = np.concatenate(shingles), np.concatenate(owners)
    order = np.lexsort((owner, shingle))
    shingle, owner = shingle[order], owner[order]
    borders = np.flatnonzero(np.diff(shingle)) + 1
    held: list[NDArray[np.int64]] = []
    count = 0
    for group in np.split(owner, borders):
        for place in range(1, len(group)):
            held.append(group[:place] << 32 | group[place])
            count += place
        if count > _BATCH:
            yield np.unique(np.concatenate(held))
            held, count = [], 0
    if held:
        yield np.unique(np.concatenate(held))


def ideal_of(texts: Sequence[str], *, size: int, threshold: float) -> Ideal:
    """Decide by the rule: equal texts collapse; then one goes if a kept earlier one is alike."""
    known: dict[str, int] = {}
    first = tuple(known.setdefault(text, number) for number, text in enumerate(texts))
    firsts = sorted(set(first))
    alike: dict[int, set[int]] = {number: set() for number in firsts}
    for low, high in similar_pairs(sets_of([texts[n] for n in firsts], size=size), threshold=threshold):
        alike[firsts[low]].add(firsts[high])
        alike[firsts[high]].add(firsts[low])
    return Ideal(first, alike, _by_rule(first, alike, range(len(texts))))


def _by_rule(first: Sequence[int], alike: dict[int, set[int]], numbers: Iterable[int]) -> frozenset[int]:
    """Return which of some documents, in order, are equal to an earlier one or alike to a kept one."""
    seen: set[int] = set()
    kept: set[int] = set()
    removed: set[int] = set()
    for number in numbers:
        text = first[number]
        if text in seen or alike[text] & kept:
            removed.add(number)
        else:
            kept.add(text)
        seen.add(text)
    return frozenset(removed)


def judge(ideal: Ideal, removed: frozenset[int]) -> Judgement:
    """Hold what a program removed to the rule."""
    kept = [number for number in range(len(ideal.first)) if number not in removed]
    kept_of = {ideal.first[number] for number in kept}
    unmatched = sum(
        not ({ideal.first[number]} | ideal.alike[ideal.first[number]]) & kept_of for number in removed
    )
    return Judgement(
        removed=len(removed),
        ideal=len(ideal.removed),
        found=len(removed & ideal.removed),
        left=len(_by_rule(ideal.first, ideal.alike, kept)),
        unmatched=unmatched,
    )
