"""The exact Jaccard similarity of two shingle sets, by which every candidate pair is verified."""

import numpy as np
from numpy.typing import NDArray

from stages.kernels import kernel


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
    return shared / (len(a) + len(b) - shared)


@kernel
def _intersection(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> int:
    """Count common values of two ascending arrays."""
    i, j, shared = 0, 0, 0
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            shared += 1
            i += 1
            j += 1
        elif a[i] < b[j]:
            i += 1
        else:
            j += 1
    return shared
