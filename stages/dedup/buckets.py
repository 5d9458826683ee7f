"""Buckets of equal keys, found in blocks: what is held follows the distinct keys, not the documents.

A partition of a band holds a bounded number of distinct keys, but one key may be that of any number of
documents: a page that stands a million times in a crawl. So the documents pass twice, block by block:
once to count keys, once to place each document in its bucket.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.byte_kernels import EMPTY, first_slot, free_slot, next_slot
from stages.kernels import lean_kernel

_MOST = (1 << 31) - 1
"""Up to which a key is counted: a string of words may stand still more often."""
KeyBlock = tuple[NDArray[np.uint64], NDArray[np.int64]]
"""Keys (N,) and documents (N,), ascending by document from block to block."""


@dataclass(frozen=True)
class SharedKeys:
    """The keys that more than one document has."""

    keys: NDArray[np.uint64]
    """(B,) ascending."""
    counts: NDArray[np.int64]
    """(B,) documents of each, at least 2 and at most 2^31 - 1."""
    slots: NDArray[np.int32]
    """(S,) a hash table: places of keys, -1 where there is none; more than half of it is empty."""

    def find(self, keys: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the place of each key, or -1: (N,) int32."""
        found = np.empty(len(keys), np.int32)
        _find(np.ascontiguousarray(keys), self.keys, self.slots, found)
        return found


def shared_keys(blocks: Iterable[KeyBlock], *, room: int = 0) -> SharedKeys:
    """Count the keys of all blocks in a hash table and return those that stand more than once.

    Args:
        blocks: of any length.
        room: distinct keys that the table has room for from the start; with more it grows.
    """
    table, counts = _table(room)
    used = 0
    for block, _ in blocks:
        keys, done = np.ascontiguousarray(block), 0
        while done < len(keys):
            if 2 * used >= len(table):
                smaller = table, counts
                table, counts = _table(used + len(keys) - done)
                _move(smaller, table, counts)
            used, done = _count((table, counts), used, keys, done)
    chosen = np.flatnonzero(counts > 1)
    chosen = chosen[np.argsort(table[chosen])]
    keys = table[chosen]
    slots = np.full(1 << (2 * len(keys)).bit_length(), EMPTY, np.int32)
    _fill_slots(keys, slots)
    return SharedKeys(keys, counts[chosen].astype(np.int64), slots)


def _table(keys: int) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Return an empty hash table of keys and their counts; less than half of it will be used."""
    slots = 1 << (2 * keys).bit_length()
    return np.empty(slots, np.uint64), np.zeros(slots, np.int32)


@lean_kernel
def _counted_slot(key: np.uint64, table: NDArray[np.uint64], counts: NDArray[np.int32]) -> np.uint64:
    """Return the slot of a key, or the empty one where it would lie. Keys are hashes already."""
    slot = first_slot(key, table)
    while counts[slot] > 0 and table[slot] != key:
        slot = next_slot(slot, table)
    return slot


@lean_kernel
def _count(
    counted: tuple[NDArray[np.uint64], NDArray[np.int32]],
    used: int,
    keys: NDArray[np.uint64],
    done: int,
) -> tuple[int, int]:
    """Count keys until half of the table is used; return its used slots, and the place of the next key.

    Args:
        counted: (S,) keys and counts, filled.
        used: slots of them.
        keys: (K,).
        done: keys that were counted.
    """
    table, counts = counted
    while done < len(keys) and 2 * used < len(table):
        slot = _counted_slot(keys[done], table, counts)
        used += counts[slot] == 0
        table[slot] = keys[done]
        counts[slot] += counts[slot] < _MOST
        done += 1
    return used, done


@lean_kernel
def _move(
    counted: tuple[NDArray[np.uint64], NDArray[np.int32]],
    table: NDArray[np.uint64],
    counts: NDArray[np.int32],
) -> None:
    """Put keys and counts into another table, which is empty."""
    keys, numbers = counted
    for place in range(len(keys)):
        if numbers[place] > 0:
            slot = _counted_slot(keys[place], table, counts)
            table[slot], counts[slot] = keys[place], numbers[place]


@lean_kernel
def _fill_slots(keys: NDArray[np.uint64], slots: NDArray[np.int32]) -> None:
    for bucket in range(len(keys)):
        slots[free_slot(keys[bucket], slots)] = bucket


@lean_kernel
def _find(
    wanted: NDArray[np.uint64],
    keys: NDArray[np.uint64],
    slots: NDArray[np.int32],
    found: NDArray[np.int32],
) -> None:
    for row in range(len(wanted)):
        key = wanted[row]
        slot = first_slot(key, slots)
        while slots[slot] != EMPTY and keys[slots[slot]] != key:
            slot = next_slot(slot, slots)
        found[row] = slots[slot]


class BucketFiller:
    """Places documents in their buckets, block after block in rank order.

    After the last block, `heads` holds the `limit` best-ranked documents of each bucket, bucket after
    bucket, ascending in each.

    Args:
        shared: the keys of the buckets.
        limit: best-ranked documents of a bucket that the others are compared with.
    """

    def __init__(self, shared: SharedKeys, limit: int) -> None:
        self._shared = shared
        self._limit = limit
        sizes = np.minimum(shared.counts, limit)
        self._starts = np.cumsum(sizes) - sizes
        self._seen = np.zeros(len(sizes), np.int64)
        self.heads = np.zeros(int(sizes.sum()), np.int64)

    def place(self, blocks: Iterable[KeyBlock]) -> Iterator[NDArray[np.int64]]:
        """Yield the members of each block: (M, 3) document, start and count of its slice of `heads`.

        Every document of a bucket is a member. The best-ranked one is compared with none.
        """
        for keys, documents in blocks:
            members = np.empty((len(keys), 3), np.int64)
            buckets = (self._shared.find(keys), self._starts, self._seen)
            count = _place(documents, buckets, self._limit, self.heads, members)
            yield members[:count]


@lean_kernel
def _place(
    documents: NDArray[np.int64],
    buckets: tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]],
    limit: int,
    heads: NDArray[np.int64],
    members: NDArray[np.int64],
) -> int:
    """Place documents in their buckets, and return how many members were written.

    Args:
        documents: (N,) ascending.
        buckets: of each document the place of its bucket, or -1; of each bucket where its heads begin,
            and how many documents were seen, which goes on counting.
        limit: best-ranked documents of a bucket that the others are compared with.
        heads: filled.
        members: (at least N, 3), filled.
    """
    places, starts, seen = buckets
    count = 0
    for row in range(len(documents)):
        bucket = places[row]
        if bucket < 0:
            continue
        rank = seen[bucket]
        seen[bucket] += 1
        if rank < limit:
            heads[starts[bucket] + rank] = documents[row]
        members[count, 0] = documents[row]
        members[count, 1] = starts[bucket]
        members[count, 2] = min(rank, limit)
        count += 1
    return count


class RankedBuckets:
    """Finds the best-ranked documents of each bucket when documents come in another order than ranks.

    After `rank`, `heads` holds the `limit` best ranks of each bucket, bucket after bucket, ascending in
    each; `place` then yields what `BucketFiller.place` does.

    Args:
        shared: the keys of the buckets.
        limit: best-ranked documents of a bucket that the others are compared with.
    """

    def __init__(self, shared: SharedKeys, limit: int) -> None:
        self._shared = shared
        self._sizes = np.minimum(shared.counts, limit)
        self._starts = np.cumsum(self._sizes) - self._sizes
        self.heads = np.full(int(self._sizes.sum()), np.iinfo(np.int64).max, np.int64)

    def rank(self, blocks: Iterable[KeyBlock]) -> None:
        """Find the heads; blocks hold keys and ranks."""
        for keys, ranks in blocks:
            _best(ranks, self._shared.find(keys), self._starts, self._sizes, self.heads)

    def place(self, blocks: Iterable[KeyBlock]) -> Iterator[NDArray[np.int64]]:
        """Yield the members of each block: (M, 3) row in the block, start and count of its slice."""
        for keys, ranks in blocks:
            places = self._shared.find(keys)
            rows = np.flatnonzero(places >= 0)
            members = np.empty((len(rows), 3), np.int64)
            members[:, 0] = rows
            members[:, 1] = self._starts[places[rows]]
            _count_better(ranks[rows], self._sizes[places[rows]], self.heads, members)
            yield members


@lean_kernel
def _best(
    ranks: NDArray[np.int64],
    places: NDArray[np.int32],
    starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    heads: NDArray[np.int64],
) -> None:
    """Insert ranks among the heads of their buckets, in place of worse ones."""
    for row in range(len(ranks)):
        bucket = places[row]
        if bucket < 0:
            continue
        own = heads[starts[bucket] : starts[bucket] + sizes[bucket]]
        place = len(own) - 1
        if own[place] <= ranks[row]:
            continue
        while place > 0 and own[place - 1] > ranks[row]:
            own[place] = own[place - 1]
            place -= 1
        own[place] = ranks[row]


@lean_kernel
def _count_better(
    ranks: NDArray[np.int64],
    sizes: NDArray[np.int64],
    heads: NDArray[np.int64],
    members: NDArray[np.int64],
) -> None:
    """Fill in how many heads of its bucket outrank each document."""
    for row in range(len(ranks)):
        low, high = members[row, 1], members[row, 1] + sizes[row]
        while low < high:
            middle = (low + high) // 2
            if heads[middle] < ranks[row]:
                low = middle + 1
            else:
                high = middle
        members[row, 2] = low - members[row, 1]
