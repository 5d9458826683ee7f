"""BART's noises, compiled: the columns of `stages.objectives.bart.config`, over whole shards."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.kernels import kernel
from stages.objectives.bart.config import BART, ENDS, DenoisingTag, poisson_thresholds
from stages.objectives.kernels.noise import draw, draw_block, scaled, stream_key_of
from stages.objectives.kernels.seq2seq import Frame, close_row, frame_of
from stages.objectives.rows import Columns, StoredRows, Widths, lengths_without_eos
from stages.objectives.seq2seq import refuse_overflow
from stages.objectives.vocabulary import Vocabulary
from stages.seeding import threshold


class _Noise(NamedTuple):
    """What all rows share."""

    lengths: NDArray[np.uint64]
    """Words of the stream of spans' lengths; so for the following three."""
    places: NDArray[np.uint64]
    deletion: NDArray[np.uint64]
    rotation: NDArray[np.uint64]
    poisson: NDArray[np.uint64]
    """(K,) at most how many of them a draw reaches is the length of its span."""
    ratios: NDArray[np.float64]
    """mask_ratio and delete_ratio."""
    turning: NDArray[np.uint64]
    """Whether any row is turned, and the greatest draw at which one is."""
    ids: NDArray[np.int64]
    """Mask, BOS, EOS, pad."""


class _Scratch(NamedTuple):
    """What one row needs for a while."""

    spans: NDArray[np.int64]
    is_mask: NDArray[np.bool_]
    lost: NDArray[np.bool_]
    items: NDArray[np.integer]


def add_noise(rows: StoredRows, config: BART, vocabulary: Vocabulary, widths: Widths) -> Columns:
    """Return the columns of rows with noise, as the plain version does.

    Raises:
        FormatError: a row does not fit, or the tokenizer has no mask or BOS.
    """
    bos, eos, mask = (vocabulary.named(name) for name in ("bos", "eos", "mask"))
    lengths = lengths_without_eos(rows, eos)
    refuse_overflow(lengths + ENDS, lengths + 1, widths=widths, numbers=rows.numbers)
    turning = threshold(config.rotate_probability)
    noise = _Noise(
        stream_key_of(rows, DenoisingTag.SPAN_LENGTH),
        stream_key_of(rows, DenoisingTag.SPAN_PLACE),
        stream_key_of(rows, DenoisingTag.DELETION),
        stream_key_of(rows, DenoisingTag.ROTATION),
        np.array(poisson_thresholds(config.poisson_lambda), np.uint64),
        np.array([config.mask_ratio, config.delete_ratio]),
        np.array([turning > 0, max(turning - 1, 0)], np.uint64),
        np.array([mask, bos, eos, vocabulary.named("pad")]),
    )
    dtype = rows.input_ids.dtype
    frame = frame_of(len(lengths), dtype=dtype, widths=widths)
    scratch = _Scratch(
        np.empty(2 * widths.inputs, np.int64),
        np.empty(widths.inputs, np.bool_),
        np.empty(widths.inputs, np.bool_),
        np.empty(widths.inputs, dtype),
    )
    _noise_rows(rows.input_ids, lengths, rows.numbers, noise, scratch, frame)
    return frame.columns()


@kernel
def _noise_rows(
    source: NDArray[np.integer],
    lengths: NDArray[np.int64],
    numbers: NDArray[np.int64],
    noise: _Noise,
    scratch: _Scratch,
    frame: Frame,
) -> None:
    """Fill the columns; lengths (N,) are those of the rows' bodies."""
    _, bos, eos, pad = noise.ids
    items = scratch.items
    for row in range(len(source)):
        length = lengths[row]
        count = _make_items(source[row, :length], numbers[row], noise, scratch)
        turn, start = draw_block(noise.rotation, numbers[row], 0)
        first = 0
        if noise.turning[0] and turn <= noise.turning[1] and count > 0:
            first = scaled(start, count)
        shown, targets = frame.input_ids[row], frame.labels[row]
        shown[0], shown[1 + count] = bos, eos
        for place in range(first, count):
            shown[1 + place - first] = items[place]
        for place in range(first):
            shown[1 + count - first + place] = items[place]
        for place in range(length):
            targets[place] = source[row, place]
        if length > 0:
            targets[length] = eos
        close_row(frame, row, count + ENDS, length + (length > 0), pad)


@kernel
def _make_items(body: NDArray[np.integer], row: int, noise: _Noise, scratch: _Scratch) -> int:
    """Write the tokens and masks of one row, before it is turned; give how many."""
    spans, is_mask, lost, items = scratch
    hidden = math.ceil(noise.ratios[0] * len(body))
    kept = len(body) - hidden
    count = _draw_spans(row, hidden, len(items) - ENDS - kept, noise, spans)
    _choose(noise.places, row, 1, count, kept + count, is_mask)
    deleted = min(math.ceil(noise.ratios[1] * len(body)), kept)
    _choose(noise.deletion, row, 0, deleted, kept, lost)
    token = filled = shown = span = 0
    for place in range(kept + count):
        if is_mask[place]:
            items[filled] = noise.ids[0]
            filled += 1
            token += spans[span]
            span += 1
            continue
        if not lost[shown]:
            items[filled] = body[token]
            filled += 1
        shown += 1
        token += 1
    return filled


@kernel
def _draw_spans(row: int, hidden: int, room: int, noise: _Noise, spans: NDArray[np.int64]) -> int:
    """Write how many tokens each mask hides, from left to right; give the number of masks.

    Args:
        row: its number.
        hidden: tokens to hide.
        room: for masks.
        noise: has the streams.
        spans: at least hidden + room places.
    """
    if hidden == 0:
        return 0
    total = count = empty = block = 0
    while total < hidden:
        for value in draw_block(noise.lengths, row, block):
            span = min(_poisson(value, noise.poisson), hidden - total)
            if total < hidden and (span > 0 or empty < room):
                spans[count] = span
                count += 1
                total += span
                empty += span == 0
        block += 1
    count = _leave_out(spans, count, empty + room - count)
    first, _ = draw_block(noise.places, row, 0)
    place, last = scaled(first, count), spans[count - 1]
    for moved in range(count - 1, place, -1):
        spans[moved] = spans[moved - 1]
    spans[place] = last
    return count


@kernel
def _leave_out(spans: NDArray[np.int64], count: int, allowed: int) -> int:
    """Take all but the first so many spans of length 0 out; give how many spans are left."""
    left = empty = 0
    for number in range(count):
        empty += spans[number] == 0
        if spans[number] > 0 or empty <= allowed:
            spans[left] = spans[number]
            left += 1
    return left


@kernel
def _poisson(value: np.uint64, thresholds: NDArray[np.uint64]) -> int:
    """Return how many of the thresholds, which ascend, are at most the value."""
    number = 0
    while number < len(thresholds) and thresholds[number] <= value:
        number += 1
    return number


@kernel
def _choose(
    stream_key: NDArray[np.uint64],
    row: int,
    first: int,
    wanted: int,
    size: int,
    chosen: NDArray[np.bool_],
) -> None:
    """Choose some of `size` places by the draws of a row's stream from number `first` on."""
    for place in range(size):
        chosen[place] = False
    for number in range(wanted):
        last = size - wanted + number
        place = scaled(draw(stream_key, row, first + number), last + 1)
        chosen[last if chosen[place] else place] = True
