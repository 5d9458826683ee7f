"""Packed rows for the tests of masks: the lengths of their documents, and the segments of these."""

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from stages.loading.masks import PADDING

LENGTH = 9
ROWS = st.lists(
    st.lists(st.integers(1, 5), max_size=4).filter(lambda row: sum(row) <= LENGTH),
    min_size=1,
    max_size=4,
)
"""The lengths of the documents of each row, at most 9 tokens: empty and full rows among them."""


def segments_of(rows: list[list[int]], length: int = LENGTH) -> NDArray[np.int64]:
    """Return the segment ids of rows of documents of these lengths: (N, length)."""
    segment_ids = np.full((len(rows), length), PADDING, np.int64)
    for row, lengths in zip(segment_ids, rows, strict=True):
        filled = [number for number, size in enumerate(lengths) for _ in range(size)]
        row[: len(filled)] = filled
    return segment_ids
