"""Deals: items of several kinds in one order, of which every stretch has each kind in its proportion.

    counts a 4, b 2, c 1     place    0 1 2 3 4 5 6
                             kind     c a b a b a a
                             number   0 0 0 1 1 2 3

No draw and no table: the kinds are sorted by their counts, most first. After t places the first has had
floor(t w / W) of its w items among all W, and the others share what is left in the same way. So any
process computes the item of a place, or the place of an item, alone.

Of a stretch of n places, kind number d (the most frequent is 0) has n w / W items, and fewer than
1 + H(d) more or less, where H(d) = 1 + 1/2 + .. + 1/d: each kind i before it rounds off less than an
item, of which kind d gets at most 1 / (d - i), because none of the kinds i + 1 .. d has fewer. So of six
kinds none is off by 3.3 items, of thirty none by five.

Axes: G groups that are interleaved apart, K kinds, P parts of a kind, N items.
"""

import math
from itertools import islice

import numpy as np
from numpy.typing import NDArray

LEVELS = 16
"""Parts of a source's rows: part f has those that are filled by f sixteenths at least, but not f + 1. So
windows keep the shares of tokens where rows are not full: of five sources (docs/loading.md), none is off
by more than 0.33 points in 1,000 rows, against 2.3 with one part and 0.9 with 4."""
MAX_ITEMS = 1 << 42
"""Of a group: products of two counts are computed in two halves of 64 bits."""
_CANDIDATES = 8
"""Steps of which one is chosen. Of up to 5,000 rows, the first alone lets some stretches of 300 be off
by 12 rows, the best of these by less than 5."""
_HALF = 21
_LOW = (1 << _HALF) - 1


class Interleaving:
    """Groups of items of some kinds, each group in an order of its own.

    Args:
        counts: (G, K) int64, items of each kind.
    """

    def __init__(self, counts: NDArray[np.int64]) -> None:
        order = np.argsort(-counts, axis=1, kind="stable")  # equal counts as the kinds come
        self._kinds = np.ascontiguousarray(order.T, np.int32)  # by depth: which kind is there, (K, G)
        self._depths = np.argsort(order, axis=1).astype(np.int32)
        left = np.take_along_axis(counts, order, 1)[:, ::-1].cumsum(axis=1)[:, ::-1]
        assert left.max(initial=0) < MAX_ITEMS, left.max()
        nothing = np.zeros((1, len(counts)), np.int64)
        self._left = np.vstack([left.T, nothing])  # by depth: items of all kinds from there on

    def items(
        self, groups: NDArray[np.int64], places: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return what stands at some places: the kind of each item and its number among these, (N,).

        Args:
            groups: (N,) of each place.
            places: (N,) in range of the group's items.
        """
        kinds, numbers = np.zeros_like(places), np.zeros_like(places)
        among, asked = places, np.arange(len(places))
        for depth in range(len(self._kinds)):
            if not len(asked):
                break
            total, rest = self._left[depth].take(groups), self._left[depth + 1].take(groups)
            had, remainder = _portion(among, total - rest, total)
            takes = remainder >= rest  # one place on, it has had one more
            numbers[asked[takes]] = had[takes]
            kinds[asked[takes]] = self._kinds[depth].take(groups[takes])
            among, asked, groups = (among - had)[~takes], asked[~takes], groups[~takes]
        return kinds, numbers

    def places(
        self, groups: NDArray[np.int64], kinds: NDArray[np.int64], numbers: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return where some items stand in their groups, (N,): the inverse of `items`.

        Args:
            groups: (N,) of each item.
            kinds: (N,) likewise.
            numbers: (N,) of each among the items of its kind.
        """
        depths = self._depths[groups, kinds]
        total, rest = self._left[depths, groups], self._left[depths + 1, groups]
        found, remainder = _portion(numbers + 1, total, total - rest)
        found -= remainder == 0
        for depth in range(int(depths.max(initial=0)) - 1, -1, -1):
            deeper = np.flatnonzero(depths > depth)
            total, rest = (self._left[depth + n].take(groups[deeper]) for n in (0, 1))
            found[deeper] = _portion(found[deeper], total, rest)[0]
        return found


class SpreadParts:
    """Groups of items of some parts, each group in an order in which neighbours in rank lie far apart.

    counts 2, 5, 1 of parts 0, 1, 2     ranks 0 1 | 2 | 3 4 5 6 7     of parts 0, 2, 1
    places, with a step of 5            0 1 2 3 4 5 6 7
    rank                                0 5 2 7 4 1 6 3
    part                                0 1 2 1 1 0 1 1

    Ranks count the items of parts 0, 2, 4, ... and then those of the odd parts, the last first. So parts
    that are alike are neighbours in rank, also where the last rank meets the first.

    Of n items, place p has the item with the rank p g mod n. The step g is one of the first 8 numbers
    from the golden section on, floor(n (sqrt(5) - 1) / 2), that are below n and coprime to it: the one
    whose continued fraction g / n has the least sum of quotients, the first of equals. The smaller that
    sum, the more evenly the ranks, and with them the parts, lie in every stretch.

    Source: Kuipers, Niederreiter 1974, "Uniform Distribution of Sequences", chapter 2, section 3.

    Args:
        counts: (G, P) int64, items of each part.
    """

    def __init__(self, counts: NDArray[np.int64]) -> None:
        self._num_parts = counts.shape[1]
        parts = np.arange(self._num_parts)
        self._ranked = np.concatenate([parts[::2], parts[1::2][::-1]])
        """The parts in the order of their ranks."""
        self._turns = np.argsort(self._ranked)
        """Where each part stands in that order."""
        counts = counts[:, self._ranked]
        sizes = counts.sum(axis=1)
        found = {size: _steps(size) for size in np.unique(sizes).tolist()}
        steps = [found[size] for size in sizes.tolist()]
        self._sizes = np.maximum(sizes, 1)
        self._steps, self._back = np.array(steps, np.int64).reshape(-1, 2).T
        self._begins = np.cumsum([0, *counts.ravel()])  # in the order of ranks, end to end

    def items(
        self, groups: NDArray[np.int64], places: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the part of the item at each place, and its number among these: (N,) each."""
        ranks = _portion(places, self._steps[groups], self._sizes[groups])[1]
        ranks += self._begins[groups * self._num_parts]
        turns = self._begins.searchsorted(ranks, "right") - 1
        return self._ranked[turns % self._num_parts], ranks - self._begins[turns]

    def places(
        self, groups: NDArray[np.int64], parts: NDArray[np.int64], numbers: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return where some items stand in their groups, (N,): the inverse of `items`."""
        first = groups * self._num_parts
        ranks = self._begins[first + self._turns[parts]] - self._begins[first] + numbers
        return _portion(ranks, self._back[groups], self._sizes[groups])[1]


def _steps(size: int) -> tuple[int, int]:
    """Return g and its inverse modulo `size`; 0 and 0 of nothing."""
    golden = (math.isqrt(5 * size * size) - size) // 2
    coprime = (number for number in range(golden, size) if math.gcd(number, size) == 1)
    step = min(islice(coprime, _CANDIDATES), key=lambda number: _quotients(number, size), default=0)
    return step, pow(step, -1, size) if size else 0


def _quotients(number: int, size: int) -> int:
    """Return the sum of the quotients of the continued fraction number / size."""
    total = 0
    while number:
        total += size // number
        number, size = size % number, number
    return total


class NestedInterleaving:
    """Groups interleaved by kind, the items of each kind spread by part: a class is a kind and a part.

    Class c is part c mod P of kind c // P.

    Args:
        counts: (G, K, P) int64, items of each part of each kind.
    """

    def __init__(self, counts: NDArray[np.int64]) -> None:
        groups, self._num_kinds, self._num_parts = counts.shape
        self._kinds = Interleaving(counts.sum(axis=2))
        self._parts = SpreadParts(counts.reshape(groups * self._num_kinds, self._num_parts))

    def items(
        self, groups: NDArray[np.int64], places: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the class of the item at each place, and its number among these: (N,) each."""
        kinds, numbers = self._kinds.items(groups, places)
        parts, numbers = self._parts.items(groups * self._num_kinds + kinds, numbers)
        return kinds * self._num_parts + parts, numbers

    def places(
        self, groups: NDArray[np.int64], classes: NDArray[np.int64], numbers: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return where some items stand in their groups, by class and number: (N,)."""
        kinds, parts = np.divmod(classes, self._num_parts)
        numbers = self._parts.places(groups * self._num_kinds + kinds, parts, numbers)
        return self._kinds.places(groups, kinds, numbers)


def _portion(
    numbers: NDArray[np.int64], factors: NDArray[np.int64], totals: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return floor(number * factor / total) and the remainder, both exact: (N,) each.

    All are below `MAX_ITEMS`, and so is the quotient.
    """
    if int(numbers.max(initial=0)) * int(factors.max(initial=0)) < 1 << 63:
        products = numbers * factors
        quotients = products // totals
        return quotients, products - quotients * totals
    high, over = np.divmod(numbers * (factors >> _HALF), totals)
    below = (over << _HALF).astype(np.uint64) + (numbers * (factors & _LOW)).astype(np.uint64)
    low, remainder = np.divmod(below, totals.astype(np.uint64))
    return (high << _HALF) + low.astype(np.int64), remainder.astype(np.int64)
