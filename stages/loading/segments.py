"""Segments as trainers want them: which document each position belongs to, and where it stands in it.

row            A A E B E . .
segment_ids    0 0 0 1 1 -1 -1
position_ids   0 1 2 0 1 0 0
cu_seqlens     0 3 5
"""

import numpy as np
from numpy.typing import NDArray


def dense_segments(
    segment_ptr: NDArray[np.int64], segment_length: NDArray[np.int64], *, row_length: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Give (segment_ids, position_ids), each (N, L) int32; -1 and 0 on padding.

    Args:
        segment_ptr: (N + 1,) the segments of row n are segment_ptr[n] .. segment_ptr[n + 1].
        segment_length: (S,) tokens of each; a row's segments follow each other from position 0.
        row_length: L.
    """
    counts = np.diff(segment_ptr)
    ends = np.cumsum(segment_length)
    before = ends - segment_length
    row_begin = np.concatenate([[0], ends])[segment_ptr[:-1]]
    begin = np.repeat(np.arange(len(counts)) * row_length - row_begin, counts) + before
    number = np.arange(len(segment_length)) - np.repeat(segment_ptr[:-1], counts)
    within = np.arange(segment_length.sum()) - np.repeat(before, segment_length)
    places = np.repeat(begin, segment_length) + within
    segment_ids = np.full(len(counts) * row_length, -1, np.int32)
    position_ids = np.zeros(len(counts) * row_length, np.int32)
    segment_ids[places] = np.repeat(number, segment_length)
    position_ids[places] = within
    return segment_ids.reshape(-1, row_length), position_ids.reshape(-1, row_length)
