"""Merges: which two symbols become which, and which merge comes first.

    t h -> th     rank 0          symbols are numbers: ids, or characters without one
    th e -> the   rank 1

M merges, in P slots of a hash table.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.kernels import lean_kernel

MISSING = -1
_MIX, _MIX2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_ONE, _HALF = np.uint64(1), np.uint64(32)
_EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)


class Merges(NamedTuple):
    """Two symbols that merge, in each slot."""

    pairs: NDArray[np.uint64]
    """(P,) left << 32 | right; all bits set in an empty slot."""
    results: NDArray[np.int32]
    """(P, 2) rank of the merge, the best 0, and the id that it gives."""


def merges_of(pairs: NDArray[np.int32], ranks: NDArray[np.int32], ids: NDArray[np.int32]) -> Merges:
    """Return the table of merges.

    Args:
        pairs: (M, 2) symbols; no two alike.
        ranks: (M,) of each.
        ids: (M,) that each gives.
    """
    room = 1 << max(4, (2 * len(pairs)).bit_length())
    made = Merges(np.full(room, _EMPTY, np.uint64), np.empty((room, 2), np.int32))
    fill_merges(pairs, ranks, ids, made)
    return made


@lean_kernel
def mixed(left: int, right: int) -> np.uint64:
    """Return 64 bits of two symbols."""
    bits = (np.uint64(left) << _HALF | np.uint64(right)) * _MIX
    return np.uint64((bits ^ bits >> _HALF) * _MIX2)


@lean_kernel
def find_merge(left: int, right: int, merges: Merges) -> int:
    """Return the slot of two symbols that merge, or `MISSING`."""
    pairs = merges.pairs
    mask, wanted = np.uint64(len(pairs) - 1), np.uint64(left) << _HALF | np.uint64(right)
    slot = mixed(left, right) >> _HALF & mask
    while True:
        if pairs[slot] == wanted:
            return np.int64(slot)  # type: ignore[return-value]
        if pairs[slot] == _EMPTY:
            return MISSING
        slot = slot + _ONE & mask


@lean_kernel
def fill_merges(
    pairs: NDArray[np.int32], ranks: NDArray[np.int32], ids: NDArray[np.int32], made: Merges
) -> None:
    """Put merges into their table, whose slots are empty."""
    mask = np.uint64(len(made.pairs) - 1)
    for each in range(len(pairs)):
        slot = mixed(pairs[each, 0], pairs[each, 1]) >> _HALF & mask
        while made.pairs[slot] != _EMPTY:
            slot = slot + _ONE & mask
        made.pairs[slot] = np.uint64(pairs[each, 0]) << _HALF | np.uint64(pairs[each, 1])
        made.results[slot, 0], made.results[slot, 1] = ranks[each], ids[each]
