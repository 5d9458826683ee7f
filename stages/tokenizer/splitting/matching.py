r"""Matching: where expressions cut a text.

As in the library that runs them otherwise, of all ways in which an expression matches the first counts:
branches from left to right, and of the characters of a set as many as there are, then one fewer.

    text       "it's  7up"
    pieces     "it" "'s" " " " " "7" "up"
"""

import numpy as np
from numpy.typing import NDArray

from stages.kernels import lean_kernel
from stages.tokenizer.bpe.utf8 import code_point
from stages.tokenizer.splitting.program import AHEAD, ALL, DONE, FORK, JUMP, TAKE, Splits

_NONE = -1
_CONTINUES, _TOP = 0x80, 0xC0
_ALL, _NOTHING = np.uint64(ALL), np.uint64(0)


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
        limits[level + 1] = _piece_end(level, place, limits[level], data, splits)
        level += 1
    return np.int64(limits[last])  # type: ignore[return-value]


@lean_kernel
def _piece_end(level: int, place: int, end: int, data: NDArray[np.uint8], splits: Splits) -> int:
    """Return where an expression matches to; if it does not match here, where it matches next."""
    begin = place
    while place < end:
        here, size = _sets_at(place, end, data, splits)
        if here & splits.begins[level]:
            found = _match(splits.starts[level], place, end, data, splits)
            if found > place:
                return found if place == begin else place
        place += size
    return end


@lean_kernel
def _sets_at(place: int, end: int, data: NDArray[np.uint8], splits: Splits) -> tuple[np.uint64, int]:
    """Return the sets that the character at a place is in, and its size in bytes; none at the end."""
    if place >= end:
        return _NOTHING, 0
    point, size = code_point(data, place)
    return splits.sets[splits.kinds[point]], size


@lean_kernel
def _match(step: int, place: int, end: int, data: NDArray[np.uint8], splits: Splits) -> int:
    """Return where a program matches to from a place, or `_NONE`."""
    steps, bits, depth = splits.steps, splits.bits, 0
    here, size = _sets_at(place, end, data, splits)
    while steps[step, 0] != DONE:
        what, passes, follows = steps[step, 0], True, step + 1
        if what == TAKE:
            count, enough, least, most = 0, place, steps[step, 2], steps[step, 3]
            while count < most and here & bits[step]:
                place += size
                count += 1
                enough = place if count <= least else enough
                here, size = _sets_at(place, end, data, splits)
            passes = count >= least
            if passes and place > enough and steps[step, 4]:
                depth = _keep(depth, follows, place, enough, splits.stack)
        elif what == FORK:
            if bits[step] == _ALL or here & bits[step]:
                depth = _keep(depth, steps[step, 1], place, place, splits.stack)
            else:
                follows = steps[step, 1]
        elif what == JUMP:
            follows = steps[step, 1]
        else:
            passes = (here & bits[step] != 0) == (what == AHEAD)
        step = follows
        if not passes:
            if depth == 0:
                return _NONE
            depth, step, place = _go_back(depth, data, splits.stack)
            here, size = _sets_at(place, end, data, splits)
    return place


@lean_kernel
def _keep(depth: int, step: int, place: int, enough: int, stack: NDArray[np.int64]) -> int:
    """Keep where to go on if what is tried now fails; return how many of them are kept."""
    stack[depth, 0], stack[depth, 1], stack[depth, 2] = step, place, enough
    return depth + 1


@lean_kernel
def _go_back(depth: int, data: NDArray[np.uint8], stack: NDArray[np.int64]) -> tuple[int, int, int]:
    """Return how many are kept then, and the step and the place to go on with: one character fewer."""
    step, place, enough = stack[depth - 1, 0], stack[depth - 1, 1], stack[depth - 1, 2]
    if place == enough:  # of a fork: the other branch
        return depth - 1, step, place
    place -= 1
    while data[place] & _TOP == _CONTINUES:
        place -= 1
    stack[depth - 1, 1] = place
    return depth - (place == enough), step, place
