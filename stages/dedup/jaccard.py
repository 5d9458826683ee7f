"""The exact Jaccard similarity of two shingle sets, by which every candidate pair is verified."""

import numpy as np
from numpy.typing import NDArray

from stages.dedup.shingle_sets import ShingleSets
from stages.kernels import lean_kernel

_STEPS = 32
"""Steps of a walk between two looks at what may still be shared."""


def jaccard(a: NDArray[np.uint64], b: NDArray[np.uint64], *, threshold: float) -> float:
    """Return |A & B| / |A | B|, or 0.0 if that is under the threshold.

    {1 2 3}, {2 3 4} -> 0.5

    Args:
        a: (A,) uint64, ascending, distinct.
        b: (B,) uint64, ascending, distinct.
        threshold: the similarity that matters; sets that cannot reach it are not walked to
            their ends.
    """
    return float(_jaccard(a, b, threshold))


def similarities(
    a: ShingleSets,
    b: ShingleSets,
    *,
    rows: tuple[NDArray[np.int64], NDArray[np.int64]],
    threshold: float,
) -> NDArray[np.float64]:
    """Return what `jaccard` gives of many pairs of sets.

    Args:
        a: sets.
        b: the sets that those are compared with; may be the same.
        rows: (P,) int64 each: of each pair, which set of `a`, and which of `b`.
        threshold: the similarity that matters.

    Returns:
        (P,) float64.
    """
    found = np.zeros(len(rows[0]), np.float64)
    _similarities((a.values, a.ptr, rows[0]), (b.values, b.ptr, rows[1]), threshold, found)
    return found


@lean_kernel
def _similarities(
    a: tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]],
    b: tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]],
    threshold: float,
    found: NDArray[np.float64],
) -> None:
    """Fill in the similarity of each pair; of each side come the values, where sets begin, and rows."""
    a_values, a_ptr, a_rows = a
    b_values, b_ptr, b_rows = b
    for pair in range(len(found)):
        left = a_values[a_ptr[a_rows[pair]] : a_ptr[a_rows[pair] + 1]]
        right = b_values[b_ptr[b_rows[pair]] : b_ptr[b_rows[pair] + 1]]
        found[pair] = _jaccard(left, right, threshold)


@lean_kernel
def _jaccard(a: NDArray[np.uint64], b: NDArray[np.uint64], threshold: float) -> float:
    """Walk two ascending arrays together while they may still be as similar as the threshold.

    Which of two hashes is less cannot be foretold, so each step goes on by comparisons alone: a jump
    that is foretold wrongly costs more than the whole step. What both may still share is looked at once
    in some steps.
    """
    i, j, shared = np.uint64(0), np.uint64(0), 0
    ends, total = (np.uint64(len(a)), np.uint64(len(b))), len(a) + len(b)
    while True:
        most = shared + int(min(ends[0] - i, ends[1] - j))
        if most == 0 or most / (total - most) < threshold:
            return 0.0
        if i == ends[0] or j == ends[1]:
            return shared / (total - shared)
        for _ in range(_STEPS):
            if i == ends[0] or j == ends[1]:
                break
            left, right = a[i], b[j]
            shared += left == right
            i += np.uint64(left <= right)
            j += np.uint64(right <= left)
