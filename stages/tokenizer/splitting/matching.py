"""Matching: where expressions cut a text.

    text       "it's  7up"
    pieces     "it" "'s" " " " " "7" "up"

What an expression matches is a piece, and so is what lies between two matches.
"""

import numpy as np
from numpy.typing import NDArray

from stages.kernels import lean_kernel
from stages.tokenizer.bpe.utf8 import ASCII, code_point
from stages.tokenizer.splitting.automaton import OVER, Splits

_NONE = -1


@lean_kernel
def begin_text(place: int, end: int, splits: Splits) -> None:
    """Go to the beginning of a text."""
    splits.limits[:] = place
    splits.limits[0] = end


@lean_kernel
def next_piece(place: int, data: NDArray[np.uint8], splits: Splits) -> int:
    """Return where the piece ends that begins at a place before the end of the text."""
    limits, last = splits.limits, len(splits.starts)
    level = last
    while level > 0 and limits[level] == place:
        level -= 1
    while level < last:
        limits[level + 1] = _piece_end(splits.starts[level], place, limits[level], data, splits)
        level += 1
    return np.int64(limits[last])  # type: ignore[return-value]


@lean_kernel
def _piece_end(start: int, place: int, end: int, data: NDArray[np.uint8], splits: Splits) -> int:
    """Return where an expression matches to; if it does not match here, where it matches next."""
    found = _match(start, place, end, data, splits)
    if found != _NONE:
        return found
    while place < end:
        place += code_point(data, place)[1]
        if place < end and _match(start, place, end, data, splits) != _NONE:
            return place
    return end


@lean_kernel
def _match(state: int, place: int, end: int, data: NDArray[np.uint8], splits: Splits) -> int:
    """Return where an expression matches to from a place, or `_NONE`."""
    moves, kinds, found = splits.moves, splits.kinds, _NONE
    while True:
        kind, size = splits.num_kinds, 0
        if place < end:
            point, size = np.int64(data[place]), 1
            if point >= ASCII:
                point, size = code_point(data, place)
            kind = kinds[point]
        move = int(moves[state + kind])
        if move & 1:
            found = place
        state = move >> 1
        if state == OVER:
            return found
        place += size
