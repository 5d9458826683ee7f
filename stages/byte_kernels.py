"""Byte kernels: how compiled code reads UTF-8, hashes, and looks up in hash tables.

A hash table is an array whose length is a power of two. A key begins to be looked for at the low bits of
its hash, and where another key lies there, at the next slot, until it or an empty slot is found:

    slots   -1  4 -1  7  2 -1 -1 -1      slots hold numbers of keys, and `EMPTY`
                      ^  ^  ^            of a key whose hash ends in 3
"""

import numpy as np
from numpy.typing import NDArray

from stages import hashing
from stages.kernels import inlined_kernel, lean_kernel

ASCII = 0x80
"""Bytes below are characters by themselves."""
_THREE, _FOUR = 0xE0, 0xF0
"""First bytes from which a character has three bytes, and four."""
EMPTY = -1
"""In a slot: no key lies there."""
_ONE = np.uint64(1)

fmix64 = inlined_kernel(hashing.fmix64)
"""`hashing.fmix64` of one number."""


@lean_kernel
def code_point(data: NDArray[np.uint8], place: int) -> tuple[int, int]:
    """Return the character that begins at a byte of valid UTF-8, and how many bytes it has."""
    head = int(data[place])
    if head < ASCII:
        return head, 1
    second = int(data[place + 1]) & 0x3F
    if head < _THREE:
        return (head & 0x1F) << 6 | second, 2
    third = int(data[place + 2]) & 0x3F
    if head < _FOUR:
        return (head & 0x0F) << 12 | second << 6 | third, 3
    return (head & 0x07) << 18 | second << 12 | third << 6 | (int(data[place + 3]) & 0x3F), 4


@inlined_kernel
def first_slot(bits: np.uint64, slots: NDArray[np.generic]) -> np.uint64:
    """Return the slot at which a key of a hash begins to be looked for."""
    return np.uint64(bits & np.uint64(len(slots) - 1))


@inlined_kernel
def next_slot(slot: np.uint64, slots: NDArray[np.generic]) -> np.uint64:
    """Return the slot behind one, the first behind the last."""
    return np.uint64(slot + _ONE & np.uint64(len(slots) - 1))


@lean_kernel
def free_slot(bits: np.uint64, slots: NDArray[np.int32]) -> np.uint64:
    """Return the slot to put a key of a hash in; it is not yet there."""
    slot = first_slot(bits, slots)
    while slots[slot] != EMPTY:
        slot = next_slot(slot, slots)
    return slot
