"""Segments as trainers want them: which document each position belongs to, and where it stands in it.

row            A A E B E . .
segment_ids    0 0 0 1 1 -1 -1
position_ids   0 1 2 0 1 0 0
cu_seqlens     0 3 5
"""

import numpy as np
from numpy.typing import NDArray


def dense_segments(
    row_ptr: NDArray[np.int64],
    start: NDArray[np.integer],
    length: NDArray[np.integer],
    *,
    rows: NDArray[np.int64],
    row_length: int,
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Give (segment_ids, position_ids), each (N, L) int32; -1 and 0 on padding.

    Args:
        row_ptr: (R + 1,) where each row's segments begin.
        start: (S,) first position of each segment.
        length: (S,) tokens of each segment.
        rows: (N,) the rows wanted.
        row_length: L.
    """
    counts = row_ptr[rows + 1] - row_ptr[rows]
    first = np.cumsum(counts) - counts
    number = np.arange(counts.sum()) - np.repeat(first, counts)
    segments = np.repeat(row_ptr[rows], counts) + number
    lengths = np.asarray(length[segments], np.int64)
    begin = np.repeat(np.arange(len(rows)) * row_length, counts) + start[segments]
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    places = np.repeat(begin, lengths) + within
    segment_ids = np.full(len(rows) * row_length, -1, np.int32)
    position_ids = np.zeros(len(rows) * row_length, np.int32)
    segment_ids[places] = np.repeat(number, lengths)
    position_ids[places] = within
    return segment_ids.reshape(-1, row_length), position_ids.reshape(-1, row_length)
