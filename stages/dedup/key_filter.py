"""Key filter: a set of hashed keys in few bits, to pass over most keys that are not in it.

One bit stands for each key, at a place that the key gives. A key that was added is always found; of
others about one in sixteen is, because it has the bit of another key.
"""

import numpy as np
from numpy.typing import NDArray

from stages.kernels import lean_kernel

_BITS = 16
"""For each key, at least."""
_WORD = np.uint64(6)
_PLACE = np.uint64(63)
_ONE = np.uint64(1)


def filter_words(keys: int) -> int:
    """Return the length of the filter of some keys, in words of 64 bits: a power of two."""
    return 1 << max(0, (_BITS * keys - 1).bit_length() - 6)


@lean_kernel
def add_keys(bits: NDArray[np.uint64], keys: NDArray[np.uint64]) -> None:
    """Add keys, hashes already, to a filter of zeros: (W,) uint64."""
    last = np.uint64(len(bits) - 1)
    for key in keys:
        bits[(key >> _WORD) & last] |= _ONE << (key & _PLACE)


def passing(bits: NDArray[np.uint64], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the places of the keys whose bits are set, ascending: (P,)."""
    found = np.empty(len(keys), np.int64)
    return found[: _fill_passing(bits, keys, found)]


@lean_kernel
def _fill_passing(bits: NDArray[np.uint64], keys: NDArray[np.uint64], found: NDArray[np.int64]) -> int:
    """Fill in the places of keys whose bits are set, and return how many there are."""
    last, count = np.uint64(len(bits) - 1), 0
    for row in range(len(keys)):
        key = keys[row]
        if bits[(key >> _WORD) & last] >> (key & _PLACE) & _ONE:
            found[count] = row
            count += 1
    return count
