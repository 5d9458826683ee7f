"""Interleaving: the rows of a shard by source and how full they are, interleaved through its file.

    rows as they were drawn    b0 a0 a1 b1 a2 a3        of sources a and b
    interleaved                b0 a0 a1 b1 a2 a3  or  another order, by the numbers of rows alone
    in which of each class     the rows stand in the order in which they were drawn

Axes: R rows, K sources; a class is a source and how full its rows are.
"""

import numpy as np
from numpy.typing import NDArray

from stages.interleaving import LEVELS, NestedInterleaving
from stages.packing.layout import Layout


def class_counts(
    layout: Layout, sources: NDArray[np.int64], *, num_sources: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the class of each row, (R,), and how many rows each has, (K, LEVELS).

    Args:
        layout: rows of one source each.
        sources: (D,) number of the source of each document.
        num_sources: K.
    """
    first = layout.row_ptr[:-1]
    filled = np.add.reduceat(layout.length, first, dtype=np.int64) if len(first) else first
    levels = np.minimum(filled * LEVELS // layout.row_length, LEVELS - 1)
    classes = sources[layout.doc[first]] * LEVELS + levels
    counts = np.bincount(classes, minlength=num_sources * LEVELS).reshape(num_sources, LEVELS)
    return classes, counts


def interleaved_order(
    drawn: NDArray[np.int64], classes: NDArray[np.int64], counts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the order of rows that are interleaved: (R,) which row comes first, second and so on.

    Args:
        drawn: (R,) an order; in it stand those of each class.
        classes: (R,) of each row.
        counts: (K, LEVELS) rows of each class.
    """
    by_class = drawn[np.argsort(classes[drawn], kind="stable")]
    own, sizes = classes[by_class], counts.ravel()
    numbers = np.arange(len(own)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    order = np.empty_like(by_class)
    order[NestedInterleaving(counts[None]).places(np.zeros_like(own), own, numbers)] = by_class
    return order
