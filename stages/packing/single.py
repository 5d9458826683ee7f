"""One chunk of a document a row: what is transformed as a whole stands alone."""

import numpy as np
from numpy.typing import NDArray

from stages.packing.layout import Layout, layout_of


def pack_single(lengths: NDArray[np.int64], *, row_length: int) -> Layout:
    """Return the layout of documents cut into as few chunks as rows hold, one chunk a row.

    lengths 3 7 1, rows of 4:  A A A . | B B B . | B B B E | C . . .

    A document that is longer than L - 1 tokens and its EOS is cut into chunks of like length, so that
    none is too short to be transformed; its EOS goes with its last chunk.

    Args:
        lengths: (D,) tokens of each document, its EOS included.
        row_length: L, tokens in a row.
    """
    body = np.maximum(lengths - 1, 0)
    chunks = np.maximum(-(-body // (row_length - 1)), np.minimum(lengths, 1))
    doc = np.repeat(np.arange(len(lengths)), chunks)
    number = np.arange(len(doc)) - np.repeat(np.cumsum(chunks) - chunks, chunks)
    begin = number * body[doc] // chunks[doc]
    end = (number + 1) * body[doc] // chunks[doc] + (number + 1 == chunks[doc])
    return layout_of(
        np.arange(len(doc)),
        row_length=row_length,
        num_rows=len(doc),
        start=np.zeros(len(doc), np.int64),
        length=end - begin,
        doc=doc,
        doc_offset=begin,
    )
