"""Prefixes of packed documents, compiled: what `packed_prefixes.split_documents` gives, bit for bit."""

import numpy as np
from numpy.typing import NDArray

from stages.kernels import kernel
from stages.objectives.kernels.noise import draw, scaled, stream_words
from stages.objectives.kernels.seq2seq import copy_run
from stages.objectives.prefix_lm import PrefixLM, shortest_prefixes
from stages.objectives.rows import IGNORED, Columns, StoredRows, Widths
from stages.objectives.vocabulary import Vocabulary
from stages.seeding import Tag

_IGNORED = np.int32(IGNORED)


def split_documents(
    rows: StoredRows, config: PrefixLM, vocabulary: Vocabulary, widths: Widths
) -> Columns:
    """Return the columns of packed rows."""
    del vocabulary, widths
    prompt = rows.segment_prompt
    named = np.zeros(len(rows.segment_length), np.int64) if prompt is None else prompt.astype(np.int64)
    labels = np.full(rows.input_ids.shape, IGNORED, np.int32)
    in_prefix = np.zeros(rows.input_ids.shape, np.bool_)
    _split(
        rows.input_ids,
        (rows.segment_ptr, rows.segment_length, rows.numbers),
        stream_words(rows, Tag.PREFIX_LENGTH),
        (named, shortest_prefixes(rows.segment_length, config)),
        (labels, in_prefix),
    )
    shown: NDArray[np.integer] = in_prefix  # type: ignore[assignment]  # as masks are, in all columns
    return {"input_ids": rows.input_ids, "labels": labels, "in_prefix": shown}


@kernel
def _split(
    input_ids: NDArray[np.integer],
    layout: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    words: NDArray[np.uint64],
    bounds: tuple[NDArray[np.int64], NDArray[np.int64]],
    columns: tuple[NDArray[np.int32], NDArray[np.bool_]],
) -> None:
    """Fill labels, -100 so far, and where prefixes stand.

    Args:
        input_ids: (N, L) as stored.
        layout: segment_ptr, segment_length, row numbers.
        words: of the rows' stream.
        bounds: (S,) the prompts that sources name, 0 for none; the least prefixes.
        columns: labels and in_prefix, (N, L) each.
    """
    segment_ptr, segment_length, numbers = layout
    named, shortest = bounds
    labels, in_prefix = columns
    for row in range(len(input_ids)):
        begin = 0
        for segment in range(segment_ptr[row], segment_ptr[row + 1]):
            n = segment_length[segment]
            prefix = n
            if named[segment] > 0:
                prefix = min(named[segment], n)
            elif n > 1:
                drawn = draw(words, numbers[row], segment - segment_ptr[row])
                prefix = shortest[segment] + scaled(drawn, n - shortest[segment])
            in_prefix[row, begin : begin + prefix] = True
            copy_run(input_ids[row], begin + prefix, labels[row], begin + prefix, n - prefix)
            begin += n
