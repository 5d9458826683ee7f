"""Spherical k-means: which texts are near enough in meaning to be compared.

Comparing all texts costs the square of their number, so texts are compared within a cluster only. The
centroids are those of a sample, which is drawn by the hashes of the documents' ids: in which order they
come, and in which units, does not matter. All arithmetic is that of `semantic_vectors`, so centroids and
clusters are the same on every machine.

Source: Abbas et al. 2023, "SemDeDup", section 3 (arXiv 2303.09540). We leave it in two places: centroids
are learned from a sample, and each text is put into the clusters of its two nearest centroids, because
texts of one meaning may lie on both sides of a border.
"""

from collections.abc import Iterator
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from stages.dedup.semantic_vectors import exact_products, rounded_sums, squared_lengths
from stages.kernels import lean_kernel

MAX_CLUSTERS = 1 << 14
SAMPLED_OF_EACH = 64
"""Documents of the sample for each cluster, unless the sample would be too large."""
SAMPLE_BYTES = 128 << 20
"""Of the sample's embeddings."""
NEAREST = 2
"""Centroids to which a text belongs."""
ROUNDS = 10
_BLOCK = 1 << 22
"""Products that are held at a time: 16 or 32 MiB."""
_ONE = 1 << 20
"""What a vector weighs, times its length."""


def num_clusters(documents: int) -> int:
    """Return the default number of clusters: the square root of the number of documents, at most 16,384.

    With it, finding the clusters costs as much as comparing the documents in them.
    """
    return max(1, min(MAX_CLUSTERS, isqrt(documents)))


def sample_size(clusters: int, *, dimensions: int) -> int:
    """Return how many documents are in the sample, if there are as many."""
    return max(clusters, min(SAMPLED_OF_EACH * clusters, SAMPLE_BYTES // dimensions))


def spherical_centroids(sample: NDArray[np.int8], clusters: int) -> NDArray[np.int8]:
    """Return the centroids of a sample: (K, D) int8, K at most `clusters`.

    The first vectors of the sample are the first centroids. A cluster that is left without vectors keeps
    its centroid.

    Args:
        sample: (S, D) vectors in an order that is random, and a function of the corpus and the seed.
        clusters: how many are wanted.
    """
    centroids = sample[:clusters].copy()
    weights = _weights(squared_lengths(sample))
    before = np.empty(0, np.int32)
    for _ in range(ROUNDS if len(sample) else 0):
        labels = nearest_centroids(sample, centroids, count=1)[:, 0]
        if np.array_equal(labels, before):
            break
        sums = np.zeros(centroids.shape, np.int64)
        _add_members(sample, weights, labels, sums)
        filled = sums.any(axis=1)
        centroids[filled] = rounded_sums(sums[filled])
        before = labels
    return centroids


def nearest_centroids(
    vectors: NDArray[np.int8], centroids: NDArray[np.int8], *, count: int = NEAREST
) -> NDArray[np.int32]:
    """Return the nearest centroids of each vector: (N, count or K) int32; of equally near ones the first.

    Args:
        vectors: (N, D).
        centroids: (K, D), at least one.
        count: how many.
    """
    found = np.empty((len(vectors), min(count, len(centroids))), np.int32)
    # rounded once for each number alone, so this is the same everywhere
    scales = (1 / np.sqrt(np.maximum(squared_lengths(centroids), 1))).astype(np.float32)
    for rows in _blocks(len(vectors), max(1, _BLOCK // len(centroids))):
        scores = exact_products(vectors[rows], centroids) * scales
        for column in range(found.shape[1]):
            best = scores.argmax(axis=1)
            found[rows, column] = best
            scores[np.arange(len(scores)), best] = -np.inf
    return found


def _blocks(rows: int, size: int) -> Iterator[slice]:
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def _weights(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what vectors are multiplied with so that all are of one length: (N,) int64."""
    return np.rint(_ONE / np.sqrt(np.maximum(lengths, 1))).astype(np.int64)


@lean_kernel
def _add_members(
    sample: NDArray[np.int8],
    weights: NDArray[np.int64],
    labels: NDArray[np.int32],
    sums: NDArray[np.int64],
) -> None:
    for row in range(len(sample)):
        for place in range(sample.shape[1]):
            sums[labels[row], place] += weights[row] * np.int64(sample[row, place])
