"""Buckets of equal keys, found in blocks: what is held follows the distinct keys, not the documents.

A piece of a band holds a bounded number of distinct keys, but one key may be that of any number of
documents: a page that stands a million times in a crawl. So the documents pass twice, block by block:
once to count keys, once to place each document in its bucket.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.kernels import lean_kernel

KeyBlock = tuple[NDArray[np.uint64], NDArray[np.int64]]
"""Keys (N,) and documents (N,), ascending by document from block to block."""


@dataclass(frozen=True)
class SharedKeys:
    """The keys that more than one document has."""

    keys: NDArray[np.uint64]
    """(B,) ascending."""
    counts: NDArray[np.int64]
    """(B,) documents of each, at least 2."""
    slots: NDArray[np.int32]
    """(S,) a hash table: places of keys, -1 where there is none; more than half of it is empty."""

    def find(self, keys: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the place of each key, or -1: (N,) int32."""
        found = np.empty(len(keys), np.int32)
        _find(np.ascontiguousarray(keys), self.keys, self.slots, found)
        return found


def shared_keys(blocks: Iterable[KeyBlock]) -> SharedKeys:
    """Count the keys of all blocks and give those that stand more than once."""
    keys, counts = np.empty(0, np.uint64), np.empty(0, np.int64)
    for block, _ in blocks:
        ordered = np.sort(block)
        most = len(keys) + len(block)
        merged, sums = np.empty(most, np.uint64), np.empty(most, np.int64)
        size = _count_more(keys, counts, ordered, merged, sums)
        keys, counts = merged[:size], sums[:size]
    shared = counts > 1
    keys, counts = keys[shared], counts[shared]
    slots = np.full(1 << (2 * len(keys)).bit_length(), -1, np.int32)
    _fill_slots(keys, slots)
    return SharedKeys(keys, counts, slots)


@lean_kernel
def _count_more(
    keys: NDArray[np.uint64],
    counts: NDArray[np.int64],
    ordered: NDArray[np.uint64],
    merged: NDArray[np.uint64],
    sums: NDArray[np.int64],
) -> int:
    """Merge counted keys with more keys, both ascending, and return how many there are."""
    left, right, size = 0, 0, 0
    while left < len(keys) or right < len(ordered):
        counted = right == len(ordered) or (left < len(keys) and keys[left] <= ordered[right])
        merged[size] = keys[left] if counted else ordered[right]
        sums[size] = counts[left] if counted else 0
        left += counted
        while right < len(ordered) and ordered[right] == merged[size]:
            sums[size] += 1
            right += 1
        size += 1
    return size


@lean_kernel
def _slot(key: np.uint64, keys: NDArray[np.uint64], slots: NDArray[np.int32]) -> np.uint64:
    """Return the slot of a key, or the empty one where it would lie. Keys are hashes already."""
    last = np.uint64(len(slots) - 1)
    slot = key & last
    while slots[slot] >= 0 and keys[slots[slot]] != key:
        slot = (slot + np.uint64(1)) & last
    return slot


@lean_kernel
def _fill_slots(keys: NDArray[np.uint64], slots: NDArray[np.int32]) -> None:
    for bucket in range(len(keys)):
        slots[_slot(keys[bucket], keys, slots)] = bucket


@lean_kernel
def _find(
    wanted: NDArray[np.uint64],
    keys: NDArray[np.uint64],
    slots: NDArray[np.int32],
    found: NDArray[np.int32],
) -> None:
    for row in range(len(wanted)):
        found[row] = slots[_slot(wanted[row], keys, slots)]


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
        """Yield the members of each block: (M, 3) document, start and count of its slice of `heads`."""
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
        if rank > 0:
            members[count, 0] = documents[row]
            members[count, 1] = starts[bucket]
            members[count, 2] = min(rank, limit)
            count += 1
    return count
