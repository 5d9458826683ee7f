"""Document packing: a row holds one document, or a chunk of a longer one.

Source: DOC-SENTENCES of Liu et al. 2019, "RoBERTa", section 4.2 (arXiv 1907.11692): no row crosses the
border of a document, and rows at the end of one may be short. We leave it in this: a document longer
than a row is cut wherever a row ends, and the batch is not made larger where rows are short.
"""

import numpy as np
from numpy.typing import NDArray

from stages.packing.layout import Layout, layout_of
from stages.ragged import Ragged


def pack_document(
    lengths: NDArray[np.int64], *, row_length: int, growth: int = 0, sentences: Ragged | None = None
) -> Layout:
    """Return the layout of documents that each begin a row; what is left of their last row is padding.

    lengths 3 6 1, rows of 4:            A A A . | B B B B | B B . . | C . . .
    lengths 3 6 1, rows of 4, growth 1:  A A A . | B B B . | B B B . | C . . .

    Args:
        lengths: (D,) tokens of each document, its EOS included.
        row_length: tokens in a row.
        growth: tokens of room that each row is left at its end.
        sentences: of no effect.
    """
    del sentences
    longest = row_length - growth
    chunks = -(-lengths // longest)
    doc = np.repeat(np.arange(len(lengths)), chunks)
    number = np.arange(len(doc)) - np.repeat(np.cumsum(chunks) - chunks, chunks)
    return layout_of(
        np.arange(len(doc)),
        row_length=row_length,
        num_rows=len(doc),
        start=np.zeros(len(doc), np.int64),
        length=np.minimum(lengths[doc] - number * longest, longest),
        doc=doc,
        doc_offset=number * longest,
    )
