"""Repeats: how much of a text are lines or runs of words that it has already had.

Whatever is compared is known by a 64-bit hash; of 10^7 different ones two have the same with a
probability of 3 in a million.
"""

import numpy as np
from numpy.typing import NDArray

from stages.byte_kernels import code_point, fmix64
from stages.filtering.characters import SPACE
from stages.hashing import GOLDEN
from stages.kernels import inlined_kernel, lean_kernel

_HALF = np.uint64(32)
_NEVER_0 = np.uint64(1)
_FIRST, _STEP = np.int64(0), np.int64(1)
"""Of the places of a hash table."""
_SPACE = np.uint64(ord(" ") + 1)
"""A space, as the hash of a word takes a byte."""
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_LINE_FEED = np.uint8(10)
_FIRST_TAIL = 0x80
_TAIL_BITS = 0xC0


def empty_set(most: int) -> NDArray[np.uint64]:
    """Return a hash table for that many values: (N,) uint64."""
    return np.zeros(_slots(most), np.uint64)


def no_numbers(most: int) -> NDArray[np.int32]:
    """Return zeros beside the hash table for that many values, int32."""
    return np.zeros(_slots(most), np.int32)


def _slots(most: int) -> int:
    """Return the places of a hash table for that many values; it gets at most three quarters full."""
    return most + most // 3 + 2


@inlined_kernel
def slot_of(table: NDArray[np.uint64], value: np.uint64) -> int:
    """Return where a value is in a hash table, or where it would be: a place that holds 0."""
    size = len(table)  # below 2**32, so that any number may be one: a power of 2 takes up to twice that
    slot = np.int64((value >> _HALF) * np.uint64(size) >> _HALF)
    while table[slot] != 0 and table[slot] != value:
        slot = slot + _STEP if slot + _STEP < size else _FIRST
    return int(slot)


@inlined_kernel
def mixed(value: np.uint64) -> np.uint64:
    """Return a hash whose high bits depend on all bits of another; never 0."""
    return fmix64(value) or _NEVER_0


@lean_kernel
def repeated_parts(
    buffer: NDArray[np.uint8],
    flags: NDArray[np.uint16],
    whole: bool,  # noqa: FBT001  # numba takes no names
    table: NDArray[np.uint64],
    counts: NDArray[np.int64],
) -> None:
    r"""Count the lines or paragraphs of a text, those that it has had before, and their characters.

    A line of white space alone is no line, and parts paragraphs as an empty one does.

    "a\n \nb\n\n\nb", whole -> counts = [3, 1, 1]

    Args:
        buffer: (B,) the text in UTF-8.
        flags: `character_flags()`.
        whole: whether lines with none such between them are one part, a paragraph.
        table: `empty_set` for as many as there are.
        counts: filled.
    """
    size, place = len(buffer), 0
    parts = repeats = characters = 0
    while place < size:
        end = _line_end(buffer, place)
        if _is_blank(buffer, flags, place, end):
            place = end + 1
            continue
        value, length = np.uint64(0), 0
        while True:
            for offset in range(place, end):
                byte = buffer[offset]
                value = value * GOLDEN + np.uint64(byte) + np.uint64(1)
                length += (byte & _TAIL_BITS) != _FIRST_TAIL
            place = end + 1
            if not whole or place >= size:
                break
            end = _line_end(buffer, place)
            if _is_blank(buffer, flags, place, end):
                break
            value = value * GOLDEN + np.uint64(_LINE_FEED) + np.uint64(1)
            length += 1
        parts += 1
        value = mixed(value)
        slot = slot_of(table, value)
        repeats += table[slot] == value
        characters += length if table[slot] == value else 0
        table[slot] = value
    counts[0], counts[1], counts[2] = parts, repeats, characters


@inlined_kernel
def _line_end(buffer: NDArray[np.uint8], place: int) -> int:
    """Return where the line that begins at a place ends: its line feed, or the end of the text."""
    while place < len(buffer) and buffer[place] != _LINE_FEED:
        place += 1
    return place


@inlined_kernel
def _is_blank(buffer: NDArray[np.uint8], flags: NDArray[np.uint16], place: int, end: int) -> bool:
    """Say whether there is nothing but white space between two places."""
    while place < end:
        code, width = code_point(buffer, place)
        if flags[code] & SPACE == 0:
            return False
        place += width
    return True


@lean_kernel
def most_frequent_ngram(
    hashes: NDArray[np.uint64],
    powers: NDArray[np.uint64],
    lengths: NDArray[np.int32],
    size: int,
    table: NDArray[np.uint64],
    numbers: NDArray[np.int32],
) -> int:
    """Return the characters of the most frequent run of words, joined by spaces, times its number.

    Of several the first counts; a text of fewer words has none.

    Args:
        hashes: (W,) of the words.
        powers: (W,) the base to the power of their bytes.
        lengths: (W,) their characters.
        size: words in a run.
        table: `empty_set` for W values.
        numbers: `no_numbers` for W values.
    """
    most = 0
    for start in range(len(hashes) - size + 1):
        value = _joined(hashes, powers, start, size, GOLDEN, _SPACE)
        slot = slot_of(table, value)
        table[slot] = value
        numbers[slot] += 1
        most = max(most, numbers[slot])
    for start in range(len(hashes) - size + 1):
        if numbers[slot_of(table, _joined(hashes, powers, start, size, GOLDEN, _SPACE))] == most:
            characters = size - 1
            for offset in range(size):
                characters += lengths[start + offset]
            return characters * most
    return 0


@lean_kernel
def repeated_ngrams(
    hashes: NDArray[np.uint64],
    powers: NDArray[np.uint64],
    lengths: NDArray[np.int32],
    size: int,
    table: NDArray[np.uint64],
) -> int:
    """Return the characters of the runs of words that the text has had before; no two overlap.

    Args:
        hashes: (W,) of the words.
        powers: (W,) the base to the power of their bytes.
        lengths: (W,) their characters.
        size: words in a run.
        table: `empty_set` for W values.
    """
    characters, start = 0, 0
    while start < len(hashes) - size + 1:
        value = _joined(hashes, powers, start, size, _ONE, _ZERO)
        slot = slot_of(table, value)
        if table[slot] == 0:
            table[slot] = value
            start += 1
            continue
        for offset in range(size):
            characters += lengths[start + offset]
        start += size
    return characters


@inlined_kernel
def _joined(
    hashes: NDArray[np.uint64],
    powers: NDArray[np.uint64],
    start: int,
    size: int,
    factor: np.uint64,
    summand: np.uint64,
) -> np.uint64:
    """Return the hash of a run of words, joined by a space (`GOLDEN`, `_SPACE`) or nothing (1, 0)."""
    value = hashes[start]
    for place in range(start + 1, start + size):
        value = (value * factor + summand) * powers[place] + hashes[place]
    return mixed(value)
