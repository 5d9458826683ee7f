"""SimCSE's views, compiled: the columns of `stages.objectives.simcse.config`, over whole shards."""

import math

import numpy as np
from numpy.typing import NDArray

from stages.kernels import kernel
from stages.objectives.kernels.noise import draw_block, scaled, stream_key_of
from stages.objectives.rows import Columns, StoredRows, Widths
from stages.objectives.simcse.config import SimCSE, ViewTag, view_starts
from stages.objectives.vocabulary import Vocabulary


def make_views(rows: StoredRows, config: SimCSE, vocabulary: Vocabulary, widths: Widths) -> Columns:
    """Return the views of each row, as the plain version does.

    Raises:
        FormatError: a row whose texts are too long for their views.
    """
    shape = len(rows.input_ids), config.num_views, widths.inputs
    input_ids, input_length = np.empty(shape, rows.input_ids.dtype), np.empty(shape[:2], np.int32)
    if config.from_source:
        ends = vocabulary.named("eos"), vocabulary.named("pad")
        starts = view_starts(rows, config, vocabulary, widths)
        _show_sections(rows.input_ids, starts, ends, (input_ids, input_length))
        return {"input_ids": input_ids, "input_length": input_length}
    _view_rows(
        rows.input_ids,
        rows.filled,
        rows.numbers,
        stream_key_of(rows, ViewTag.CROP),
        config.crop_ratio if config.views == "cropped" else 1.0,
        vocabulary.named("pad"),
        (input_ids, input_length),
    )
    return {"input_ids": input_ids, "input_length": input_length}


@kernel
def _view_rows(
    source: NDArray[np.integer],
    filled: NDArray[np.int64],
    numbers: NDArray[np.int64],
    stream_key: NDArray[np.uint64],
    ratio: float,
    pad: int,
    columns: tuple[NDArray[np.integer], NDArray[np.int32]],
) -> None:
    """Fill both columns."""
    input_ids, input_length = columns
    for row in range(len(source)):
        length = math.ceil(ratio * filled[row])
        first, second = draw_block(stream_key, numbers[row], 0)
        for view, value in enumerate((first, second)):
            begin = scaled(value, filled[row] - length + 1)
            shown = input_ids[row, view]
            for place in range(length):
                shown[place] = source[row, begin + place]
            for place in range(length, len(shown)):
                shown[place] = pad
            input_length[row, view] = length


@kernel
def _show_sections(
    source: NDArray[np.integer],
    starts: NDArray[np.int64],
    ends: tuple[int, int],
    columns: tuple[NDArray[np.integer], NDArray[np.int32]],
) -> None:
    """Fill both columns; `ends` are the ids of EOS and padding."""
    input_ids, input_length = columns
    eos, pad = ends
    for row in range(len(source)):
        for view in range(input_ids.shape[1]):
            first, last = starts[row, view]
            shown, length = input_ids[row, view], last - first
            for place in range(length):
                shown[place] = source[row, first + place]
            if length:
                shown[length] = eos
                length += 1
            for place in range(length, len(shown)):
                shown[place] = pad
            input_length[row, view] = length
