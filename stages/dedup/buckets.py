"""Buckets of equal keys, found in blocks: what is held follows the distinct keys, not the documents.

A piece of a band holds a bounded number of distinct keys, but one key may be that of any number of
documents: a page that stands a million times in a crawl. So the documents pass twice, block by block:
once to count keys, once to place each document in its bucket.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

KeyBlock = tuple[NDArray[np.uint64], NDArray[np.int64]]
"""Keys (N,) and documents (N,), ascending by document from block to block."""


@dataclass(frozen=True)
class SharedKeys:
    """The keys that more than one document has."""

    keys: NDArray[np.uint64]
    """(B,) ascending."""
    counts: NDArray[np.int64]
    """(B,) documents of each, at least 2."""

    def find(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the bucket of each key, or -1: (N,) int64."""
        if not len(self.keys):
            return np.full(len(keys), -1, np.int64)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[places] == keys, places, -1)


def shared_keys(blocks: Iterable[KeyBlock]) -> SharedKeys:
    """Count the keys of all blocks and give those that stand more than once."""
    keys, counts = np.empty(0, np.uint64), np.empty(0, np.int64)
    for block, _ in blocks:
        found, numbers = np.unique(block, return_counts=True)
        merged = np.concatenate([keys, found])
        order = np.argsort(merged, kind="stable")
        merged = merged[order]
        starts = np.flatnonzero(np.concatenate([np.ones(min(1, len(merged)), np.bool_), _steps(merged)]))
        keys = merged[starts]
        both = np.concatenate([counts, numbers])[order]
        counts = np.add.reduceat(both, starts) if len(starts) else both
    shared = counts > 1
    return SharedKeys(keys[shared], counts[shared])


def _steps(values: NDArray[np.uint64]) -> NDArray[np.bool_]:
    steps: NDArray[np.bool_] = values[1:] != values[:-1]
    return steps


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
            buckets = self._shared.find(keys)
            inside = np.flatnonzero(buckets >= 0)
            buckets, documents_ = buckets[inside], documents[inside]
            order = np.argsort(buckets, kind="stable")
            ordered = buckets[order]
            first = np.searchsorted(ordered, ordered)
            rank = np.empty(len(order), np.int64)
            rank[order] = np.arange(len(order)) - first + self._seen[ordered]
            heads = rank < self._limit
            self.heads[self._starts[buckets[heads]] + rank[heads]] = documents_[heads]
            self._seen += np.bincount(buckets, minlength=len(self._seen))
            followers = rank > 0
            yield np.column_stack(
                [
                    documents_[followers],
                    self._starts[buckets[followers]],
                    np.minimum(rank[followers], self._limit),
                ]
            )
