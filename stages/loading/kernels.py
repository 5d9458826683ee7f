"""Packed rows filled in straight from a shard's mapping: what the plain functions give, compiled.

    fill_causal    stages.objectives.clm.config.label_causally
    fill_segments  stages.loading.split_reader.dense_segments

Six passes over memory and a hundred calls of numpy less a batch; see docs/benchmarks.md. Each fills rows
of arrays for a batch of N rows: `rows[n]` of the shard goes to `places[n]`.
"""

import numpy as np
from numpy.typing import NDArray

from stages.kernels import kernel
from stages.objectives.rows import IGNORED


@kernel
def fill_segments(
    shard: tuple[NDArray[np.int64], NDArray[np.int32]],
    rows: NDArray[np.int64],
    places: NDArray[np.int64],
    segment_ids: NDArray[np.int64],
    position_ids: NDArray[np.int64],
) -> None:
    """Fill in the segment of each position, and its place there; -1 and 0 on padding.

    Args:
        shard: its row_ptr (R + 1,) and length (S,).
        rows: (n,) in the shard.
        places: (n,) in the batch.
        segment_ids: (N, L), filled in.
        position_ids: (N, L), filled in.
    """
    row_ptr, length = shard
    for n in range(len(rows)):
        place, end, first = places[n], 0, row_ptr[rows[n]]
        for segment in range(first, row_ptr[rows[n] + 1]):
            begin, end = end, end + length[segment]
            segment_ids[place, begin:end] = segment - first
            positions = position_ids[place, begin:end]
            for t in range(len(positions)):
                positions[t] = t
        segment_ids[place, end:] = -1
        position_ids[place, end:] = 0


@kernel
def fill_causal(
    shard: tuple[NDArray[np.integer], NDArray[np.int64], NDArray[np.int32]],
    rows: NDArray[np.int64],
    places: NDArray[np.int64],
    columns: NDArray[np.int64],
    mask_first_token: bool,  # noqa: FBT001  # a kernel takes no keywords
) -> None:
    """Fill in the columns of causal language modelling: all of them in one call, which takes a few us.

    Args:
        shard: its input_ids (R, L), row_ptr (R + 1,) and length (S,).
        rows: (n,) in the shard.
        places: (n,) in the batch.
        columns: (4, N, L), filled in: input_ids; labels, which are the ids, -100 on padding and, if
            asked, on a segment's first token; position_ids; segment_ids. Or (2, N, L) of the first.
        mask_first_token: whether it is asked.
    """
    ids, row_ptr, length = shard
    input_ids, labels = columns[0], columns[1]
    for n in range(len(rows)):
        row, place, end = rows[n], places[n], 0
        source, of_row, label = ids[row], input_ids[place], labels[place]  # loops over views are SIMD
        for t in range(len(source)):
            of_row[t] = source[t]
        for t in range(len(source)):
            label[t] = of_row[t]
        for segment in range(row_ptr[row], row_ptr[row + 1]):
            if mask_first_token and end < len(label):  # overfull rows are refused before; see mapped
                label[end] = IGNORED
            end += length[segment]
        label[end:] = IGNORED
    if len(columns) > 2:  # noqa: PLR2004  # see columns
        fill_segments((row_ptr, length), rows, places, columns[3], columns[2])
