"""Ragged arrays: lists of numbers of any length, end to end, with where each begins.

lists     [3 5] [] [7]
ptr       0 2 2 3
values    3 5 7
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Ragged:
    """N lists of int64.

    Args:
        ptr: (N + 1,) list n is values[ptr[n] : ptr[n + 1]].
        values: (S,).
    """

    ptr: NDArray[np.int64]
    values: NDArray[np.int64]

    def __getitem__(self, number: int) -> NDArray[np.int64]:
        """Return one list."""
        part: NDArray[np.int64] = self.values[self.ptr[number] : self.ptr[number + 1]]
        return part

    def take(self, chosen: NDArray[np.int64]) -> "Ragged":
        """Return some of the lists, in the order chosen."""
        counts = np.diff(self.ptr)[chosen]
        ptr = np.concatenate([[0], np.cumsum(counts)])
        return Ragged(ptr, self.values[ranges_of(self.ptr[chosen], counts)])


def joined(parts: Sequence[Ragged]) -> Ragged:
    """Return the lists of all, one after the other."""
    counts = [np.diff(part.ptr) for part in parts]
    ptr = np.cumsum(np.concatenate([np.zeros(1, np.int64), *counts]))
    return Ragged(ptr, np.concatenate([np.empty(0, np.int64), *(part.values for part in parts)]))


def ragged_of(lists: Sequence[Sequence[int]]) -> Ragged:
    """Return lists of numbers as one array."""
    ptr = np.cumsum([0, *map(len, lists)])
    values = np.concatenate([np.empty(0, np.int64), *(np.asarray(part, np.int64) for part in lists)])
    return Ragged(ptr, values)


def ranges_of(begins: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return begins[i], begins[i] + 1, .., counts[i] numbers of each, one behind the other.

    begins 7 2, counts 3 1 -> 7 8 9 2
    """
    ends = np.cumsum(counts)
    found: NDArray[np.int64] = np.repeat(begins - (ends - counts), counts)
    found += np.arange(len(found))
    return found


def batches(lengths: NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of lists that hold `most` numbers together, or one longer list.

    lengths 2 3 9 1, most 5 -> 0:2 2:3 3:4
    """
    ends = np.cumsum(lengths)
    first = 0
    while first < len(ends):
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield first, last
        first = last
