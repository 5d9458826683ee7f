"""Containment: short documents inside longer ones, which are too unlike as wholes for MinHash to find.

    A  "a b c d e"             shingles {abc bcd cde}
    B  "x a b c d e y z .."    of which B has all: containment of A in B = |A & B| / |A| = 1.0

Candidates: of each window of `WINDOW` neighbouring shingles the least hash is selected. Where two texts
share that many neighbouring shingles, they have selected the same hash, so a document inside of another
one shares most of its selected hashes with it. Two documents are compared if they share a part of those
of the one that may go. A text with fewer shingles than a window selects all of them.

Source: Schleimer, Wilkerson, Aiken 2003, "Winnowing: Local Algorithms for Document Fingerprinting",
3.2. Of equal hashes in a window the paper selects the last; hashes alone count here.
"""

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from stages.config import Config
from stages.dedup.shingle_sets import ShingleSets
from stages.kernels import lean_kernel

WINDOW = 4
"""Shingles of a window: two of five are selected. Against brute force, on 11 MB of Python files with
parts of them planted, 98.5% to 99.2% of the pairs at or over a threshold of 0.8 to 1.0 are compared;
with windows of 5 it is 89% to 95%, since documents of three or four shingles are missed."""
SHARE = 0.5
"""Of its selected hashes that a document shares with one that it is compared with, as a part of the
threshold: what is selected is a sample of the shingles."""


_ROUNDING = 1e-9


class ContainmentConfig(Config):
    """Documents that stand inside of others."""

    threshold: float = Field(0.9, gt=0.0, le=1.0)
    """Lowest share of a document's shingles that a better-ranked one must have for its removal. Only the
    worse-ranked document can be removed, so set `dedup.keep = "longest"`: with "first", a short document
    that comes before the long one stays."""
    max_candidates: int = Field(64, ge=1)
    """How many documents with a common shingle a document is compared with, at most; the best-ranked
    ones."""


def least_shared_of(selected: NDArray[np.integer], threshold: float) -> NDArray[np.int64]:
    """Return how many of its selected hashes a document must share to be compared: (N,), 1 at least."""
    least = np.ceil(selected * (threshold * SHARE) - _ROUNDING)
    found: NDArray[np.int64] = np.maximum(1, least).astype(np.int64)
    return found


def winnowed(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the distinct hashes that are selected of a text's shingles in order, ascending, uint64."""
    if len(hashes) < WINDOW:
        return np.unique(hashes)
    found = np.empty(len(hashes), np.uint64)
    count = _winnow(np.ascontiguousarray(hashes), WINDOW, found)
    return np.unique(found[:count])


@lean_kernel
def _winnow(hashes: NDArray[np.uint64], window: int, found: NDArray[np.uint64]) -> int:
    """Fill in the least hash of each window when another one becomes it; return their number."""
    count, place = 0, -1
    for end in range(window, len(hashes) + 1):
        start = end - window
        if place < start:
            place = start
            for other in range(start + 1, end):
                if hashes[other] <= hashes[place]:
                    place = other
        elif hashes[end - 1] <= hashes[place]:
            place = end - 1
        else:
            continue
        found[count] = hashes[place]
        count += 1
    return count


def containments(
    inner: ShingleSets,
    outer: ShingleSets,
    *,
    rows: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> NDArray[np.float64]:
    """Return |A & B| / |A| of pairs of sets; 0.0 where A is empty.

    Args:
        inner: sets.
        outer: the sets that those are compared with; may be the same.
        rows: (P,) int64 each: of each pair, which set of `inner`, and which of `outer`.

    Returns:
        (P,) float64.
    """
    found = np.zeros(len(rows[0]), np.float64)
    _containments((inner.values, inner.ptr, rows[0]), (outer.values, outer.ptr, rows[1]), found)
    return found


@lean_kernel
def _containments(
    a: tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]],
    b: tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]],
    found: NDArray[np.float64],
) -> None:
    for pair in range(len(found)):
        inner = a[0][a[1][a[2][pair]] : a[1][a[2][pair] + 1]]
        outer = b[0][b[1][b[2][pair]] : b[1][b[2][pair] + 1]]
        i, j, shared = 0, 0, 0
        while i < len(inner) and j < len(outer):
            shared += inner[i] == outer[j]
            step = inner[i] <= outer[j]
            j += inner[i] >= outer[j]
            i += step
        if len(inner):
            found[pair] = shared / len(inner)
