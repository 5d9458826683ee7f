"""Concat packing: documents end to end, cut wherever a row ends."""

import numpy as np
from numpy.typing import NDArray

from stages.packing.layout import Layout, layout_of


def pack_concat(lengths: NDArray[np.int64], *, row_length: int) -> Layout:
    """Give the layout of documents laid end to end into rows; only the last row has padding.

    lengths 3 3, rows of 4:  A A A B | B B . .

    Args:
        lengths: (D,) tokens of each document, its EOS included.
        row_length: tokens in a row.
    """
    document_end = np.cumsum(lengths)
    total = int(document_end[-1]) if len(lengths) else 0
    row_starts = np.arange(0, total, row_length)
    begin = np.unique(np.concatenate([document_end - lengths, row_starts])[: None if total else 0])
    end = np.append(begin[1:], total)
    doc = np.searchsorted(document_end, begin, side="right")
    return layout_of(
        begin // row_length,
        row_length=row_length,
        num_rows=len(row_starts),
        start=begin % row_length,
        length=end - begin,
        doc=doc,
        doc_offset=begin - (document_end - lengths)[doc],
    )
