"""Exact duplicates: documents whose cleaned texts are the same, found by their 128-bit digests."""

import numpy as np
from numpy.typing import NDArray


def exact_duplicates(digests: NDArray[np.uint64], documents: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give each exact duplicate with the best-ranked document of the same text.

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
