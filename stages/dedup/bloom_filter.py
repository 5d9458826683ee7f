"""Bloom filter: which keys may be among others, in two to four bytes for each of these others.

    add 7, 9; then ask for 7, 8, 9 -> yes, no, yes; of other keys, one in fifty gets a wrong yes

Keys are hashes already. A key is two bits of one word, so a question reads one place in memory.

Source: Bloom 1970; Putze, Sanders, Singler 2007, "Cache-, Hash- and Space-Efficient Bloom Filters",
which calls a filter of such words blocked.
"""

import numpy as np
from numpy.typing import NDArray

from stages.kernels import lean_kernel

_KEYS_OF_CELL = 4
"""At the most, as long as there may be more words: 16 bits a key."""
_MAX_CELLS = 1 << 24
"""Of a filter in memory: 128 MiB. Above 67 million keys, more and more of all keys get a wrong yes."""
_FIRST, _SECOND, _BIT = np.uint64(58), np.uint64(52), np.uint64(63)


def filter_cells(keys: int) -> int:
    """Return how many words the filter of some number of keys has: a power of two."""
    return 1 << max(-(-keys // _KEYS_OF_CELL) - 1, 0).bit_length()


def empty_filter(keys: int) -> NDArray[np.uint64]:
    """Return a filter for some number of keys, to be held in memory: (W,) words, a power of two."""
    return np.zeros(min(filter_cells(keys), _MAX_CELLS), np.uint64)


def add_keys(cells: NDArray[np.uint64], keys: NDArray[np.uint64]) -> None:
    """Add keys to a filter, in place.

    Args:
        cells: of the filter.
        keys: (N,).
    """
    _add(cells, np.ascontiguousarray(keys))


def may_hold(cells: NDArray[np.uint64], keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Say of each key whether it may have been added: always yes if it was, (N,)."""
    found = np.empty(len(keys), np.bool_)
    _ask(cells, np.ascontiguousarray(keys), found)
    return found


@lean_kernel
def _bits(key: np.uint64) -> np.uint64:
    """Return the two bits of a key; they may be one."""
    one = np.uint64(1)
    return one << (key >> _FIRST) | one << ((key >> _SECOND) & _BIT)


@lean_kernel
def _add(cells: NDArray[np.uint64], keys: NDArray[np.uint64]) -> None:
    last = np.uint64(len(cells) - 1)
    for key in keys:
        cells[key & last] |= _bits(key)


@lean_kernel
def _ask(cells: NDArray[np.uint64], keys: NDArray[np.uint64], found: NDArray[np.bool_]) -> None:
    last = np.uint64(len(cells) - 1)
    for row in range(len(keys)):
        bits = _bits(keys[row])
        found[row] = cells[keys[row] & last] & bits == bits
