"""Concat packing: documents end to end, cut wherever a row ends."""

import numpy as np
from numpy.typing import NDArray

from stages.kernels import kernel
from stages.packing.layout import Layout, layout_of_table
from stages.ragged import Ragged


def pack_concat(
    lengths: NDArray[np.int64], *, row_length: int, growth: int = 0, sentences: Ragged | None = None
) -> Layout:
    """Return the layout of documents laid end to end into rows; only the last row has padding.

    lengths 3 3, rows of 4:            A A A B | B B . .
    lengths 3 3, rows of 4, growth 1:  A A A . | B B B .

    Args:
        lengths: (D,) tokens of each document, its EOS included.
        row_length: tokens in a row.
        growth: tokens of room that each segment is left, all of it at the end of its row.
        sentences: of no effect.
    """
    del sentences
    count, _ = _lay(lengths, row_length, growth, np.empty((0, 5), np.int64))
    segments = np.empty((count, 5), np.int64)
    _, num_rows = _lay(lengths, row_length, growth, segments)
    return layout_of_table(segments, row_length=row_length, num_rows=num_rows)


@kernel
def _lay(
    lengths: NDArray[np.int64], row_length: int, growth: int, segments: NDArray[np.int64]
) -> tuple[int, int]:
    """Count segments and rows; write (row, start, length, doc, doc_offset) of each if there is room."""
    count, row, start, space = 0, 0, 0, row_length
    for doc in range(len(lengths)):
        offset = 0
        while offset < lengths[doc]:
            if space <= growth:
                row, start, space = row + 1, 0, row_length
            length = min(lengths[doc] - offset, space - growth)
            if count < len(segments):
                segments[count, 0], segments[count, 1], segments[count, 2] = row, start, length
                segments[count, 3], segments[count, 4] = doc, offset
            count, offset = count + 1, offset + length
            start, space = start + length, space - length - growth
    return count, row + 1 if count else 0
