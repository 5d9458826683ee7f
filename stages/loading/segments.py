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
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (segment_ids, position_ids), each (N, L) int64; -1 and 0 on padding.

    Args:
        segment_ptr: (N + 1,) the segments of row n are segment_ptr[n] .. segment_ptr[n + 1].
        segment_length: (S,) tokens of each; a row's segments follow each other from position 0.
        row_length: L.
    """
    rows, segments = len(segment_ptr) - 1, len(segment_length)
    row = np.repeat(np.arange(rows), segment_ptr[1:] - segment_ptr[:-1])
    ends = np.zeros(segments + 1, np.int64)
    np.cumsum(segment_length, out=ends[1:])
    row_begin = ends[segment_ptr]
    # each segment is taken to reach to the next one, over the padding, which is overwritten below
    begin = np.zeros(segments + 2, np.int64)
    begin[1:-1] = ends[:-1] + (np.arange(rows) * row_length - row_begin[:-1])[row]
    begin[-1] = rows * row_length
    reach = begin[1:] - begin[:-1]
    number = np.zeros(segments + 1, np.int64)
    number[1:] = np.arange(segments) - segment_ptr[row]
    segment_ids = np.repeat(number, reach).reshape(rows, row_length)
    position_ids = np.repeat(begin[:-1], reach).reshape(rows, row_length)
    np.subtract(np.arange(begin[-1]).reshape(rows, row_length), position_ids, out=position_ids)
    filled = row_begin[1:] - row_begin[:-1]
    for padded in np.flatnonzero(filled < row_length).tolist():
        segment_ids[padded, filled[padded] :] = -1
        position_ids[padded, filled[padded] :] = 0
    return segment_ids, position_ids
