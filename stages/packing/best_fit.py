"""Best-fit packing: no document is cut unless it is longer than a row.

Documents longer than a row give whole rows and a rest. Rests and short documents, longest first, each
go to the row whose free space fits them most closely, or else open a row.

Source: Ding et al. 2024, "Fewer truncations improve language modeling", section 3 (arXiv 2404.10830),
over the whole shard instead of a sliding window.
"""

import numpy as np
from numpy.typing import NDArray

from stages.kernels import kernel
from stages.packing.layout import Layout, layout_of
from stages.ragged import Ragged


def pack_best_fit(
    lengths: NDArray[np.int64], *, row_length: int, growth: int = 0, sentences: Ragged | None = None
) -> Layout:
    """Return the best-fit decreasing layout of documents in rows.

    lengths 3 6 1 2, rows of 4:  B B B B | A A A C | B B D D

    Pieces of one length go in document order, and of rows with the same free space the one that came
    to it first is filled first, so the layout is a function of the lengths alone.

    Args:
        lengths: (D,) tokens of each document, its EOS included.
        row_length: tokens in a row.
        growth: tokens of room that each segment is left, all of it at the end of its row.
        sentences: of no effect.
    """
    del sentences
    longest = row_length - growth
    pieces = -(-lengths // longest)
    doc = np.repeat(np.arange(len(lengths)), pieces)
    number = np.arange(len(doc)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    doc_offset = number * longest
    length = np.minimum(lengths[doc] - doc_offset, longest)
    order = np.argsort(-length, kind="stable")
    row, start, num_rows = _fill(length[order], row_length, growth)
    return layout_of(
        row,
        row_length=row_length,
        num_rows=num_rows,
        start=start,
        length=length[order],
        doc=doc[order],
        doc_offset=doc_offset[order],
    )


@kernel
def _fill(
    length: NDArray[np.int64], row_length: int, growth: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Place descending lengths; free space is at most L, so rows wait in L + 1 queues.

    A segment tree over the queues finds the smallest free space that fits in log2(L) steps.
    """
    leaves = 1
    while leaves < row_length + 1:
        leaves *= 2
    waiting = np.zeros(2 * leaves, np.int64)  # rows under each node of the tree
    first = np.full(row_length + 1, -1, np.int64)  # queue heads and tails by free space
    last = np.full(row_length + 1, -1, np.int64)
    following = np.full(len(length), -1, np.int64)
    row = np.empty(len(length), np.int64)
    start = np.empty(len(length), np.int64)
    filled = np.zeros(len(length), np.int64)  # tokens in each row, room left to grow not counted
    num_rows = 0
    for piece in range(len(length)):
        space = _smallest_space(waiting, leaves, length[piece] + growth)
        if space < 0:
            space, chosen = row_length, num_rows
            num_rows += 1
        else:
            chosen = first[space]
            first[space] = following[chosen]
            following[chosen] = -1
            _count(waiting, leaves + space, -1)
        row[piece], start[piece] = chosen, filled[chosen]
        filled[chosen] += length[piece]
        space -= length[piece] + growth
        if space > 0:
            if first[space] < 0:
                first[space] = chosen
            else:
                following[last[space]] = chosen
            last[space] = chosen
            _count(waiting, leaves + space, 1)
    return row, start, num_rows


@kernel
def _count(waiting: NDArray[np.int64], node: int, change: int) -> None:
    while node > 0:
        waiting[node] += change
        node //= 2


@kernel
def _smallest_space(waiting: NDArray[np.int64], leaves: int, needed: int) -> int:
    """Return the smallest free space of at least `needed` in which a row waits, or -1."""
    node = leaves + needed
    if needed >= leaves:
        return -1
    while waiting[node] == 0:  # climb until a right sibling holds something
        while node % 2 == 1:
            node //= 2
        if node == 0:
            return -1
        node += 1
    while node < leaves:
        node = 2 * node if waiting[2 * node] else 2 * node + 1
    return node - leaves
