"""The order of rows in an epoch: a permutation that is computed, so no index file is kept.

    up to 1,024 rows   sorted by a draw for each row: every order is as likely as any other
    more rows          a Feistel network on the numbers below the next power of four, row by row;
                       values outside the dataset walk on until they fall inside

    positions -> EpochOrder.rows -> shuffled     neighbours are computed together, others one by one

Either way any rank can compute any position alone. A network of few bits is far from uniform: of 100,000
orders, which rows are neighbours fails chi-square at 5 to 16 rows, how far apart they are at 48 and
64 (p < 1e-9). The variance of an order's rank correlation is 6% too large at 64 rows, 3.5% at 256, 2% at
1,024 and 0.6%, which is noise, at 4,096.

Source: Black, Rogaway 2002, "Ciphers with arbitrary finite domains", sections 3 and 4 (cycle walking).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stages.hashing import FMIX_FACTORS, fmix64
from stages.seeding import Key, OrderTag, permutation

MAX_SORTED = 1024
"""Rows of a dataset of which the order is sorted by draws; that takes 0.3 ms."""
BLOCK = 8192
"""Positions computed together: a few ms, where 64 alone take as long as 2,048 of them."""
_ROUNDS = 6


class EpochOrder:
    """The rows of one epoch by position, looked up in blocks.

    A trainer asks for neighbours, batch after batch. The second look into a block in a row computes all
    of it; whoever jumps about never does. Of few rows, the first look computes all.

    Args:
        size: rows of the dataset.
        seed: the run's seed.
        epoch: the pass over the data.
    """

    def __init__(self, size: int, *, seed: int, epoch: int) -> None:
        self._size = size
        self._seed = seed
        self.epoch = epoch
        self._last = -1
        self._cached = 0, np.empty(0, np.int64)  # a position, and the rows from there on

    def rows(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what `shuffled` gives for positions, (N,) int64 in range(size)."""
        start, cached = self._cached  # taken once, for another thread may replace it at any time
        inside = positions - start
        if not np.count_nonzero(inside.view(np.uint64) >= len(cached)):  # below 0 is far above
            return cached[inside]
        first, last = int(positions.min()) // BLOCK, int(positions.max()) // BLOCK
        known, self._last = self._last, last
        if self._size > MAX_SORTED and (last - first > 1 or known not in (first, last)):
            return self._shuffled(positions)
        begin, end = first * BLOCK, min((last + 1) * BLOCK, self._size)
        kept = cached[begin - start :] if start <= begin < start + len(cached) else cached[:0]
        cached = np.concatenate([kept, self._shuffled(np.arange(begin + len(kept), end))])
        self._cached = begin, cached
        return cached[positions - begin]

    def _shuffled(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        return shuffled(positions, self._size, seed=self._seed, epoch=self.epoch)


def shuffled(positions: NDArray[np.int64], size: int, *, seed: int, epoch: int) -> NDArray[np.int64]:
    """Return the rows that stand at some positions of an epoch.

    shuffled(range(5), 5, seed=7, epoch=0) -> a permutation of 0 .. 4

    Args:
        positions: (N,) int64 in range(size).
        size: rows of the dataset.
        seed: the run's seed.
        epoch: the pass over the data; another gives another permutation.
    """
    if size <= MAX_SORTED:
        return permutation(Key(seed, epoch, 0, OrderTag.EPOCH), size)[positions]
    half = _half_bits(size)
    keys = _round_keys(seed, epoch)
    rows = _encrypt(positions.astype(np.uint64), half, keys)
    outside = np.flatnonzero(rows >= size)
    while len(outside):  # the domain is below 4 size, so this ends after a few turns on average
        rows[outside] = _encrypt(rows[outside], half, keys)
        outside = outside[rows[outside] >= size]
    return rows.astype(np.int64)


class Permutations:
    """What `shuffled` gives for several sizes, each with a seed of its own, looked up together.

    Args:
        sizes: of each permutation.
        seeds: likewise.
        epoch: the pass over the data.
    """

    def __init__(self, sizes: Sequence[int], *, seeds: Sequence[int], epoch: int) -> None:
        self._sizes = np.array(sizes, np.uint64)
        self._seeds = tuple(seeds)
        self._epoch = epoch
        self._sorted: dict[int, NDArray[np.int64]] = {}  # of few rows, as soon as one is asked for
        self._halves = np.array([_half_bits(size) for size in sizes], np.uint64)
        keys = [_round_keys(seed, epoch) for seed in seeds]
        self._keys = np.array(keys, np.uint64).reshape(-1, _ROUNDS).T.copy()

    def rows(self, members: NDArray[np.int64], positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what stands at some positions, each of the permutation of a number: (N,) each."""
        rows = np.empty_like(positions)
        few = self._sizes[members] <= MAX_SORTED
        places = np.flatnonzero(few)
        for one in np.flatnonzero(np.bincount(members[places], minlength=1)).tolist():
            own = places[members[places] == one]
            rows[own] = self._order(one)[positions[own]]
        many = np.flatnonzero(~few)
        rows[many] = self._permuted(members[many], positions[many])
        return rows

    def _order(self, one: int) -> NDArray[np.int64]:
        order = self._sorted.get(one)
        if order is None:
            size = int(self._sizes[one])
            order = shuffled(np.arange(size), size, seed=self._seeds[one], epoch=self._epoch)
            self._sorted[one] = order
        return order

    def _permuted(self, members: NDArray[np.int64], positions: NDArray[np.int64]) -> NDArray[np.int64]:
        sizes = self._sizes[members]
        rows = positions.astype(np.uint64)
        outside = np.arange(len(rows))
        while len(outside):
            some = members[outside]
            rows[outside] = _encrypt(rows[outside], self._halves[some], self._keys[:, some])
            outside = outside[rows[outside] >= sizes[outside]]
        return rows.astype(np.int64)


def _half_bits(size: int) -> np.uint64:
    """Return h of the network on the numbers below 4 ** h, the least that hold so many rows."""
    return np.uint64(max(1, ((size - 1).bit_length() + 1) // 2))


def _round_keys(seed: int, epoch: int) -> NDArray[np.uint64]:
    numbers = np.arange(1, _ROUNDS + 1, dtype=np.uint64)
    epochs = np.array([epoch], np.uint64) * FMIX_FACTORS[0]
    return fmix64(fmix64(np.uint64(seed) + numbers * FMIX_FACTORS[1]) ^ epochs)


def _encrypt(
    values: NDArray[np.uint64], half: np.uint64 | NDArray[np.uint64], keys: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    mask = (np.uint64(1) << half) - np.uint64(1)
    left, right = values >> half, values & mask
    for key in keys:
        left, right = right, left ^ (fmix64(right ^ key) & mask)
    return left << half | right
