"""Verify, interleaved rows: of which source each row is, and which row stands where in an epoch.

Plain counting and whole numbers of any size, row by row; none of the code that lays out or loads rows.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import xxhash
from numpy.typing import NDArray

from stages.findings import Finding
from stages.interleaving import LEVELS
from stages.loading.order import shuffled
from stages.store.manifest import Manifest

_CHECK = "source_rows"
_REACH = 1 << 10
"""Among so many neighbours there are more than 8 coprime to any number of rows."""
_RANKED = (*range(0, LEVELS, 2), *range(LEVELS - 1, 0, -2))
"""How full the rows of a source are, in the order in which their ranks are counted."""


def check_source_rows(
    segments: Mapping[str, NDArray[np.integer]],
    said: Mapping[str, Sequence[int]],
    *,
    sources: NDArray[np.int64],
    names: Sequence[str],
    row_length: int,
) -> Iterator[Finding]:
    """Each row holds documents of one source, and the manifest has the numbers of rows of each.

    Args:
        segments: row_ptr (R + 1,), doc and length (S,).
        said: of each source with rows, how many rows there are by how full they are.
        sources: (D,) the number of the source of each document.
        names: of the sources.
        row_length: tokens in a row.
    """
    found: Counter[tuple[str, int]] = Counter()
    ptr, mixed = segments["row_ptr"].tolist(), 0
    owners, lengths = sources[segments["doc"]].tolist(), segments["length"].tolist()
    for begin, end in itertools.pairwise(ptr):
        mixed += len(set(owners[begin:end])) != 1
        filled = sum(lengths[begin:end]) * LEVELS // row_length
        found[names[owners[begin]], min(filled, LEVELS - 1)] += 1
    if mixed:
        yield Finding(_CHECK, f"{mixed:,} rows hold documents of several sources")
    wanted = {name: tuple(found[name, n] for n in range(LEVELS)) for name, _ in sorted(found)}
    if dict(said) != wanted:
        yield Finding(_CHECK, f"the manifest says {dict(said)}, but the rows are {wanted}")


def epoch_rows(manifest: Manifest, positions: Sequence[int], *, epoch: int) -> list[int]:
    """Return the rows, by number in stored order, that stand at some positions of a shuffled epoch."""
    shards = [shard.source_rows or {} for shard in manifest.shards]
    if manifest.interleave == "shuffle":
        size = sum(shard.rows for shard in manifest.shards)
        places = np.array(positions, np.int64)
        return list(map(int, shuffled(places, size, seed=manifest.seed, epoch=epoch)))
    totals: dict[str, list[int]] = {name: [0] * LEVELS for shard in shards for name in sorted(shard)}
    for shard in shards:
        for name, rows in shard.items():
            totals[name] = [a + b for a, b in zip(totals[name], rows, strict=True)]
    return [_row(manifest, totals, position, epoch) for position in positions]


def _row(manifest: Manifest, totals: Mapping[str, Sequence[int]], position: int, epoch: int) -> int:
    names = sorted(totals)
    source, among = _item([sum(totals[name]) for name in names], position)
    name = names[source]
    size = sum(totals[name])
    level, number = _part(totals[name], among * _step(size) % size)
    seed = xxhash.xxh3_64_intdigest(name.encode() + bytes([level]), seed=manifest.seed)
    order = shuffled(np.array([number]), totals[name][level], seed=seed, epoch=epoch)
    row, first = int(order[0]), 0
    for shard in manifest.shards:
        own = shard.source_rows or {}
        here = own[name][level] if name in own else 0
        if row < here:
            size = sum(own[name])
            before = sum(own[name][part] for part in itertools.takewhile(level.__ne__, _RANKED))
            among = (before + row) * pow(_step(size), -1, size) % size
            sources = sorted(own)
            return first + _place([sum(own[each]) for each in sources], sources.index(name), among)
        row, first = row - here, first + shard.rows
    raise AssertionError("a class has as many rows as its shards")


def _step(size: int) -> int:
    """Return the step between the ranks of a source's rows: of 8, that of the least sum of quotients."""
    first = (math.isqrt(5 * size * size) - size) // 2
    found = [number for number in range(first, min(size, first + _REACH)) if math.gcd(number, size) == 1]
    sums = [(_sum_of_quotients(number, size), number) for number in found[:8]]
    return min(sums)[1]


def _sum_of_quotients(number: int, size: int) -> int:
    """Return the sum of the quotients of a continued fraction."""
    if not number:
        return 0
    quotient, rest = divmod(size, number)
    return quotient + _sum_of_quotients(rest, number)


def _part(counts: Sequence[int], rank: int) -> tuple[int, int]:
    """Return in which of some parts a rank lies, and how far from the part's beginning."""
    for part in _RANKED:
        if rank < counts[part]:
            return part, rank
        rank -= counts[part]
    raise AssertionError("a rank lies in a part")


def _had(counts: Sequence[int], kind: int, place: int) -> int:
    """Return how many items of a kind stand before a place."""
    left = sum(counts)
    for one in sorted(range(len(counts)), key=lambda number: (-counts[number], number)):
        had = place * counts[one] // left
        if one == kind:
            return had
        place, left = place - had, left - counts[one]
    raise AssertionError("no such kind")


def _item(counts: Sequence[int], place: int) -> tuple[int, int]:
    """Return the kind of the item at a place, and its number among these."""
    for kind, count in enumerate(counts):
        if count and _had(counts, kind, place + 1) > _had(counts, kind, place):
            return kind, _had(counts, kind, place)
    raise AssertionError("a place has an item")


def _place(counts: Sequence[int], kind: int, number: int) -> int:
    """Return where an item stands: the last place that has so many of its kind before it."""
    low, high = 0, sum(counts) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _had(counts, kind, middle) <= number else (low, middle - 1)
    return low
