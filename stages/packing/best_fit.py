"""Best-fit packing: no document is cut unless it is longer than a row.

Documents longer than a row give whole rows and a rest. Rests and short documents, longest first, each
go to the row whose free space fits them most closely, or else open a row.

Source: Ding et al. 2024, "Fewer truncations improve language modeling", section 3 (arXiv 2404.10830),
over the whole shard instead of a sliding window.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.kernels import kernel
from stages.packing.layout import Layout
from stages.ragged import Ragged


def pack_best_fit(
    lengths: NDArray[np.int64], *, row_length: int, growth: int = 0, sentences: Ragged | None = None
) -> Layout:
    """Return the best-fit decreasing layout of documents in rows.

    lengths 3 6 1 2, rows of 4:  B B B B | A A A C | B B D D

    Chunks of one length go in document order, and of rows with the same free space the one that came
    to it first is filled first, so the layout is a function of the lengths alone.

    Args:
        lengths: (D,) tokens of each document, its EOS included.
        row_length: tokens in a row.
        growth: tokens of room that each segment is left, all of it at the end of its row.
        sentences: of no effect.
    """
    del sentences
    longest = row_length - growth
    chunks = _longest_first(lengths, longest)
    row, start, num_rows = _fill(chunks.length, row_length, growth)
    row_ptr, start, length, doc, doc_offset = _in_rows(row, start, num_rows, chunks, longest)
    return Layout(row_length, row_ptr, start, length, doc, doc_offset)


class _SortedChunks(NamedTuple):
    """S chunks of documents: with their rows 28 bytes each while they are placed, 20 in the layout."""

    doc: NDArray[np.int32]
    number: NDArray[np.int32]
    """Which chunk of its document it is; all before it are as long as chunks may be."""
    length: NDArray[np.int32]


@kernel
def _longest_first(lengths: NDArray[np.int64], longest: int) -> _SortedChunks:
    """Return the chunks of documents, none longer than `longest`; equally long ones as they come.

    lengths 3 6 1, longest 4 -> lengths 4 3 2 1 of documents 1 0 1 2
    """
    places = np.zeros(longest + 1, np.int64)  # by length: how many, then where the next one goes
    for doc in range(len(lengths)):
        places[longest] += lengths[doc] // longest
        places[lengths[doc] % longest] += 1
    places[0] = 0  # documents of whole chunks have no rest
    count = 0
    for size in range(longest, -1, -1):
        places[size], count = count, count + places[size]
    chunks = _SortedChunks(
        np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count, np.int32)
    )
    for doc in range(len(lengths)):
        offset = number = 0
        while offset < lengths[doc]:
            size = min(lengths[doc] - offset, longest)
            place = places[size]
            chunks.doc[place], chunks.number[place], chunks.length[place] = doc, number, size
            places[size], offset, number = place + 1, offset + size, number + 1
    return chunks


@kernel
def _in_rows(
    row: NDArray[np.int32],
    start: NDArray[np.int32],
    num_rows: int,
    chunks: _SortedChunks,
    longest: int,
) -> tuple[
    NDArray[np.int64], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]
]:
    """Return the columns of a layout, row by row; the chunks of a row came from left to right."""
    row_ptr = np.zeros(num_rows + 1, np.int64)
    for chunk in range(len(row)):
        row_ptr[row[chunk] + 1] += 1
    for number in range(num_rows):
        row_ptr[number + 1] += row_ptr[number]
    following = row_ptr.copy()
    starts, lengths, docs = np.empty_like(start), np.empty_like(start), np.empty_like(start)
    offsets = np.empty(len(row), np.int64)
    for chunk in range(len(row)):
        place = following[row[chunk]]
        following[row[chunk]] = place + 1
        starts[place], lengths[place] = start[chunk], chunks.length[chunk]
        docs[place] = chunks.doc[chunk]
        offsets[place] = np.int64(chunks.number[chunk]) * longest
    return row_ptr, starts, lengths, docs, offsets


@kernel
def _fill(
    length: NDArray[np.int32], row_length: int, growth: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    """Place descending lengths; free space is at most L, so rows wait in L + 1 queues.

    A segment tree over the queues finds the smallest free space that fits in log2(L) steps.
    """
    leaves = 1
    while leaves < row_length + 1:
        leaves *= 2
    waiting = np.zeros(2 * leaves, np.int64)  # rows under each node of the tree
    first = np.full(row_length + 1, -1, np.int64)  # queue heads and tails by free space
    last = np.full(row_length + 1, -1, np.int64)
    following = np.full(len(length), -1, np.int32)
    row = np.empty(len(length), np.int32)
    start = np.empty(len(length), np.int32)
    filled = np.zeros(len(length), np.int32)  # tokens in each row, room left to grow not counted
    num_rows = 0
    for chunk in range(len(length)):
        needed = length[chunk] + growth
        space = _smallest_space(waiting, leaves, needed)
        if space < 0:
            space, chosen = row_length, num_rows
            num_rows += 1
        else:
            chosen = first[space]
            first[space] = following[chosen]
            following[chosen] = -1
            _count(waiting, leaves + space, -1)
        row[chunk], start[chunk] = chosen, filled[chosen]
        filled[chosen] += length[chunk]
        space -= needed
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
