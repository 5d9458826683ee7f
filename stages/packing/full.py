"""Full packing: whole sentences end to end, across documents, so that rows end where sentences do.

`concat` fills rows to the last token and cuts sentences there. Here a sentence that the rest of a row
cannot hold begins the next row, so that rows end a little short and no sentence is torn.

Source: FULL-SENTENCES of Liu et al. 2019, "RoBERTa", section 4.2 (arXiv 1907.11692). The separator
between documents is their EOS.
"""

import numpy as np
from numpy.typing import NDArray

from stages.kernels import kernel
from stages.packing.layout import Layout, layout_of_table
from stages.ragged import Ragged


def pack_full(
    lengths: NDArray[np.int64], *, row_length: int, growth: int = 0, sentences: Ragged | None = None
) -> Layout:
    """Return the layout of documents laid end to end, sentence by sentence.

    lengths 5 3, sentences of 2 and 3, of 1 and 2, rows of 4:
        A A . . | A A A B | B B . .

    A sentence longer than a row is cut wherever a row ends. A document without sentences is one.

    Args:
        lengths: (D,) tokens of each document, its EOS included.
        row_length: tokens in a row.
        growth: tokens of room that each segment is left, all of it at the end of its row.
        sentences: of each document, after how many of its tokens each ends; the last is all of them.
    """
    assert sentences is not None, "the sentences of documents are laid out"
    ends = sentences.ptr, sentences.values
    count, _ = _lay(lengths, *ends, row_length, growth, np.empty((0, 5), np.int64))
    segments = np.empty((count, 5), np.int64)
    _, num_rows = _lay(lengths, *ends, row_length, growth, segments)
    return layout_of_table(segments, row_length=row_length, num_rows=num_rows)


@kernel
def _lay(
    lengths: NDArray[np.int64],
    ptr: NDArray[np.int64],
    ends: NDArray[np.int64],
    row_length: int,
    growth: int,
    segments: NDArray[np.int64],
) -> tuple[int, int]:
    """Count segments and rows; write (row, start, length, doc, doc_offset) of each if there is room."""
    count, row, start, space = 0, 0, 0, row_length
    for doc in range(len(lengths)):
        number, place, length = ptr[doc], 0, 0  # of the sentence, its next token, the open segment
        while place < lengths[doc]:
            end = ends[number] if number + 1 < ptr[doc + 1] else lengths[doc]
            number += 1
            while place < end:
                size, free = end - place, space - (0 if length else growth)
                if free < 1 or (free < size <= row_length - growth):
                    if length:
                        count = _close(segments, count, (row, start, length, doc, place - length))
                    row, start, space, length = row + 1, 0, row_length, 0
                    continue
                taken = min(size, free)
                space -= taken + (0 if length else growth)
                place, length = place + taken, length + taken
        if length:
            count = _close(segments, count, (row, start, length, doc, place - length))
            start += length
    return count, row + 1 if count else 0


@kernel
def _close(segments: NDArray[np.int64], count: int, segment: tuple[int, int, int, int, int]) -> int:
    """Write a segment if there is room for it; return how many there are."""
    if count < len(segments):
        for place, value in enumerate(segment):
            segments[count, place] = value
    return count + 1
