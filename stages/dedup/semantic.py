"""Semantic duplicates: documents that say the same in other words, found by embeddings.

    text -> encoder -> vector -> int8 -> nearest of k centroids -> pairs over the threshold in a cluster

Vectors are rounded to int8 once. From there on all is exact: dot products of int8 are integers below
2^24, which float32 holds, in whatever order they are added. So the result is a function of the rounded
vectors, on any machine.

Source: Abbas et al. 2023, "SemDeDup: Data-efficient learning at web-scale through semantic
deduplication", arXiv 2303.09540. There the document farthest from the centre of a cluster stays; here
ranks decide, as for all duplicates.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from stages.config import Config

_TOP = 127
_ROUNDS = 10
_BLOCK = 1_024
"""Documents that are compared with a cluster at a time: 128 MiB of similarities of the largest."""
MAX_CLUSTER = 1 << 14
"""Documents of a cluster that are compared with each other; a larger one is cut, best-ranked first."""
CLUSTER_SIZE = 2_048
"""Documents of a cluster on average, unless `clusters` says otherwise."""
SAMPLE = 1 << 16
"""Documents that centroids are found with, about."""


class SemanticConfig(Config):
    """Documents that say the same in other words."""

    encoder: str = Field("wordllama", pattern=r"^wordllama$|^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
    """What embeds texts: `wordllama`, static embeddings that are in the package of that name, or a
    function of your own as "package.module:encode". It takes a list of texts and returns an array
    (texts, dimensions). The workers call it with some texts at a time; it may use torch and a GPU."""
    version: int = Field(0, ge=0)
    """For you to raise when your encoder changes."""
    threshold: float = Field(0.97, gt=0.0, le=1.0)
    """Lowest cosine similarity of two embeddings at which a document goes."""
    clusters: int | None = Field(None, ge=1)
    """Clusters in which documents are compared; by default one for each 2,048 documents."""
    max_candidates: int = Field(64, ge=1)
    """Best-ranked documents over the threshold with which a document is paired."""


def num_clusters(documents: int, config: SemanticConfig) -> int:
    """Return the number of clusters: a function of the corpus alone."""
    return config.clusters or max(1, -(-documents // CLUSTER_SIZE))


def rounded(vectors: NDArray[np.floating]) -> NDArray[np.int8]:
    """Return vectors, (N, D), with their largest component as 127; what is no number becomes 0."""
    clean = np.nan_to_num(np.asarray(vectors, np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    largest = np.abs(clean).max(axis=1, initial=0.0, keepdims=True)
    largest[largest == 0.0] = 1.0
    whole: NDArray[np.int8] = np.rint(clean / largest * _TOP).astype(np.int8)
    return whole


def norms(vectors: NDArray[np.int8]) -> NDArray[np.float64]:
    """Return the lengths of vectors: (N,); of an empty text's vector 0."""
    wide = vectors.astype(np.int64)
    lengths: NDArray[np.float64] = np.sqrt((wide * wide).sum(axis=1).astype(np.float64))
    return lengths


def cosines(a: NDArray[np.int8], b: NDArray[np.int8]) -> NDArray[np.float64]:
    """Return the cosine similarities of vectors with others: (A, B); 0 with a vector of zeros."""
    dots = (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float64)
    lengths = norms(a)[:, None] * norms(b)[None, :]
    lengths[lengths == 0.0] = np.inf
    found: NDArray[np.float64] = dots / lengths
    return found


def find_centroids(sample: NDArray[np.int8], count: int) -> NDArray[np.int8]:
    """Return centroids of spherical k-means: (at most `count`, D).

    The first ones are spread evenly over the sample, in its order.

    Args:
        sample: (S, D), in an order that the corpus alone decides.
        count: centroids; no more than vectors.
    """
    count = min(count, len(sample))
    centroids = sample[np.arange(count) * len(sample) // max(count, 1)]
    for _ in range(_ROUNDS if count > 1 else 0):
        nearest = nearest_centroids(sample, centroids)[:, 0]
        sums = np.zeros((count, sample.shape[1]), np.int64)
        np.add.at(sums, nearest, sample.astype(np.int64))
        filled = np.bincount(nearest, minlength=count) > 0
        centroids = np.where(filled[:, None], rounded(sums.astype(np.float64)), centroids)
    return centroids


def nearest_centroids(vectors: NDArray[np.int8], centroids: NDArray[np.int8]) -> NDArray[np.int64]:
    """Return the nearest centroid of each vector and the one after it, (N, 2); twice the same of one.

    Of equally near ones the first counts.
    """
    found = np.empty((len(vectors), 2), np.int64)
    for start in range(0, len(vectors), _BLOCK):
        near = cosines(vectors[start : start + _BLOCK], centroids)
        rows = np.arange(len(near))
        found[start : start + _BLOCK, 0] = near.argmax(axis=1)
        near[rows, found[start : start + _BLOCK, 0]] = -np.inf
        second = near.argmax(axis=1) if near.shape[1] > 1 else found[start : start + _BLOCK, 0]
        found[start : start + _BLOCK, 1] = second
    return found


def similar_pairs(
    vectors: NDArray[np.int8], config: SemanticConfig
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]]:
    """Yield the pairs of a cluster over the threshold: better rows, worse rows, similarities.

    Args:
        vectors: (M, D), the best-ranked document first; at most `MAX_CLUSTER`.
        config: threshold, and how many better ones each document is paired with.
    """
    for start in range(0, len(vectors), _BLOCK):
        end = min(start + _BLOCK, len(vectors))
        near = cosines(vectors[start:end], vectors[:end])
        over = near >= config.threshold
        over &= np.arange(end)[None, :] < np.arange(start, end)[:, None]
        over &= np.cumsum(over, axis=1) <= config.max_candidates
        worse, better = np.nonzero(over)
        yield better, worse + start, near[worse, better]
