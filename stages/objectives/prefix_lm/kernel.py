"""Prefix language modelling compiled: the columns of `prefix_lm.split_prefixes`, bit for bit.

Prefixes of packed documents, compiled: what `packed_prefixes.split_documents` gives, bit for bit.
"""

import numpy as np
from numpy.typing import NDArray

from stages.kernels import kernel
from stages.objectives.kernels.noise import draw, scaled, stream_key_of
from stages.objectives.kernels.seq2seq import Frame, close_row, copy_range, frame_of
from stages.objectives.prefix_lm.config import (
    PrefixLM,
    PrefixTag,
    shortest_prefixes,
    split_lengths,
    with_prompts,
)
from stages.objectives.rows import IGNORED, Columns, StoredRows, Widths
from stages.objectives.vocabulary import Vocabulary

_IGNORED = np.int32(IGNORED)


def split_prefixes(
    rows: StoredRows, config: PrefixLM, vocabulary: Vocabulary, widths: Widths
) -> Columns:
    """Return the columns of rows as they are stored.

    Raises:
        FormatError: a row that does not fit its columns.
    """
    n = split_lengths(rows, config, vocabulary, widths)
    stream_key = stream_key_of(rows, PrefixTag.LENGTH)
    drawn = _prefixes(stream_key, rows.numbers, n, shortest_prefixes(n, config))
    prefix = with_prompts(rows.prompt, n, drawn)
    if config.architecture == "decoder_only":
        labels = np.empty(rows.input_ids.shape, np.int32)
        _label(rows.input_ids, n, prefix, labels)
        return {"input_ids": rows.input_ids, "labels": labels, "prefix_length": prefix.astype(np.int32)}
    frame = frame_of(len(n), dtype=rows.input_ids.dtype, widths=widths)
    mode = vocabulary.named(config.mode_token) if config.mode_token else -1
    _split(rows.input_ids, n, prefix, (mode, vocabulary.named("eos"), vocabulary.named("pad")), frame)
    return frame.columns()


@kernel
def _prefixes(
    stream_key: NDArray[np.uint64],
    numbers: NDArray[np.int64],
    n: NDArray[np.int64],
    shortest: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the length of each row's prefix."""
    prefix = n.copy()
    for row in range(len(n)):
        if n[row] > 1:
            choices = n[row] - shortest[row]
            prefix[row] = shortest[row] + scaled(draw(stream_key, numbers[row], 0), choices)
    return prefix


@kernel
def _label(
    input_ids: NDArray[np.integer],
    n: NDArray[np.int64],
    prefix: NDArray[np.int64],
    labels: NDArray[np.int32],
) -> None:
    """Write the labels of a decoder alone."""
    for row in range(len(n)):
        labels[row, : prefix[row]] = _IGNORED
        copy_range(input_ids[row], prefix[row], labels[row], prefix[row], n[row] - prefix[row])
        labels[row, n[row] :] = _IGNORED


@kernel
def _split(
    input_ids: NDArray[np.integer],
    n: NDArray[np.int64],
    prefix: NDArray[np.int64],
    ends: tuple[int, int, int],
    frame: Frame,
) -> None:
    """Write inputs and targets; `ends` are the ids of the mode token (-1 for none), EOS and padding."""
    mode, eos, pad = ends
    for row in range(len(n)):
        inputs, labels = frame.input_ids[row], frame.labels[row]
        first, rest = int(mode >= 0), n[row] - prefix[row]
        if first:
            inputs[0] = mode
        copy_range(input_ids[row], 0, inputs, first, prefix[row])
        inputs[first + prefix[row]] = eos
        copy_range(input_ids[row], prefix[row], labels, 0, rest)
        if rest:
            labels[rest] = eos
        close_row(frame, row, first + prefix[row] + 1, rest + int(rest > 0), pad)


def split_documents(
    rows: StoredRows, config: PrefixLM, vocabulary: Vocabulary, widths: Widths
) -> Columns:
    """Return the columns of packed rows."""
    del vocabulary, widths
    prompt = rows.segment_prompt
    named = np.zeros(len(rows.segment_length), np.int64) if prompt is None else prompt.astype(np.int64)
    labels = np.full(rows.input_ids.shape, IGNORED, np.int32)
    in_prefix = np.zeros(rows.input_ids.shape, np.bool_)
    _split_segments(
        rows.input_ids,
        (rows.segment_ptr, rows.segment_length, rows.numbers),
        stream_key_of(rows, PrefixTag.LENGTH),
        (named, shortest_prefixes(rows.segment_length, config)),
        (labels, in_prefix),
    )
    shown: NDArray[np.integer] = in_prefix  # type: ignore[assignment]  # as masks are, in all columns
    return {"input_ids": rows.input_ids, "labels": labels, "in_prefix": shown}


@kernel
def _split_segments(
    input_ids: NDArray[np.integer],
    layout: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    stream_key: NDArray[np.uint64],
    bounds: tuple[NDArray[np.int64], NDArray[np.int64]],
    columns: tuple[NDArray[np.int32], NDArray[np.bool_]],
) -> None:
    """Fill labels, -100 so far, and where prefixes stand.

    Args:
        input_ids: (N, L) as stored.
        layout: segment_ptr, segment_length, row numbers.
        stream_key: of the rows' stream.
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
                drawn = draw(stream_key, numbers[row], segment - segment_ptr[row])
                prefix = shortest[segment] + scaled(drawn, n - shortest[segment])
            in_prefix[row, begin : begin + prefix] = True
            copy_range(input_ids[row], begin + prefix, labels[row], begin + prefix, n - prefix)
            begin += n
