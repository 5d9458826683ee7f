"""Semantic duplicates: documents that say the same in other words, found by embeddings.

    text -> encoder -> vector -> int8 -> nearest of k centroids -> pairs over the threshold in a cluster

Vectors are rounded to int8 once. From there on all is exact: dot products of int8 are integers, and
matrices are multiplied in a format that holds each partial sum (float32 up to 2^24, 1,040 dimensions;
float64 up to 2^53), so the order of additions changes nothing. The result is a function of the rounded
vectors, on any machine.

Source: Abbas et al. 2023, "SemDeDup: Data-efficient learning at web-scale through semantic
deduplication", arXiv 2303.09540. There the document farthest from the centre of a cluster stays; here
ranks decide, as for all duplicates.
"""

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from stages.config import Config
from stages.kernels import lean_kernel

_TOP = 127
_ROUNDS = 10
_FLOAT32 = (1 << 24) // _TOP**2
"""Dimensions up to which products are exact in float32."""
_BLOCK = 1_024
"""Documents that are compared with heads at a time."""
_COLUMNS = 4_096
"""Heads, or centroids, that they are compared with at a time: 16 MiB of products, or 32."""
MAX_HEADS = 1 << 14
"""Best-ranked documents of a cluster that all its documents are compared with."""
CLUSTER_SIZE = 2_048
"""Documents of a cluster on average, unless `clusters` says otherwise."""
MAX_CLUSTERS = 1 << 14
"""Of a larger corpus clusters are larger."""
SAMPLE = 1 << 16
"""Documents that centroids are found with, about."""


_ENCODER = re.compile(r"wordllama|[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class SemanticConfig(Config):
    """Documents that say the same in other words."""

    encoder: str = "wordllama"
    """What turns texts into embeddings: `wordllama`, static embeddings from the package of that name, or
    your own function as "package.module:encode". It takes a list of texts and returns an array
    (texts, dimensions). Workers call it with a batch of texts; it may use torch and a GPU."""
    version: int = Field(0, ge=0)
    """Version of your own encoder: raise it when the encoder changes."""
    threshold: float = Field(0.97, gt=0.0, le=1.0)
    """Lowest cosine similarity of two embeddings at which the worse-ranked document is removed."""
    clusters: int | None = Field(None, ge=1)
    """Number of clusters within which documents are compared. By default one for each 2,048
    documents."""
    max_candidates: int = Field(64, ge=1)
    """How many documents over the threshold a document is paired with, at most; the best-ranked ones."""

    @field_validator("encoder")
    @classmethod
    def _encoder_is_named(cls, encoder: str) -> str:
        if not _ENCODER.fullmatch(encoder):
            raise ValueError(
                'must be "wordllama", or the name of a function, such as "package.module:encode"'
            )
        return encoder


def num_clusters(documents: int, config: SemanticConfig) -> int:
    """Return the number of clusters: a function of the corpus alone."""
    return config.clusters or min(max(1, -(-documents // CLUSTER_SIZE)), MAX_CLUSTERS)


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


def products(a: NDArray[np.int8], b: NDArray[np.int8]) -> NDArray[np.floating]:
    """Return the dot products of vectors with others: (A, B), whole numbers."""
    if a.shape[1] <= _FLOAT32:
        return a.astype(np.float32) @ b.astype(np.float32).T
    return a.astype(np.float64) @ b.astype(np.float64).T


def cosines(a: NDArray[np.int8], b: NDArray[np.int8]) -> NDArray[np.float64]:
    """Return the cosine similarities of vectors with others: (A, B); 0 with a vector of zeros."""
    lengths = norms(a)[:, None] * norms(b)[None, :]
    lengths[lengths == 0.0] = np.inf
    found: NDArray[np.float64] = products(a, b).astype(np.float64) / lengths
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
        _add_members(sample, nearest, sums)
        filled = np.bincount(nearest, minlength=count) > 0
        centroids = np.where(filled[:, None], rounded(sums.astype(np.float64)), centroids)
    return centroids


def nearest_centroids(vectors: NDArray[np.int8], centroids: NDArray[np.int8]) -> NDArray[np.int64]:
    """Return the nearest centroid of each vector and the one after it, (N, 2); twice the same of one.

    Of equally near ones the first counts.
    """
    found = np.zeros((len(vectors), 2), np.int64)
    lengths = norms(centroids)
    for start in range(0, len(vectors), _BLOCK):
        rows = slice(start, start + _BLOCK)
        near = np.full((len(found[rows]), 2), -np.inf)
        for first in range(0, len(centroids), _COLUMNS):
            part = slice(first, first + _COLUMNS)
            _keep_nearest(
                products(vectors[rows], centroids[part]), lengths[part], first, found[rows], near
            )
    if len(centroids) == 1:
        found[:, 1] = found[:, 0]
    return found


class RankedVectors(NamedTuple):
    """Documents of a cluster by rank."""

    vectors: NDArray[np.int8]
    """(N, D)."""
    ranks: NDArray[np.int64]
    """(N,) ascending."""


def similar_pairs(
    heads: RankedVectors, block: RankedVectors, config: SemanticConfig
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return of each document of a block the best-ranked heads over the threshold.

    A head is compared with documents that it outranks. A document gives at most `max_candidates` pairs.

    Args:
        heads: the best-ranked documents of the cluster.
        block: some documents of the cluster; may be heads themselves.
        config: threshold, and how many better ones each document is paired with.

    Returns:
        (P,) each: places among the heads, places in the block, similarities; ascending by block.
    """
    better = np.searchsorted(heads.ranks, block.ranks)
    lengths = norms(heads.vectors), norms(block.vectors)
    shape = len(block.ranks), min(config.max_candidates, max(1, int(better.max(initial=0))))
    chosen = np.zeros(len(better), np.int64), np.zeros(shape, np.int64), np.zeros(shape)
    for start in range(0, int(better.max(initial=0)), _COLUMNS):
        part = slice(start, start + _COLUMNS)
        found = products(block.vectors, heads.vectors[part])
        limits = np.minimum(better - start, found.shape[1])
        _choose(found, (lengths[1], lengths[0][part]), limits, config.threshold, start, chosen)
    counts, places, similarity = chosen
    filled = np.arange(shape[1]) < counts[:, None]
    return places[filled], np.repeat(np.arange(len(counts)), counts), similarity[filled]


@lean_kernel
def _add_members(sample: NDArray[np.int8], nearest: NDArray[np.int64], sums: NDArray[np.int64]) -> None:
    """Add each vector to the sum of its cluster."""
    for row in range(len(sample)):
        for place in range(sample.shape[1]):
            sums[nearest[row], place] += sample[row, place]


@lean_kernel
def _keep_nearest(
    found: NDArray[np.floating],
    lengths: NDArray[np.float64],
    first: int,
    nearest: NDArray[np.int64],
    near: NDArray[np.float64],
) -> None:
    """Keep the two nearest of the centroids so far and of some more.

    Args:
        found: (N, C) products of vectors and these centroids.
        lengths: (C,) of the centroids.
        first: number of the first of these centroids.
        nearest: (N, 2) the centroids so far; filled.
        near: (N, 2) how near they are; filled.
    """
    for row in range(len(found)):
        for column in range(found.shape[1]):
            length = lengths[column]
            score = found[row, column] / length if length > 0 else 0.0
            if score > near[row, 0]:
                near[row, 1], nearest[row, 1] = near[row, 0], nearest[row, 0]
                near[row, 0], nearest[row, 0] = score, first + column
            elif score > near[row, 1]:
                near[row, 1], nearest[row, 1] = score, first + column


@lean_kernel
def _choose(
    found: NDArray[np.floating],
    lengths: tuple[NDArray[np.float64], NDArray[np.float64]],
    limits: NDArray[np.int64],
    threshold: float,
    start: int,
    chosen: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]],
) -> None:
    """Go on choosing heads for each document.

    Args:
        found: (N, C) products of documents and some heads.
        lengths: of the documents (N,) and of these heads (C,).
        limits: (N,) how many of these heads outrank each document.
        threshold: lowest similarity.
        start: place of the first of these heads.
        chosen: how many heads each document has (N,), which ones and how similar (N, M); filled.
    """
    counts, places, similarity = chosen
    for row in range(len(found)):
        for column in range(limits[row]):
            if counts[row] == places.shape[1]:
                break
            length = lengths[0][row] * lengths[1][column]
            score = found[row, column] / length if length > 0 else 0.0
            if score >= threshold:
                places[row, counts[row]] = start + column
                similarity[row, counts[row]] = score
                counts[row] += 1
