"""The exact Jaccard similarity of two shingle sets, by which every candidate pair is verified."""

import numpy as np
from numpy.typing import NDArray

from stages.kernels import lean_kernel


def jaccard(a: NDArray[np.uint64], b: NDArray[np.uint64], *, threshold: float) -> float:
    """Return |A & B| / |A | B|, or 0.0 where the sizes alone put it under the threshold.

    {1 2 3}, {2 3 4} -> 0.5

    Args:
        a: (A,) uint64, ascending, distinct.
        b: (B,) uint64, ascending, distinct.
        threshold: the similarity that matters; sets whose sizes differ too much are not walked.
    """
    small, large = min(len(a), len(b)), max(len(a), len(b))
    if large == 0 or small / large < threshold:
        return 0.0
    shared = _intersection(a, b)
    return float(shared / (large + small - shared))


def similarities(
    a: NDArray[np.uint64],
    values: NDArray[np.uint64],
    ptr: NDArray[np.int64],
    *,
    rows: NDArray[np.int64],
    threshold: float,
) -> NDArray[np.float64]:
    """Return what `jaccard` gives of one set with each of many.

    Args:
        a: (A,) uint64, ascending, distinct.
        values: (V,) uint64, sets end to end, each ascending and distinct.
        ptr: (S + 1,) int64, where each set begins in `values`.
        rows: (R,) int64, the sets that `a` is compared with.
        threshold: the similarity that matters.

    Returns:
        (R,) float64.
    """
    found = np.zeros(len(rows), np.float64)
    _similarities(a, values, ptr, rows, threshold, found)
    return found


@lean_kernel
def _similarities(
    a: NDArray[np.uint64],
    values: NDArray[np.uint64],
    ptr: NDArray[np.int64],
    rows: NDArray[np.int64],
    threshold: float,
    found: NDArray[np.float64],
) -> None:
    for place in range(len(rows)):
        b = values[ptr[rows[place]] : ptr[rows[place] + 1]]
        small, large = min(len(a), len(b)), max(len(a), len(b))
        if large > 0 and small / large >= threshold:
            shared = _intersection(a, b)
            found[place] = shared / (large + small - shared)


@lean_kernel
def _intersection(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> int:
    """Count common values of two ascending arrays.

    Which of two hashes is less cannot be foretold, so each step goes on by comparisons alone: a jump
    that is foretold wrongly costs more than the whole step.
    """
    i, j, shared = np.uint64(0), np.uint64(0), 0
    while i < np.uint64(len(a)) and j < np.uint64(len(b)):
        left, right = a[i], b[j]
        shared += left == right
        i += np.uint64(left <= right)
        j += np.uint64(right <= left)
    return shared
