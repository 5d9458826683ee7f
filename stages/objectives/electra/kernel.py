"""Replaced token detection compiled: `stages.objectives.electra.config.replace_tokens`, bit for bit."""

import numpy as np
from numpy.typing import NDArray

from stages.kernels import kernel
from stages.objectives.electra.config import Generator, ReplacedTokens, unigram_counts
from stages.objectives.kernels.noise import scaled
from stages.objectives.kernels.scratch import (
    KernelIds,
    KernelRows,
    PositionChoice,
    draw_blocks,
    filled_tokens,
    kernel_choice,
    kernel_ids,
    kernel_rows,
    lay_out,
)
from stages.objectives.mlm.selection_kernel import select
from stages.objectives.rows import IGNORED, Columns, StoredRows, Widths
from stages.objectives.vocabulary import Vocabulary


def replace_tokens(
    rows: StoredRows, config: ReplacedTokens, vocabulary: Vocabulary, widths: Widths | None = None
) -> Columns:
    """Return what `stages.objectives.electra.config.replace_tokens` gives."""
    del widths
    counts = np.empty(0, np.int64)
    if config.generator is Generator.UNIGRAM:
        counts = np.ascontiguousarray(unigram_counts(rows))
    input_ids = rows.input_ids.copy()
    labels = np.empty(input_ids.shape, np.int32)
    selected = np.zeros(input_ids.shape, np.bool_)
    _replace(
        kernel_rows(rows),
        kernel_ids(vocabulary, input_ids.dtype, config.selection),
        kernel_choice(config.mask_probability, config.selection, config.max_ngram),
        counts,
        (input_ids, labels, selected),
    )
    return {
        "input_ids": input_ids,
        "labels": labels,
        "original_ids": rows.input_ids.copy(),
        "selected": selected,  # type: ignore[dict-item]  # flags
    }


@kernel
def _replace(
    stored: KernelRows,
    ids: KernelIds,
    choice: PositionChoice,
    counts: NDArray[np.int64],
    columns: tuple[NDArray[np.integer], NDArray[np.int32], NDArray[np.bool_]],
) -> None:
    """Draw ids for the selected positions: by frequency if there are counts."""
    input_ids, labels, selected = columns
    scratch = lay_out(stored.ids.shape[1])
    places, ordinary = scratch.places, ids.ordinary
    for row in range(len(stored.ids)):
        tokens, out, label = stored.ids[row], input_ids[row], labels[row]
        filled = filled_tokens(stored.segment_ptr, stored.segment_length, row)
        label[:filled] = 0
        label[filled:] = IGNORED
        count = select(stored, row, ids, choice, scratch)
        draw_blocks(stored.stream_keys[2], scratch.same, places, count, scratch.first, scratch.second)
        for each in range(count):
            place, draw = places[each], scratch.second[each]
            if len(counts):
                out[place] = _first_above(counts, scaled(draw, counts[-1]))
            else:
                out[place] = ordinary[scaled(draw, len(ordinary))]
            label[place] = out[place] != tokens[place]
            selected[row, place] = True


@kernel
def _first_above(counts: NDArray[np.int64], number: int) -> int:
    """Return the first place of ascending counts that holds more."""
    low, high = 0, len(counts) - 1
    while low < high:
        middle = (low + high) >> 1
        if counts[middle] > number:
            high = middle
        else:
            low = middle + 1
    return low
