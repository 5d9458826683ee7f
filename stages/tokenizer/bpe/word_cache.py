"""Words met before, with their ids: a table that never grows.

A word is compared byte by byte, so what is remembered changes how long encoding takes and nothing else.
A new word takes the place of an old one where both would lie in one slot.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.byte_kernels import first_slot
from stages.hashing import GOLDEN
from stages.kernels import lean_kernel

MOST_BYTES = 24
"""Of a word that is remembered."""
_MOST_IDS = 8
_SLOT = 8
"""Words of 64 bits in a slot: three of text, one of sizes, four of ids, together a line of cache."""
_FIRST_ID = 8
"""Where the ids begin, counted in 32 bits."""
_WORD = 8
"""Bytes of a number."""
_MIX1, _MIX2 = np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)
_ONE, _EIGHT, _LAST_BIT = np.uint64(1), np.uint64(8), np.uint64(63)
_ALL, _NOTHING, _LOW = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0), np.uint64(0xFF)


class WordCache(NamedTuple):
    """Words with their ids, in S slots; S is a power of two."""

    slots: NDArray[np.uint64]
    """(S, 8); all 0 is empty."""
    ids: NDArray[np.int32]
    """(S, 16) the same memory."""


class WordKey(NamedTuple):
    """The bytes of a word."""

    one: np.uint64
    two: np.uint64
    three: np.uint64
    size: int


def remembered(slots: int) -> WordCache:
    """Return room for words, empty."""
    room = np.zeros((slots, _SLOT), np.uint64)
    return WordCache(room, room.view(np.int32))


@lean_kernel
def key_of(data: NDArray[np.uint64], begin: int, size: int) -> WordKey:
    """Return the key of a word of at most `MOST_BYTES`."""
    one = _load(data, begin, size)
    two = _load(data, begin + _WORD, size - _WORD)
    three = _load(data, begin + 2 * _WORD, size - 2 * _WORD)
    return WordKey(one, two, three, size)


@lean_kernel
def word_slot(key: WordKey, known: WordCache) -> tuple[np.uint64, bool]:
    """Return the slot of a word, and whether it is there; if not, the one to put it in."""
    slots = known.slots
    bits = (key.one ^ np.uint64(key.size)) * GOLDEN
    bits = (bits ^ bits >> _HALF ^ key.two) * _MIX1
    bits = (bits ^ bits >> _HALF ^ key.three) * _MIX2
    slot = first_slot(bits ^ bits >> _HALF, slots)
    for _ in range(2):
        same = (slots[slot, 0] == key.one) & (slots[slot, 1] == key.two) & (slots[slot, 2] == key.three)
        if same and slots[slot, 3] >> _EIGHT == np.uint64(key.size):
            return slot, True
        slot = slot ^ _ONE
    if slots[slot, 3] != _NOTHING and slots[slot ^ _ONE, 3] == _NOTHING:
        slot = slot ^ _ONE
    return slot, False


@lean_kernel
def recall(slot: np.uint64, known: WordCache, filled: int, ids: NDArray[np.integer]) -> int:
    """Write the ids of a remembered word behind those that are filled in; return how many are, then."""
    for number in range(np.int64(known.slots[slot, 3] & _LOW)):
        ids[filled] = known.ids[slot, _FIRST_ID + number]
        filled += 1
    return filled


@lean_kernel
def remember(
    slot: np.uint64, key: WordKey, known: WordCache, begin: int, end: int, ids: NDArray[np.integer]
) -> None:
    """Keep a word whose ids stand from one place to another, unless they are too many."""
    if end - begin > _MOST_IDS:
        return
    known.slots[slot, 0], known.slots[slot, 1], known.slots[slot, 2] = key.one, key.two, key.three
    known.slots[slot, 3] = np.uint64(key.size) << _EIGHT | np.uint64(end - begin)
    for number in range(end - begin):
        known.ids[slot, _FIRST_ID + number] = ids[begin + number]


@lean_kernel
def _load(data: NDArray[np.uint64], place: int, count: int) -> np.uint64:
    """Return up to eight bytes from a place on, as one number; 0 if there are none."""
    if count <= 0:
        return _NOTHING
    shift = np.uint64(place & 7) * _EIGHT
    bits = data[place >> 3] >> shift | data[(place >> 3) + 1] << _ONE << (_LAST_BIT - shift)
    if count >= _WORD:
        return np.uint64(bits)
    return np.uint64(bits & (_ALL >> (np.uint64(_WORD - count) * _EIGHT)))
