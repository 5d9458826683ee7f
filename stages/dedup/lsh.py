"""MinHash-LSH: which documents are worth comparing, found band by band.

A signature is cut into bands of rows; documents that agree on a whole band share a bucket. Bands are
independent, and within a band so are ranges of keys, so the work splits into partitions that each hold a
bounded number of keys (`KEYS_PER_PARTITION`), whatever the corpus.

A bucket of any size costs each of its documents at most `max_candidates` comparisons: with the
best-ranked ones of the bucket. The pairs are never written out: a partition gives, for each document, a
slice of its bucket's best.

Source: Indyk, Motwani 1998; Leskovec, Rajaraman, Ullman 2014, "Mining of Massive Datasets", 3.4.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from stages.dedup.normalization import ShingleConfig
from stages.hashing import FMIX_FACTORS, GOLDEN
from stages.kernels import lean_kernel

KEYS_PER_PARTITION = 1 << 20
"""Distinct keys that one partition of a band holds at the most, on average, unless the run file says
another number; a partition that is being worked on takes about 100 bytes for each."""

_WEIGHTS = (0.1, 0.9)
"""False positives cost a comparison, false negatives a duplicate: datasketch's default weighs them
alike, which at 128 permutations finds only 40% of the pairs at the threshold."""

_SHIFT = np.uint64(32)
_TOGETHER = 512
"""Documents whose keys are computed together, so that they stay in the fastest cache."""


class MinHashConfig(ShingleConfig):
    """Near-duplicate detection."""

    num_perm: int = Field(128, ge=16, le=1024)
    """Number of hashes in a signature. Bands and rows follow from it and from `threshold`."""
    threshold: float = Field(0.8, gt=0.0, le=1.0)
    """Lowest Jaccard similarity at which the worse-ranked of two documents is removed. It is computed
    exactly, from the shingles of both."""
    max_candidates: int = Field(64, ge=1)
    """How many documents of a bucket each of its documents is compared with, at most; the best-ranked
    ones."""


@dataclass(frozen=True)
class Candidates:
    """The comparisons that one partition of a band asks for, without writing out a pair."""

    members: NDArray[np.int64]
    """(M, 3): document, start and count of its slice of `heads`; ascending by document."""
    heads: NDArray[np.int64]
    """(H,): the best-ranked documents of each bucket, bucket after bucket, ascending in each."""

    def pairs(self, first: int, last: int) -> NDArray[np.int64]:
        """Return the pairs (better, worse) whose worse document lies in [first, last): (P, 2) int64."""
        low, high = np.searchsorted(self.members[:, 0], (first, last))
        members = self.members[low:high]
        counts = members[:, 2]
        ends = np.cumsum(counts)
        within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
        better = self.heads[np.repeat(members[:, 1], counts) + within]
        return np.column_stack([better, np.repeat(members[:, 0], counts)])


@cache
def band_shape(threshold: float, num_perm: int) -> tuple[int, int]:
    """Return (bands, rows a band) that cost least at a threshold, as datasketch chooses them.

    The cost is the weighted sum of two areas under P(s) = 1 - (1 - s^r)^b, the chance that a pair of
    similarity s is compared: of P below the threshold, and of 1 - P above it. P is a polynomial of a
    degree of at most num_perm, so Gauss and Legendre's rule integrates it exactly.
    """
    nodes, weights = np.polynomial.legendre.leggauss(num_perm // 2 + 1)
    below, above = threshold * (nodes + 1) / 2, threshold + (1 - threshold) * (nodes + 1) / 2
    best, shape = np.inf, (0, 0)
    for bands in range(1, num_perm + 1):
        rows = np.arange(1, num_perm // bands + 1)[:, None]
        compared = (1 - (1 - below**rows) ** bands) @ weights * threshold / 2
        missed = ((1 - above**rows) ** bands) @ weights * (1 - threshold) / 2
        costs = _WEIGHTS[0] * compared + _WEIGHTS[1] * missed
        if costs.min() < best:
            best, shape = float(costs.min()), (bands, int(costs.argmin()) + 1)
    return shape


def num_partitions(documents: int, *, keys: int = KEYS_PER_PARTITION) -> int:
    """Return the number of key ranges a band is cut into, each with some number of keys at the most."""
    return max(1, -(-documents // keys))


def band_keys(rows: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Return each document's 64-bit key in one band.

    Two different bands share a key with probability 2**-64; that would cost one comparison.

    Args:
        rows: (R, N) uint32, the band's rows of the signatures of N documents.
    """
    keys = np.empty(rows.shape[1], np.uint64)
    _band_keys(rows, keys)
    return keys


@lean_kernel
def _band_keys(rows: NDArray[np.uint32], keys: NDArray[np.uint64]) -> None:
    """Fill in the keys, row by row of some documents: on vector registers, five times as fast."""
    for start in range(0, len(keys), _TOGETHER):
        block = keys[start : start + _TOGETHER]
        block[:] = np.uint64(0)
        for row in range(len(rows)):
            values = rows[row, start : start + _TOGETHER]
            for document in range(len(block)):
                key = (block[document] ^ np.uint64(values[document])) * GOLDEN
                block[document] = key ^ (key >> _SHIFT)
        for document in range(len(block)):
            key = block[document] * FMIX_FACTORS[0]
            block[document] = key ^ (key >> _SHIFT)


def partition_of(keys: NDArray[np.uint64], *, partitions: int) -> NDArray[np.int64]:
    """Return the partition of each key: its high half, scaled to `partitions`."""
    return (((keys >> _SHIFT) * np.uint64(partitions)) >> _SHIFT).astype(np.int64)
