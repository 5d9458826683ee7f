"""Words: a text is cut where no piece can cross; words met before are not merged again.

    "the cat"   cut         "the" | " cat"       no piece has an "e" and then a space
    " cat"      remembered  its ids, by its bytes

A word is a run of characters of which each two neighbours stand side by side in some piece, so what is
merged in one word depends on no other. What is remembered changes how long it takes and nothing else: a
word is compared byte by byte. A new word takes the place of an old one where both would lie in one slot,
so that the memory never grows.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.kernels import lean_kernel
from stages.tokenizer.bpe.merging import LONGEST_WORD, WordScratch, merge_word
from stages.tokenizer.bpe.tables import BpeTables, are_joined
from stages.tokenizer.bpe.utf8 import ASCII, code_point
from stages.tokenizer.texts import JoinedTexts

_BYTES, _IDS = 24, 8
"""Most that a remembered word may have."""
_SLOT = 8
"""Words of 64 bits in a slot: three of text, one of sizes, four of ids, together a line of cache."""
_WORD = 8
"""Bytes of a number."""
_MIX1, _MIX2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_MIX3, _HALF = np.uint64(0xD6E8FEB86659FD93), np.uint64(32)
_ONE, _EIGHT, _LAST_BIT = np.uint64(1), np.uint64(8), np.uint64(63)
_ALL, _NOTHING, _LOW = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0), np.uint64(0xFF)


class Remembered(NamedTuple):
    """Words with their ids, in S slots; S is a power of two."""

    slots: NDArray[np.uint64]
    """(S, 8); all 0 is empty."""
    ids: NDArray[np.int32]
    """(S, 16) the same memory."""


def remembered(slots: int) -> Remembered:
    """Return room for words, empty."""
    room = np.zeros((slots, _SLOT), np.uint64)
    return Remembered(room, room.view(np.int32))


@lean_kernel
def encode_texts(
    texts: JoinedTexts,
    first: int,
    ids: NDArray[np.integer],
    ends: NDArray[np.int64],
    tables: BpeTables,
    known: Remembered,
    scratch: WordScratch,
) -> int:
    """Encode texts from one on; return the number of the first that has too long a word, or D.

    Args:
        texts: D texts.
        first: the number of the first that is encoded.
        ids: (B,) filled in.
        ends: (D,) where the ids of each end; filled in, and known of those before the first.
        tables: the model.
        known: words.
        scratch: room.
    """
    data, begins = texts.data, scratch.begins
    filled = ends[first - 1] if first else 0
    for text in range(first, len(texts.offsets) - 1):
        place, end = texts.offsets[text], texts.offsets[text + 1]
        while place < end:
            begin = place
            count = _cut(data, begin, end, tables, scratch)
            if count > LONGEST_WORD:
                return text
            place = begins[count]
            size = place - begin
            if count == 1:
                filled = _write(1, filled, ids, data, tables, scratch)
                continue
            if size > _BYTES:
                left = merge_word(count, tables, scratch)
                filled = _write(left, filled, ids, data, tables, scratch)
                continue
            one = _load(texts.words, begin, size)
            two = _load(texts.words, begin + _WORD, size - _WORD)
            three = _load(texts.words, begin + 2 * _WORD, size - 2 * _WORD)
            slot, is_known = _slot_of(one, two, three, size, known.slots)
            if is_known:
                for number in range(np.int64(known.slots[slot, 3] & _LOW)):
                    ids[filled] = known.ids[slot, 8 + number]
                    filled += 1
                continue
            before = filled
            left = merge_word(count, tables, scratch)
            filled = _write(left, filled, ids, data, tables, scratch)
            if filled - before <= _IDS:
                sizes = np.uint64(size) << _EIGHT | np.uint64(filled - before)
                known.slots[slot, 0], known.slots[slot, 1] = one, two
                known.slots[slot, 2], known.slots[slot, 3] = three, sizes
                for number in range(filled - before):
                    known.ids[slot, 8 + number] = ids[before + number]
        ends[text] = filled
    return len(texts.offsets) - 1


@lean_kernel
def _cut(data: NDArray[np.uint8], place: int, end: int, tables: BpeTables, scratch: WordScratch) -> int:
    """Fill in the symbols of the word at a place; return how many, or more than there is room for."""
    symbols, begins = scratch.symbols, scratch.begins
    point, size = code_point(data, place)
    left, symbol = point, tables.symbols[point]
    symbols[0], begins[0], count = symbol, place, 1
    place += size
    while place < end:
        point, size = code_point(data, place)
        right = tables.symbols[point]
        if left < ASCII and point < ASCII:
            if not tables.ascii_joined[left * ASCII + point]:
                break
        elif symbol < 0 or right < 0 or not are_joined(symbol, right, tables.joined):
            break
        if count == LONGEST_WORD:
            return LONGEST_WORD + 1
        symbols[count], begins[count] = right, place
        left, symbol = point, right
        count += 1
        place += size
    begins[count] = place
    return count


@lean_kernel
def _write(
    count: int,
    filled: int,
    ids: NDArray[np.integer],
    data: NDArray[np.uint8],
    tables: BpeTables,
    scratch: WordScratch,
) -> int:
    """Write the ids of symbols behind those that are filled in; return how many are, then."""
    for number in range(count):
        symbol = scratch.symbols[number]
        if 0 <= symbol < tables.vocab_size:
            ids[filled] = symbol
            filled += 1
        else:
            for place in range(scratch.begins[number], scratch.begins[number + 1]):
                ids[filled] = tables.byte_ids[data[place]]
                filled += 1
    return filled


@lean_kernel
def _load(words: NDArray[np.uint64], place: int, count: int) -> np.uint64:
    """Return up to eight bytes from a place on, as one number; 0 if there are none."""
    if count <= 0:
        return _NOTHING
    shift = np.uint64(place & 7) * _EIGHT
    bits = words[place >> 3] >> shift | words[(place >> 3) + 1] << _ONE << (_LAST_BIT - shift)
    if count >= _WORD:
        return np.uint64(bits)
    return np.uint64(bits & (_ALL >> (np.uint64(_WORD - count) * _EIGHT)))


@lean_kernel
def _slot_of(
    one: np.uint64, two: np.uint64, three: np.uint64, size: int, slots: NDArray[np.uint64]
) -> tuple[np.uint64, bool]:
    """Return the slot of a word, and whether it is there; if not, the one to put it in."""
    bits = (one ^ np.uint64(size)) * _MIX1
    bits = (bits ^ bits >> _HALF ^ two) * _MIX2
    bits = (bits ^ bits >> _HALF ^ three) * _MIX3
    slot = (bits ^ bits >> _HALF) & np.uint64(len(slots) - 1)
    for _ in range(2):
        same = (slots[slot, 0] == one) & (slots[slot, 1] == two) & (slots[slot, 2] == three)
        if same and slots[slot, 3] >> _EIGHT == np.uint64(size):
            return slot, True
        slot = slot ^ _ONE
    if slots[slot, 3] != _NOTHING and slots[slot ^ _ONE, 3] == _NOTHING:
        slot = slot ^ _ONE
    return slot, False
