"""Byte windows: strings of k bytes, of which those that cannot stand twice are ruled out first.

A window of k bytes begins at every byte of a text. Hashing and sorting all of them would take 20 bytes
on disk for each byte. So the text is first cut into *stretches*:

    gram       a string of k // 2 bytes inside a window
    minimizer  the least hash of the grams of a window: a function of its bytes alone
    stretch    windows that follow each other and have the same minimizer

Equal windows have equal minimizers. So a window can only stand twice if the minimizer of its stretch is
that of another stretch. In text there is one stretch for about k / 4 windows, and only the windows of
stretches that share their minimizer are hashed one by one. None that stands twice is missed.

    "abcabd", k = 4, ab the least    ->    windows abca, bcab, cabd: all have ab, one stretch

Two equal windows may also lie in one stretch, as in "aaaaaa". Then a gram with the hash of the minimizer
stands in it twice. Such a stretch is given in two parts, so that its minimizer is shared.

Source: minimizers are those of Schleimer, Wilkerson and Aiken 2003, "Winnowing", and of Roberts et al.
2004; there, a sample of the minimizers stands for the text; here, it only rules windows out.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.byte_kernels import fmix64
from stages.dedup.polynomials import (  # the hashes of all spans
    ONE,
    check_of,
    next_check,
    rolled_check,
    top_powers,
)
from stages.hashing import GOLDEN
from stages.kernels import lean_kernel

_LAST = np.uint64(0xFFFFFFFFFFFFFFFF)
_ROOM = 8
"""Times as many stretches as text has on average are there room for at first."""


class Stretches(NamedTuple):
    """The S stretches of a text, ascending."""

    minimizers: NDArray[np.uint64]
    """(S,)"""
    starts: NDArray[np.int64]
    """(S,) the byte where the first window of each begins."""
    counts: NDArray[np.uint32]
    """(S,) windows of each."""


class ByteWindows(NamedTuple):
    """W windows of a text."""

    keys: NDArray[np.uint64]
    """(W,)"""
    checks: NDArray[np.uint32]
    """(W,)"""
    starts: NDArray[np.int64]
    """(W,) the byte where each begins."""


def gram_bytes(min_bytes: int) -> int:
    """Return the bytes of a gram of windows of some bytes."""
    return min_bytes // 2


def stretches_of(text: NDArray[np.uint8], *, min_bytes: int) -> Stretches:
    """Return the stretches of a text, (B,) uint8; none if it is shorter than a window."""
    windows = max(0, len(text) - min_bytes + 1)
    grams = np.empty(min_bytes - gram_bytes(min_bytes) + 1, np.uint64)
    room = min(windows, _ROOM * windows // len(grams) + _ROOM)
    while True:
        found = Stretches(np.empty(room, np.uint64), np.empty(room, np.int64), np.empty(room, np.uint32))
        count = _fill_stretches(text, gram_bytes(min_bytes), grams, found) if windows else 0
        if count <= room:
            return Stretches(found.minimizers[:count], found.starts[:count], found.counts[:count])
        room = windows


def byte_windows(
    text: NDArray[np.uint8], *, starts: NDArray[np.int64], counts: NDArray[np.int64], min_bytes: int
) -> ByteWindows:
    """Return the windows of some stretches of a text.

    Args:
        text: (B,) uint8.
        starts: (S,) ascending, where the first window of each begins.
        counts: (S,) windows of each.
        min_bytes: of a window.
    """
    count = int(counts.sum())
    found = ByteWindows(
        np.empty(count, np.uint64), np.empty(count, np.uint32), np.empty(count, np.int64)
    )
    _fill_windows(text, starts, counts, min_bytes, found)
    return found


@lean_kernel
def _fill_stretches(
    text: NDArray[np.uint8], gram: int, grams: NDArray[np.uint64], found: Stretches
) -> int:
    """Fill in the stretches of a text, and return how many there are, also if there is room for fewer.

    Args:
        text: (B,), no shorter than a window.
        gram: bytes of a gram.
        grams: (G,) the hashes of the last G grams, where G are in a window.
        found: filled.
    """
    within = len(grams)
    value, top = np.uint64(0), top_powers(gram)[0]
    for offset in range(gram):
        value = value * GOLDEN + np.uint64(text[offset]) + ONE
    count, low, place, tied = 0, _LAST, -within - 1, False
    for number in range(len(text) - gram + 1):
        if number:
            old, new = np.uint64(text[number - 1]) + ONE, np.uint64(text[number + gram - 1]) + ONE
            value = (value - old * top) * GOLDEN + new
        hashed = fmix64(value)
        grams[number % within] = hashed
        if hashed <= low:
            tied = hashed == low and number > 0
            low, place = hashed, number
        elif place <= number - within:
            low, tied = _LAST, False
            for other in range(number - within + 1, number + 1):
                if grams[other % within] <= low:
                    tied = grams[other % within] == low
                    low, place = grams[other % within], other
        if number >= within - 1:
            count = _extended(found, count, number - within + 1, low, tied)
    return count


@lean_kernel
def _extended(
    found: Stretches,
    count: int,
    window: int,
    minimizer: np.uint64,
    tied: bool,  # noqa: FBT001 - a kernel takes no keywords
) -> int:
    """Put a window into the last stretch or a new one, and return how many there are."""
    room = len(found.starts)
    if 0 < count <= room and found.minimizers[count - 1] == minimizer:
        split = count > 1 and found.minimizers[count - 2] == minimizer
        if not tied or split:
            found.counts[count - 1] += np.uint32(1)
            return count
    if count < room:
        found.minimizers[count], found.starts[count] = minimizer, window
        found.counts[count] = np.uint32(1)
    return count + 1


@lean_kernel
def _fill_windows(
    text: NDArray[np.uint8],
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
    size: int,
    found: ByteWindows,
) -> None:
    """Hash windows: two polynomials that roll from one window to the next."""
    top, check_top = top_powers(size)
    key, check = np.uint64(0), np.uint64(0)
    row, at = 0, -1
    for stretch in range(len(starts)):
        for window in range(starts[stretch], starts[stretch] + counts[stretch]):
            if at >= 0 and at == window - 1:
                old, new = np.uint64(text[at]) + ONE, np.uint64(text[at + size]) + ONE
                key = (key - old * top) * GOLDEN + new
                check = rolled_check(check, old, new, check_top)
            else:
                key, check = np.uint64(0), np.uint64(0)
                for offset in range(window, window + size):
                    symbol = np.uint64(text[offset]) + ONE
                    key, check = key * GOLDEN + symbol, next_check(check, symbol)
            at = window
            found.keys[row], found.starts[row] = fmix64(key), window
            found.checks[row] = check_of(check)
            row += 1
