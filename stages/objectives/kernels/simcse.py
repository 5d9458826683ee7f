"""SimCSE's views, compiled: the columns of `stages.objectives.simcse`, over whole shards."""

import math

import numpy as np
from numpy.typing import NDArray

from stages.kernels import kernel
from stages.objectives.kernels.noise import draw_block, scaled, stream_words
from stages.objectives.rows import Columns, StoredRows, Widths
from stages.objectives.simcse import VIEWS, SimCSE
from stages.objectives.vocabulary import Vocabulary
from stages.seeding import Tag


def make_views(rows: StoredRows, config: SimCSE, vocabulary: Vocabulary, widths: Widths) -> Columns:
    """Give two views of each row, as the plain version does."""
    count = len(rows.input_ids)
    input_ids = np.empty((count, VIEWS, widths.inputs), rows.input_ids.dtype)
    input_length = np.empty((count, VIEWS), np.int32)
    _view_rows(
        rows.input_ids,
        rows.filled,
        rows.numbers,
        stream_words(rows, Tag.CROP),
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
    words: NDArray[np.uint64],
    ratio: float,
    pad: int,
    columns: tuple[NDArray[np.integer], NDArray[np.int32]],
) -> None:
    """Fill both columns."""
    input_ids, input_length = columns
    for row in range(len(source)):
        length = math.ceil(ratio * filled[row])
        first, second = draw_block(words, numbers[row], 0)
        for view, value in enumerate((first, second)):
            begin = scaled(value, filled[row] - length + 1)
            shown = input_ids[row, view]
            for place in range(length):
                shown[place] = source[row, begin + place]
            for place in range(length, len(shown)):
                shown[place] = pad
            input_length[row, view] = length
