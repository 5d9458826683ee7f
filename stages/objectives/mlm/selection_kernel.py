"""Positions selected, compiled: `mlm.config.select_positions` for one row after the other."""

import numpy as np
from numpy.typing import NDArray

from stages.kernels import kernel
from stages.objectives.kernels.noise import draw_block
from stages.objectives.kernels.scratch import (
    BERNOULLI,
    EXACT,
    LEADING,
    MANY_RANGES,
    REST,
    WHOLE_WORD,
    KernelIds,
    KernelRows,
    PositionChoice,
    RowScratch,
    draw_blocks,
    draw_leading,
    filled_tokens,
    gather,
    is_chosen,
    is_special,
    lies_below,
    tokens_wanted,
)


@kernel
def select(
    stored: KernelRows, row: int, ids: KernelIds, choice: PositionChoice, scratch: RowScratch
) -> int:
    """Return how many positions of a row are selected; `scratch.places` has them from left to right."""
    filled = filled_tokens(stored.segment_ptr, stored.segment_length, row)
    tokens = stored.ids[row, :filled]
    scratch.filled[0] = filled
    scratch.same[:] = stored.numbers[row]
    draw_leading(stored.stream_keys[0], scratch.same[:1], scratch.filled, scratch.draws)
    _free(tokens, ids.special_ranges, ids.special, scratch.free)
    if choice.how == EXACT:
        _flag_smallest(stored.stream_keys[1], stored.numbers[row], filled, choice.probability, scratch)
    elif choice.how == BERNOULLI:
        _flag_independent(scratch.lanes[:filled], scratch.free, choice.bound.last[0], scratch.flags)
    else:
        count = _begin_words(stored, row, filled, ids.starts, scratch)
        if choice.how == WHOLE_WORD:
            _flag_words(stored.stream_keys[1], stored.numbers[row], (filled, count), choice, scratch)
        else:
            _flag_ngrams(stored.stream_keys, (filled, count), choice, scratch)
    found = gather(scratch.flags, filled, scratch.nearby, scratch.places)
    if choice.how != BERNOULLI:
        return found
    kept, places, lanes = np.int64(0), scratch.places, scratch.lanes
    stream_key, number = stored.stream_keys[1], stored.numbers[row]
    last, some = choice.bound.last[0], choice.bound.some[0]
    leading = np.uint16(last >> LEADING)
    for each in range(found):
        place = places[each]
        places[kept] = place
        lane = lanes[place]  # a call costs 30 ns
        kept += lane < leading or is_chosen(stream_key, number, place, lane, last, some)
    return int(kept)


@kernel
def _free(
    tokens: NDArray[np.integer],
    ranges: NDArray[np.integer],
    special: NDArray[np.bool_],
    free: NDArray[np.bool_],
) -> None:
    """Say which ids are not special."""
    if len(ranges) > MANY_RANGES:
        for place in range(len(tokens)):
            free[place] = not is_special(tokens[place], special)
        return
    free[: len(tokens)] = True
    for number in range(len(ranges)):
        first, last = ranges[number, 0], ranges[number, 1]
        for place in range(len(tokens)):
            free[place] &= (tokens[place] < first) | (tokens[place] > last)


@kernel
def _flag_independent(
    lanes: NDArray[np.uint16], free: NDArray[np.bool_], last: np.uint64, flags: NDArray[np.uint8]
) -> None:
    """Flag the positions whose leading bits leave open that they are selected."""
    leading = np.uint16(last >> LEADING)
    for place in range(len(lanes)):
        flags[place] = free[place] & (lanes[place] <= leading)


@kernel
def _flag_smallest(
    stream_key: NDArray[np.uint64], number: int, filled: int, probability: float, scratch: RowScratch
) -> None:
    """Flag the smallest draws: whole bins of 8 leading bits, and the first of one bin put in order."""
    lanes, free, flags, nearby, draws = (
        scratch.lanes,
        scratch.free,
        scratch.flags,
        scratch.nearby,
        scratch.first,
    )
    bins = np.zeros(256, np.int64)
    for place in range(filled):
        bins[lanes[place] >> 8] += free[place]
    left = tokens_wanted(free[:filled], probability)
    last = 0
    while last < len(bins) - 1 and left > bins[last]:
        left -= bins[last]
        last += 1
    near = 0
    for place in range(filled):
        high = lanes[place] >> 8
        flags[place] = free[place] & (high < last)
        nearby[near] = place
        near += free[place] & (high == last)
    for each in range(near):
        place = nearby[each]
        rest = draw_block(stream_key, number, place)[0] >> REST
        draw = np.uint64(lanes[place]) << LEADING | rest
        slot = each
        while slot > 0 and draws[slot - 1] > draw:
            draws[slot], nearby[slot] = draws[slot - 1], nearby[slot - 1]
            slot -= 1
        draws[slot], nearby[slot] = draw, place
    for each in range(min(left, near)):
        flags[nearby[each]] = 1


@kernel
def _begin_words(
    stored: KernelRows, row: int, filled: int, starts: NDArray[np.bool_], scratch: RowScratch
) -> int:
    """Return how many words a row has, and lay them out in `scratch.words`."""
    tokens, lengths, free = stored.ids[row], stored.segment_length, scratch.free
    firsts, sizes, cut_off = scratch.words[0], scratch.words[1], scratch.words[2]
    count, segment, end = 0, stored.segment_ptr[row], np.int64(0)
    before, known = end > 0, np.int64(len(starts))
    for place in range(filled):
        apart = not before
        while place == end:
            apart = True
            end += lengths[segment]
            segment += 1
        before = free[place]
        if before:
            token = np.int64(tokens[place])
            token = np.int64(0) if token < 0 else token
            token = token if token < known else known - 1
            if apart or starts[token]:
                firsts[count], sizes[count], cut_off[count] = place, 0, apart
                count += 1
            sizes[count - 1] += 1
    return count


@kernel
def _flag_words(
    stream_key: NDArray[np.uint64],
    number: int,
    counts: tuple[int, int],
    choice: PositionChoice,
    scratch: RowScratch,
) -> None:
    """Flag the words whose first position has a small draw."""
    filled, count = counts
    last, some = choice.bound.last[0], choice.bound.some[0]
    leading = np.uint16(last >> LEADING)
    firsts, sizes, lanes, flags = scratch.words[0], scratch.words[1], scratch.lanes, scratch.flags
    flags[:filled] = 0
    for word in range(count):
        first = firsts[word]
        lane = lanes[first]
        if lane > leading or not is_chosen(stream_key, number, first, lane, last, some):
            continue
        for place in range(first, first + sizes[word]):
            flags[place] = 1


@kernel
def _order_words(stream_key: NDArray[np.uint64], count: int, scratch: RowScratch) -> None:
    """Put the words in the order in which they are visited: into bins of 8 leading bits, then sorted."""
    firsts, order, lanes, draws = scratch.words[0], scratch.words[3], scratch.lanes, scratch.first
    draw_blocks(stream_key, scratch.same, firsts, count, draws, scratch.second)
    slots = np.zeros(257, np.int64)
    for word in range(count):
        lane = lanes[firsts[word]]
        draws[word] = np.uint64(lane) << LEADING | draws[word] >> REST
        slots[(lane >> 8) + 1] += 1
    for high in range(1, 257):
        slots[high] += slots[high - 1]
    for word in range(count):
        high = lanes[firsts[word]] >> 8
        order[slots[high]] = word
        slots[high] += 1
    for each in range(count):
        word, slot = order[each], each
        while slot > 0 and draws[order[slot - 1]] > draws[word]:
            order[slot] = order[slot - 1]
            slot -= 1
        order[slot] = word


@kernel
def _flag_ngrams(
    stream_key: NDArray[np.uint64], counts: tuple[int, int], choice: PositionChoice, scratch: RowScratch
) -> None:
    """Flag runs of words until no token is left to select."""
    filled, count = counts
    firsts, sizes, cut_off, order = (
        scratch.words[0],
        scratch.words[1],
        scratch.words[2],
        scratch.words[3],
    )
    flags, draws, bounds = scratch.flags, scratch.first, choice.ngrams
    _order_words(stream_key[1], count, scratch)
    draw_blocks(stream_key[3], scratch.same, firsts, count, draws, scratch.second)
    flags[:filled] = 0
    left = tokens_wanted(scratch.free[:filled], choice.probability)
    untouched = True
    for each in range(count):
        word = order[each]
        longest = word + 1
        for bound in range(len(bounds.last)):
            longest += not lies_below(draws[word], bounds.last[bound], bounds.some[bound])
        end, size = word, 0
        while end < min(longest, count) and not flags[firsts[end]]:
            if (end > word and cut_off[end]) or size + sizes[end] > left:
                break
            size += sizes[end]
            end += 1
        for place in range(firsts[word], firsts[word] + size):
            flags[place] = 1
            untouched = False
        left -= size
        if left == 0:
            return
    if count and untouched:
        flags[firsts[order[0]] : firsts[order[0]] + left] = 1
