"""The exact Jaccard similarity of two shingle sets, by which every candidate pair is verified."""

import numpy as np
from numpy.typing import NDArray

from stages.dedup.shingle_sets import ShingleSets
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
        small, large = min(len(left), len(right)), max(len(left), len(right))
        if large > 0 and small / large >= threshold:
            shared = _intersection(left, right)
            found[pair] = shared / (large + small - shared)


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
