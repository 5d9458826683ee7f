"""Shingle sets: the distinct shingles of many texts, in compiled code.

    "a b c" "" "b c b c"   size 2   ->   sets {a b, b c} {} {b c, c b}

A text of some kilobytes has some hundred shingles, so a Python call for each text would cost more than
the shingles. Long texts are few, and are read block by block.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.dedup.shingles import (
    KINDS,
    fill_shingles,
    fill_tokens,
    keep_distinct,
    shingle_room,
    shingle_set,
)
from stages.kernels import lean_kernel

LONG_TEXT = 1 << 20
"""Bytes of a text that is worked on by itself, and of texts that are worked on together."""
_CROWDED = 64
"""If more hashes of a text than this fall into one place, numpy sorts them."""


class ShingleSets(NamedTuple):
    """The shingles of S texts."""

    values: NDArray[np.uint64]
    """(V,) sets end to end, each ascending and distinct."""
    ptr: NDArray[np.int64]
    """(S + 1,) where each begins in `values`."""


def shingle_sets(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], *, size: int
) -> Iterator[ShingleSets]:
    """Yield the shingle sets of texts in their order, those of some texts at a time.

    Args:
        data: (B,) valid UTF-8, texts end to end.
        offsets: (D + 1,) where each text begins.
        size: tokens in a shingle.
    """
    for first, last in text_slices(offsets):
        part = offsets[first : last + 1]
        text_bytes = int(part[-1] - part[0])
        if text_bytes > LONG_TEXT:
            yield _set_of(data[part[0] : part[-1]], size)
            continue
        room = shingle_room(text_bytes) + len(part)
        values, scratch = np.empty(room, np.uint64), np.empty((2, room), np.uint64)
        ptr, places = np.zeros(len(part), np.int64), np.empty(room + 1, np.int32)
        done = 0
        while done < len(part) - 1:
            done = _fill_sets((data, part, KINDS), size, done, (values, ptr), (scratch, places))
            if done < len(part) - 1:
                large = _set_of(data[part[done] : part[done + 1]], size)
                values[ptr[done] : ptr[done] + len(large.values)] = large.values
                done += 1
                ptr[done] = ptr[done - 1] + len(large.values)
        yield ShingleSets(values[: ptr[-1]].copy(), ptr)


def text_slices(offsets: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield ranges of texts with at most `LONG_TEXT` bytes, or of one text with more."""
    start, count = 0, len(offsets) - 1
    while start < count:
        end = int(np.searchsorted(offsets, offsets[start] + LONG_TEXT, side="right")) - 1
        end = min(max(end, start + 1), count)
        yield start, end
        start = end


def _set_of(text: NDArray[np.uint8], size: int) -> ShingleSets:
    """Return the shingles of one text."""
    values = shingle_set(text, size=size)
    return ShingleSets(values, np.array([0, len(values)]))


@lean_kernel
def _fill_sets(
    texts: tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint8]],
    size: int,
    done: int,
    sets: tuple[NDArray[np.uint64], NDArray[np.int64]],
    scratch: tuple[NDArray[np.uint64], NDArray[np.int32]],
) -> int:
    """Fill in the sets of texts from one on, and return the first that is left out, or their number.

    A text is left out if too many of its hashes are equal.

    Args:
        texts: data (B,), offsets (D + 1,) and `KINDS`.
        size: tokens in a shingle.
        done: texts whose sets are there.
        sets: values and ptr (D + 1,), filled.
        scratch: (2, R) and (R + 1,), as long as a text has tokens.
    """
    data, offsets, kinds = texts
    values, ptr = sets
    hashes, places = scratch
    for text in range(done, len(offsets) - 1):
        part = data[offsets[text] : offsets[text + 1]]
        count, _ = fill_tokens(part, kinds, 0, len(part) + 1, hashes[0])
        count = fill_shingles(hashes[0, :count], size, hashes[1])
        room = values[ptr[text] : ptr[text] + count]
        if not _order(hashes[1, :count], places, room):
            return text
        ptr[text + 1] = ptr[text] + keep_distinct(room)
    return len(offsets) - 1


@lean_kernel
def _order(hashes: NDArray[np.uint64], places: NDArray[np.int32], ordered: NDArray[np.uint64]) -> bool:
    """Write hashes in ascending order, or return False if too many would fall into one place.

    Hashes are even over their range, so the high bits of one say where it belongs, up to a few places:
    every hash is put there, and then moved past the larger ones before it.

    Args:
        hashes: (N,).
        places: (N + 1 or more,), overwritten.
        ordered: (N,), filled.
    """
    count = np.uint64(len(hashes))
    places[: len(hashes) + 1] = 0
    for value in hashes:
        places[_place(value, count) + 1] += 1
    for place in range(len(hashes)):
        if places[place + 1] > _CROWDED:
            return False
        places[place + 1] += places[place]
    for value in hashes:
        place = _place(value, count)
        ordered[places[place]] = value
        places[place] += 1
    for end in range(1, len(hashes)):
        value, place = ordered[end], end
        while place > 0 and ordered[place - 1] > value:
            ordered[place] = ordered[place - 1]
            place -= 1
        ordered[place] = value
    return True


@lean_kernel
def _place(value: np.uint64, count: np.uint64) -> int:
    """Return the place, of as many as there are hashes, that the high half of a hash says."""
    return int(((value >> np.uint64(32)) * count) >> np.uint64(32))
