"""Masked language modelling compiled: `stages.objectives.mlm.config.mask_tokens`, bit for bit.

A row passes through a core's first cache in short loops that a compiler turns into vector code: draws,
special ids barred, inputs, labels. What 16 bits leave open, 3 positions of 65,536, and the positions
that show a random id are noted on the way and decided one by one. N rows, L tokens, V ids.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from stages.kernels import kernel
from stages.objectives.kernels.noise import draw_block, scaled
from stages.objectives.kernels.scratch import (
    LEADING,
    MANY_RANGES,
    REST,
    Bounds,
    KernelIds,
    KernelRows,
    PositionChoice,
    bounds_of,
    draw_blocks,
    draw_leading,
    filled_tokens,
    gather,
    is_special,
    kernel_choice,
    kernel_ids,
    kernel_rows,
    lay_out,
    lies_below,
)
from stages.objectives.mlm.config import MaskedLM, Selection, action_bounds
from stages.objectives.mlm.selection_kernel import select
from stages.objectives.rows import IGNORED, Columns, StoredRows, Widths
from stages.objectives.vocabulary import Vocabulary
from stages.seeding import threshold

_BARRED = np.uint16(0xFFFF)
_PART = 1 << 13
"""Positions that pass through the loops together: what lies on the scratch stays in a core's caches."""


def mask_tokens(
    rows: StoredRows, config: MaskedLM, vocabulary: Vocabulary, widths: Widths | None = None
) -> Columns:
    """Return what `stages.objectives.mlm.config.mask_tokens` gives."""
    del widths
    mask = rows.input_ids.dtype.type(vocabulary.named("mask"))
    input_ids = np.empty(rows.input_ids.shape, rows.input_ids.dtype)
    labels = np.empty(rows.input_ids.shape, np.int32)
    stored = kernel_rows(rows)
    ids = kernel_ids(vocabulary, rows.input_ids.dtype, config.selection)
    bounds = _bounds(config)
    if config.selection is Selection.BERNOULLI:
        plain = tuple(stored), tuple(ids), tuple(bounds)  # numba takes 5 us to look at a named one
        _mask_independent(*plain, mask, input_ids, labels)  # type: ignore[arg-type]
    else:
        choice = kernel_choice(config.mask_probability, config.selection, config.max_ngram)
        _mask_together(stored, ids, choice, bounds, mask, (input_ids, labels))
    return {"input_ids": input_ids, "labels": labels}


@lru_cache(maxsize=8)
def _bounds(config: MaskedLM) -> Bounds:
    """Return the bounds of mask, of random, of selected."""
    return bounds_of(*action_bounds(config), threshold(config.mask_probability))


@kernel
def _mask_independent(
    rows_: KernelRows,
    ids_: KernelIds,
    bounds_: Bounds,
    mask: np.integer,
    input_ids: NDArray[np.integer],
    labels: NDArray[np.int32],
) -> None:
    """Mask positions that are selected each alone."""
    stored, ids, bounds = KernelRows(*rows_), KernelIds(*ids_), Bounds(*bounds_)
    count, length = stored.ids.shape
    width = (length + 63) // 64 * 64
    step = max(1, min(_PART // max(width, 1), count))
    draws = np.empty((step, width // 4), np.uint64)
    lanes = draws.view(np.uint16)
    flags = np.empty((step, width), np.uint8)
    room = step * width + 8
    places, near, rows = np.empty(room, np.int64), np.empty(room, np.int64), np.zeros(room, np.int64)
    first, second = np.empty(room, np.uint64), np.empty(room, np.uint64)
    leading = (bounds.last >> LEADING).astype(np.uint16)
    filled = np.zeros(step, np.int64)
    for begin in range(0, count, step):
        part = min(step, count - begin)
        for each in range(part):
            filled[each] = filled_tokens(stored.segment_ptr, stored.segment_length, begin + each)
        tokens, numbers = stored.ids[begin : begin + part], stored.numbers[begin : begin + part]
        out, label = input_ids[begin : begin + part], labels[begin : begin + part]
        draw_leading(stored.stream_keys[0], numbers, filled, draws)
        _bar(tokens, filled, lanes, ids.special_ranges, ids.special)
        _show(tokens, filled, lanes, (leading[0], leading[1], leading[2], mask), out, flags)
        _label(tokens, filled, lanes, leading[2], label)
        found = gather(flags.reshape(-1), part * width, near, places)
        part_ = tokens, numbers, lanes
        random = _decide(
            part_,
            ids.special,
            bounds,
            (stored.stream_keys[1], mask),
            (places[:found], rows, near),
            (out, label),
        )
        draw_blocks(stored.stream_keys[2], rows, near, random, first, second)
        for each in range(random):
            drawn = ids.ordinary[scaled(second[each], len(ids.ordinary))]
            out[places[each], near[each]] = drawn


@kernel
def _mask_together(
    stored: KernelRows,
    ids: KernelIds,
    choice: PositionChoice,
    bounds: Bounds,
    mask: np.integer,
    columns: tuple[NDArray[np.integer], NDArray[np.int32]],
) -> None:
    """Mask positions that are selected in sight of each other; bounds of mask, of random."""
    input_ids, labels = columns
    scratch = lay_out(stored.ids.shape[1])
    places, ordinary = scratch.places, ids.ordinary
    for row in range(len(stored.ids)):
        tokens, out, label = stored.ids[row], input_ids[row], labels[row]
        out[:] = tokens
        label[:] = IGNORED
        count = select(stored, row, ids, choice, scratch)
        draw_blocks(stored.stream_keys[2], scratch.same, places, count, scratch.first, scratch.second)
        for each in range(count):
            place, draw = places[each], scratch.first[each]
            label[place] = tokens[place]
            if lies_below(draw, bounds.last[0], bounds.some[0]):
                out[place] = mask
            elif lies_below(draw, bounds.last[1], bounds.some[1]):
                out[place] = ordinary[scaled(scratch.second[each], len(ordinary))]


@kernel
def _bar(
    tokens: NDArray[np.integer],
    filled: NDArray[np.int64],
    lanes: NDArray[np.uint16],
    ranges: NDArray[np.integer],
    special: NDArray[np.bool_],
) -> None:
    """Return special ids the greatest draw."""
    for row in range(len(tokens)):
        if len(ranges) > MANY_RANGES:
            for place in range(filled[row]):
                if is_special(tokens[row, place], special):
                    lanes[row, place] = _BARRED
            continue
        for number in range(len(ranges)):
            first, last = ranges[number, 0], ranges[number, 1]
            for place in range(filled[row]):
                token = tokens[row, place]
                outside = (token < first) | (token > last)
                lanes[row, place] = lanes[row, place] if outside else _BARRED


@kernel
def _show(
    tokens: NDArray[np.integer],
    filled: NDArray[np.int64],
    lanes: NDArray[np.uint16],
    rule: tuple[np.uint16, np.uint16, np.uint16, np.integer],
    out: NDArray[np.integer],
    flags: NDArray[np.uint8],
) -> None:
    """Fill inputs; flag what is yet to be decided: from the first bound to the second, and at the third.

    A loop of its own for each column: one over all runs on narrower vectors.
    """
    first, second, third, mask = rule
    span = np.uint16(second - first)
    for row in range(len(tokens)):
        for place in range(filled[row]):
            lane = lanes[row, place]
            out[row, place] = mask if lane < first else tokens[row, place]
            flags[row, place] = (np.uint16(lane - first) <= span) | (lane == third)
        for place in range(filled[row], tokens.shape[1]):
            out[row, place] = tokens[row, place]
        flags[row, filled[row] :] = 0


@kernel
def _label(
    tokens: NDArray[np.integer],
    filled: NDArray[np.int64],
    lanes: NDArray[np.uint16],
    leading: np.uint16,
    label: NDArray[np.int32],
) -> None:
    """Fill labels."""
    for row in range(len(tokens)):
        for place in range(filled[row]):
            token = tokens[row, place]
            label[row, place] = token if lanes[row, place] < leading else np.int32(IGNORED)
        label[row, filled[row] :] = IGNORED


@kernel
def _decide(
    part: tuple[NDArray[np.integer], NDArray[np.int64], NDArray[np.uint16]],
    special: NDArray[np.bool_],
    bounds: Bounds,
    rule: tuple[NDArray[np.uint64], np.integer],
    lists: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    columns: tuple[NDArray[np.integer], NDArray[np.int32]],
) -> int:
    """Settle places, numbered through a part, by all 64 bits; give how many show a random id.

    Their rows in the part, numbers in the shard and positions are left in the lists.
    """
    tokens, numbers, lanes = part
    stream_key, mask = rule
    places, rows, blocks = lists
    out, label = columns
    first, second, third = (
        bounds.last[0] >> LEADING,
        bounds.last[1] >> LEADING,
        bounds.last[2] >> LEADING,
    )
    random, width = 0, lanes.shape[1]
    for each in range(len(places)):
        row = places[each] // width
        place = places[each] - row * width
        lane = np.uint64(lanes[row, place])
        draw = lane << LEADING
        if (lane == first) | (lane == second) | (lane == third):
            if is_special(tokens[row, place], special):
                continue
            draw |= draw_block(stream_key, numbers[row], place)[0] >> REST
        if not lies_below(draw, bounds.last[2], bounds.some[2]):
            continue
        label[row, place] = tokens[row, place]
        if lies_below(draw, bounds.last[0], bounds.some[0]):
            out[row, place] = mask
        elif lies_below(draw, bounds.last[1], bounds.some[1]):
            places[random], rows[random], blocks[random] = row, numbers[row], place
            random += 1
    return random
