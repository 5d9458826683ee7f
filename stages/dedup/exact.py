"""Exact duplicates: documents whose cleaned texts are the same, found by their 128-bit digests."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from stages.dedup.buckets import KeyBlock, shared_keys

DigestBlock = tuple[NDArray[np.uint64], NDArray[np.int64]]
"""Digests (N, 2) and documents (N,), ascending by document from block to block."""


def exact_duplicates(digests: NDArray[np.uint64], documents: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return each exact duplicate with the best-ranked document of the same text.

    digests A B A A of documents 0 1 2 3 -> (2, 0), (3, 0)

    Args:
        digests: (N, 2) uint64, the halves of each document's digest.
        documents: (N,) int64 document ranks.

    Returns:
        (D, 2) int64: duplicate, document it repeats; ascending by duplicate.
    """
    order = np.lexsort((documents, digests[:, 0], digests[:, 1]))
    ordered = digests[order]
    repeats = np.zeros(len(order), np.bool_)
    repeats[1:] = (ordered[1:] == ordered[:-1]).all(axis=1)
    firsts = np.maximum.accumulate(np.where(repeats, 0, np.arange(len(order))))
    pairs = np.column_stack([documents[order], documents[order[firsts]]])[repeats]
    return pairs[np.argsort(pairs[:, 0], kind="stable")]


def stream_duplicates(read: Callable[[], Iterable[DigestBlock]]) -> Iterator[NDArray[np.int64]]:
    """Yield the same block by block, holding each distinct digest once and one block.

    A text that stands a million times costs no more than one that stands twice.

    Args:
        read: gives the blocks from the start; called twice.
    """

    def first_halves() -> Iterator[KeyBlock]:
        for digests, documents in read():
            yield digests[:, 0], documents

    shared = shared_keys(first_halves())
    digests, documents = np.empty((0, 2), np.uint64), np.empty(0, np.int64)  # the first of each text
    for block_digests, block_documents in read():
        chosen = shared.find(block_digests[:, 0]) >= 0
        digests = np.concatenate([digests, block_digests[chosen]])
        documents = np.concatenate([documents, block_documents[chosen]])
        pairs = exact_duplicates(digests, documents)
        yield pairs
        fresh = np.isin(documents, pairs[:, 0], invert=True)
        digests, documents = digests[fresh], documents[fresh]


def ranked_duplicates(
    read: Callable[[], Iterable[DigestBlock]],
    ranks: Callable[[NDArray[np.int64]], NDArray[np.int64]],
) -> Iterator[NDArray[np.int64]]:
    """Yield the same where the first document of a digest need not be the best-ranked one.

    Args:
        read: gives the blocks from the start; called three times.
        ranks: gives the ranks of documents.

    Returns:
        (D, 2) int64 each: document, the best-ranked one of its digest; ascending from block to block.
    """

    def first_halves() -> Iterator[KeyBlock]:
        for digests, documents in read():
            yield digests[:, 0], documents

    shared = shared_keys(first_halves())

    def chosen() -> Iterator[DigestBlock]:
        for digests, documents in read():
            rows = np.flatnonzero(shared.find(digests[:, 0]) >= 0)
            yield digests[rows], documents[rows]

    kept_digests, best = (
        np.empty((0, 2), np.uint64),
        np.empty(0, np.int64),
    )  # the best-ranked of each digest
    numbers = np.empty(0, np.int64)
    for digests, documents in chosen():
        kept_digests, numbers = (
            np.concatenate([kept_digests, digests]),
            np.concatenate([numbers, documents]),
        )
        best = np.concatenate([best, ranks(documents)])
        fresh = np.isin(best, exact_duplicates(kept_digests, best)[:, 0], invert=True)
        kept_digests, best, numbers = kept_digests[fresh], best[fresh], numbers[fresh]
    order = np.argsort(best)
    ordered, numbers = best[order], numbers[order]
    for digests, documents in chosen():
        own = ranks(documents)
        pairs = exact_duplicates(np.concatenate([kept_digests, digests]), np.concatenate([best, own]))
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        by_rank = np.argsort(own)
        repeats = documents[by_rank[np.searchsorted(own[by_rank], pairs[:, 0])]]
        firsts = numbers[np.searchsorted(ordered, pairs[:, 1])]
        found = np.column_stack([repeats, firsts])
        yield found[np.argsort(repeats, kind="stable")]
