"""What the kernels that select positions work with: rows, ids and draws as numba takes them, and room.

N rows, L tokens, V ids.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.kernels import kernel
from stages.objectives.kernels.noise import draw_block, philox
from stages.objectives.mlm.config import MaskTag, Selection, ngram_bounds, word_starts
from stages.objectives.rows import StoredRows
from stages.objectives.vocabulary import Vocabulary
from stages.seeding import Key, threshold

_ONE, _EIGHT, _TOP, _ONES = np.uint64(1), np.uint64(8), np.uint64(56), np.uint64(0x0101010101010101)
LEADING, REST = np.uint64(48), np.uint64(16)
MANY_RANGES = 8
"""Ranges of special ids above which a table of all ids is faster than a loop for each range."""

_TAGS = (MaskTag.LEADING, MaskTag.REST, MaskTag.REPLACEMENT, MaskTag.NGRAM)
_HOW = list(Selection)
BERNOULLI, EXACT, WHOLE_WORD = map(_HOW.index, _HOW[:3])


class KernelRows(NamedTuple):
    """Rows as stored."""

    ids: NDArray[np.integer]
    """(N, L)."""
    segment_ptr: NDArray[np.int64]
    segment_length: NDArray[np.int64]
    numbers: NDArray[np.int64]
    stream_keys: NDArray[np.uint64]
    """(4, 5) what keys the draws of each tag, and 2**32 - 1, which must look unknown to the compiler:
    with a constant it turns a shift into a product of 64 bits."""


class KernelIds(NamedTuple):
    """What becomes of ids."""

    special_ranges: NDArray[np.integer]
    """(R, 2) first and last of each range of special ids, in the dtype of the ids."""
    special: NDArray[np.bool_]
    starts: NDArray[np.bool_]
    """(V,) which begin a word; empty if no one asks."""
    ordinary: NDArray[np.int64]


class Bounds(NamedTuple):
    """Bounds of draws, of at most 2**64."""

    last: NDArray[np.uint64]
    """(B,) the bounds less one."""
    some: NDArray[np.bool_]
    """(B,) whether there is anything below them."""


class PositionChoice(NamedTuple):
    """How positions are selected."""

    how: int
    probability: float
    bound: Bounds
    """Of one."""
    ngrams: Bounds


class RowScratch(NamedTuple):
    """Room for the work on one row, used again for the next."""

    draws: NDArray[np.uint64]
    """(1, ...) leading bits of the positions' draws, 8 blocks after 8."""
    lanes: NDArray[np.uint16]
    """The same, of each position."""
    filled: NDArray[np.int64]
    """(1,)."""
    same: NDArray[np.int64]
    """(L + 8,) the row's number, over and over."""
    first: NDArray[np.uint64]
    second: NDArray[np.uint64]
    """Draws of single blocks."""
    flags: NDArray[np.uint8]
    """(L,) rounded up to 8."""
    free: NDArray[np.bool_]
    places: NDArray[np.int64]
    nearby: NDArray[np.int64]
    words: NDArray[np.int64]
    """(4, L + 8) of each word: first position, tokens, whether it is cut off; which is visited when."""


def kernel_rows(rows: StoredRows) -> KernelRows:
    """Return rows as kernels take them."""
    return KernelRows(
        np.ascontiguousarray(rows.input_ids),
        np.ascontiguousarray(rows.segment_ptr, np.int64),
        np.ascontiguousarray(rows.segment_length, np.int64),
        np.ascontiguousarray(rows.numbers, np.int64),
        _stream_keys(rows.seed, rows.epoch, rows.shard),
    )


@lru_cache(maxsize=8)
def _stream_keys(seed: int, epoch: int, shard: int) -> NDArray[np.uint64]:
    """Return what keys the draws of a shard, each tag in a row; that costs as much as 8,000 draws."""
    keys = [
        (seed & 0xFFFFFFFF, seed >> 32, shard | key.tag << 24, key.epoch, 0xFFFFFFFF)
        for key in (Key(seed, epoch, shard, tag) for tag in _TAGS)
    ]
    return np.array(keys, np.uint64)


@lru_cache(maxsize=8)
def kernel_ids(vocabulary: Vocabulary, dtype: np.dtype[np.integer], selection: Selection) -> KernelIds:
    """Return what becomes of ids; one outside the vocabulary is treated as the nearest inside."""
    ranges = vocabulary.special_ranges.astype(dtype)
    if len(ranges) and vocabulary.is_special[0]:
        ranges[0, 0] = np.iinfo(dtype).min
    if len(ranges) and vocabulary.is_special[-1]:
        ranges[-1, 1] = np.iinfo(dtype).max
    asked = selection in {Selection.WHOLE_WORD, Selection.NGRAM}
    starts = word_starts(vocabulary) if asked else np.empty(0, np.bool_)
    return KernelIds(ranges, vocabulary.is_special, starts, vocabulary.ordinary)


@lru_cache(maxsize=8)
def kernel_choice(probability: float, selection: Selection, max_ngram: int) -> PositionChoice:
    """Return how positions are selected."""
    return PositionChoice(
        _HOW.index(selection),
        probability,
        bounds_of(threshold(probability)),
        bounds_of(*ngram_bounds(max_ngram)[:-1]),
    )


def bounds_of(*bounds: int) -> Bounds:
    """Return bounds as kernels take them."""
    return Bounds(
        np.array([max(bound, 1) - 1 for bound in bounds], np.uint64),
        np.array([bound > 0 for bound in bounds], np.bool_),
    )


@kernel
def lay_out(length: int) -> RowScratch:
    """Return room for rows of so many tokens."""
    draws = np.empty((1, (length + 63) // 64 * 16), np.uint64)
    room = length + 8
    return RowScratch(
        draws,
        draws.view(np.uint16)[0],
        np.empty(1, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.uint64),
        np.empty(room, np.uint64),
        np.empty(room // 8 * 8, np.uint8),
        np.empty(room, np.bool_),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty((4, room), np.int64),
    )


@kernel
def filled_tokens(segment_ptr: NDArray[np.int64], segment_length: NDArray[np.int64], row: int) -> int:
    """Return the tokens of a row."""
    filled = 0
    for segment in range(segment_ptr[row], segment_ptr[row + 1]):
        filled += segment_length[segment]
    return filled


@kernel
def draw_leading(
    stream_key: NDArray[np.uint64],
    numbers: NDArray[np.int64],
    filled: NDArray[np.int64],
    draws: NDArray[np.uint64],
) -> None:
    """Draw for each position of some rows: eight blocks together, alike for vector code."""
    shard, epoch, low = stream_key[2], stream_key[3], stream_key[4]
    seed0, seed1 = stream_key[0], stream_key[1]
    for each in range(len(numbers)):
        row, out = np.uint64(numbers[each]), draws[each]
        for group in range((filled[each] + 63) // 64):
            for block in range(8):
                place = np.uint64(8 * group + block)
                first, second = philox(place, row, shard, epoch, seed0, seed1, low)
                out[16 * group + block], out[16 * group + 8 + block] = first, second


@kernel
def draw_blocks(
    stream_key: NDArray[np.uint64],
    numbers: NDArray[np.int64],
    blocks: NDArray[np.int64],
    count: int,
    first: NDArray[np.uint64],
    second: NDArray[np.uint64],
) -> None:
    """Draw some blocks of some rows, and up to seven more to fill a vector: there must be room."""
    shard, epoch, low = stream_key[2], stream_key[3], stream_key[4]
    seed0, seed1 = stream_key[0], stream_key[1]
    for each in range((count + 7) // 8 * 8):
        block, row = np.uint64(blocks[each]), np.uint64(numbers[each])
        first[each], second[each] = philox(block, row, shard, epoch, seed0, seed1, low)


@kernel
def gather(
    flags: NDArray[np.uint8], filled: int, nearby: NDArray[np.int64], places: NDArray[np.int64]
) -> int:
    """Return how many positions are flagged; they lie in `places` from left to right."""
    eights = (filled + 7) // 8
    for place in range(filled, 8 * eights):
        flags[place] = 0
    together = flags.view(np.uint64)
    found = np.uint64(0)
    for eight in range(np.uint64(eights)):  # unsigned, or each index is tested for its sign
        nearby[found] = eight
        found += np.uint64(together[eight] != np.uint64(0))
    count = np.uint64(0)
    for number in range(found):
        chosen = np.uint64(nearby[number])
        left = together[chosen]
        while left:
            lowest = left & (~left + _ONE)
            before = ((lowest - _ONE) & _ONES) * _ONES >> _TOP  # bytes of the eight before the lowest
            places[count] = np.int64(_EIGHT * chosen + before)
            count += _ONE
            left ^= lowest
    return np.int64(count)  # type: ignore[return-value]


@kernel
def is_special(token: np.integer, special: NDArray[np.bool_]) -> np.bool_:
    """Say whether an id is special; one outside the vocabulary is treated as the nearest inside."""
    number = np.int64(token)
    if number < 0:
        return np.bool_(special[0])
    return np.bool_(special[number if number < len(special) else -1])


@kernel
def lies_below(draw: np.uint64, last: np.uint64, some: np.bool_) -> np.bool_:
    """Say whether a draw lies below a bound, of which the last number below it is given, if any."""
    return some & (draw <= last)


@kernel
def is_chosen(
    stream_key: NDArray[np.uint64],
    number: int,
    place: int,
    lane: np.uint16,
    last: np.uint64,
    some: np.bool_,
) -> np.bool_:
    """Say whether the draw of a position lies below a bound."""
    draw = np.uint64(lane) << LEADING
    if np.uint64(lane) == last >> LEADING:
        draw |= draw_block(stream_key, number, place)[0] >> REST
    return lies_below(draw, last, some)


@kernel
def tokens_wanted(free: NDArray[np.bool_], probability: float) -> int:
    """Return how many positions of a row are to be selected."""
    able = 0
    for place in range(len(free)):
        able += free[place]
    wanted = np.int64(np.floor(probability * np.float64(able) + 0.5))
    if wanted < 1:
        wanted = np.int64(1)
    return min(int(wanted), able)
