"""Pairs of one meaning: the texts of a cluster, each compared with those of better rank.

    heads     the cluster's best-ranked documents, by rank: all of them, unless the cluster is very large
    block     some of its documents, by rank
    edges     of each of the block, the best-ranked heads whose cosine reaches the threshold

A cluster may be of any size: one page in a thousand editions, or a language. What is held is the heads
and one block. A document gives at most `max_candidates` pairs, with its best-ranked ones.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.dedup.semantic_vectors import cosine, dot, exact_products, squared_lengths
from stages.kernels import lean_kernel

HEAD_BYTES = 32 << 20
"""Of the embeddings of a cluster's heads: 131,072 documents with 256 dimensions."""
BLOCK = 1_024
"""Documents that are compared at a time."""
_COLUMNS = 4_096
"""Heads that they are compared with at a time."""


class RankedVectors(NamedTuple):
    """Documents by rank."""

    vectors: NDArray[np.int8]
    """(N, D)."""
    ranks: NDArray[np.int64]
    """(N,) ascending."""


def max_heads(dimensions: int) -> int:
    """Return how many documents of a cluster the others are compared with."""
    return HEAD_BYTES // dimensions


def similar_pairs(
    heads: RankedVectors, block: RankedVectors, *, threshold: float, max_candidates: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return of each document of a block the best-ranked heads that are as similar as the threshold.

    Args:
        heads: (H, D).
        block: (N, D), of the same cluster; may be heads themselves.
        threshold: lowest cosine.
        max_candidates: heads of one document.

    Returns:
        (P, 2) int64, head and document by their places, ascending by (document, head), and the cosine of
        each, (P,) float64.
    """
    better = np.searchsorted(heads.ranks, block.ranks)
    lengths = squared_lengths(heads.vectors), squared_lengths(block.vectors)
    found = np.zeros((len(block.ranks), max_candidates), np.int64)
    similarity = np.zeros(found.shape)
    counts = np.zeros(len(found), np.int64)
    for start in range(0, int(better.max(initial=0)), _COLUMNS):
        columns = slice(start, start + _COLUMNS)
        part = heads.vectors[columns], lengths[0][columns]
        products = exact_products(block.vectors, part[0])
        limits = np.minimum(better - start, len(part[0]))
        _choose(products, (lengths[1], part[1]), limits, threshold, start, (counts, found, similarity))
    chosen = np.arange(max_candidates) < counts[:, None]
    documents = np.repeat(np.arange(len(counts)), counts)
    pairs = np.column_stack([found[chosen], documents])
    assert _are_similar((heads.vectors, block.vectors), lengths, pairs, threshold), "a product is wrong"
    return pairs, similarity[chosen]


@lean_kernel
def _choose(
    products: NDArray[np.floating],
    lengths: tuple[NDArray[np.int64], NDArray[np.int64]],
    limits: NDArray[np.int64],
    threshold: float,
    start: int,
    chosen: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]],
) -> None:
    """Go on choosing heads for each document.

    Args:
        products: (N, C) of documents and heads.
        lengths: squared, of the documents (N,) and of the heads (C,).
        limits: (N,) how many of these heads are of a better rank.
        threshold: lowest cosine.
        start: place of the first of these heads.
        chosen: how many each document has, (N,), which they are, and how similar, (N, M) each; filled.
    """
    counts, found, similarity = chosen
    for row in range(len(products)):
        for column in range(limits[row]):
            if counts[row] == found.shape[1]:
                break
            score = cosine(products[row, column], lengths[0][row], lengths[1][column])
            if score >= threshold:
                found[row, counts[row]] = start + column
                similarity[row, counts[row]] = score
                counts[row] += 1


@lean_kernel
def _are_similar(
    vectors: tuple[NDArray[np.int8], NDArray[np.int8]],
    lengths: tuple[NDArray[np.int64], NDArray[np.int64]],
    pairs: NDArray[np.int64],
    threshold: float,
) -> bool:
    """Say whether all pairs reach the threshold, by whole numbers alone."""
    for row in range(len(pairs)):
        head, document = pairs[row]
        product = dot(vectors[0][head], vectors[1][document])
        if cosine(product, lengths[0][head], lengths[1][document]) < threshold:
            return False
    return True
