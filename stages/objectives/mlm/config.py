"""Masked language modelling: say what stood at some positions, from both sides.

    tokens      The  quick  brown  fox  jumps  </s>
    selected     .     #      .     #     #     .      (15 %; special ids never)
    input_ids   The <mask>  brown  cat  jumps  </s>    (80 % mask, 10 % random, 10 % kept)
    labels       .   quick    .    fox  jumps   .      (. is -100)

Labels stand where the token stood: nothing is shifted. Rows are stored clean; the mask is drawn when
they are read, another for each epoch. A position may be selected if its id is not special and it is no
padding. Every draw is a function of (seed, epoch, shard, row, position t):

    selecting draw U   64 bits. Its 16 leading ones are of tag 4, of which eight blocks serve 64
                       positions, their u64[0] first, then their u64[1], each four positions from its
                       low bits up: with q = t // 4 % 16 they are bits 16 (t % 4) .. 16 (t % 4) + 15
                       of u64[q // 8] of block 8 (t // 64) + q % 8. The 48 others are the leading ones
                       of u64[0] of block t of tag 5, looked at only where 16 bits decide nothing
    action draw A      tag 6, block t, u64[0]
    random id          tag 6, block t, u64[1] = r: ordinary id number floor(r V / 2**64) of V, ascending

    bernoulli   U < S = T(mask_probability). It shows the mask if U < floor(S T(mask_share) / 2**64),
                else a random id if U < floor(S T(mask_share + random_share) / 2**64), else itself
    exact       the k positions with the smallest U, equal ones from the left
    whole_word  words whose first position has U < S, with all their tokens
    ngram       runs of words, k tokens or a few less: see below

The last three show the mask where A < T(mask_share), else a random id where A < T(mask_share +
random_share), else the token itself. T(p) = floor(p 2**64), p and the sum as IEEE doubles.
k = floor(mask_probability n + 1/2) of the n positions of a row that may be selected, at least 1.

A *word* begins at each id of which the tokenizer says so, at the first token of a segment and after a
special id, and ends before the next word, special id or segment. The n-grams of a row:

    1. Its words are visited in the order of U of their first positions, equal ones from the left.
    2. A word not yet selected, first position t, opens an n-gram of n words, the least n of
       1 .. max_ngram with G < T((1/1 + .. + 1/n) / (1/1 + .. + 1/max_ngram)); sums from the left, as
       IEEE doubles; G is u64[0] of block t of tag 7; T of the last is 2**64.
    3. n shrinks until no word of the n-gram is selected already or lies behind a special id or the end
       of the segment, and until what is selected with it passes k tokens no more. If n is then 0 the
       word is passed over, for good.
    4. If every word is longer than k, the first word visited is selected in its first k tokens: the
       only word that is ever selected in part.

Source: Devlin et al. 2019, "BERT", section 3.1, arXiv 1810.04805; a mask for each epoch: Liu et al.
2019, "RoBERTa", section 4.1, arXiv 1907.11692; n-grams: Lan et al. 2020, "ALBERT", section 4.1, arXiv
1909.11942. We leave the papers in this: no special id is selected or drawn, and CLS and SEP stand only
where the run's framing puts them, around documents or around rows.
"""

from collections.abc import Iterator
from enum import StrEnum
from itertools import accumulate
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from stages.errors import FormatError
from stages.objectives.rows import IGNORED, Columns, StoredRows, Widths, segment_starts
from stages.objectives.traits import Objective
from stages.objectives.vocabulary import Vocabulary
from stages.seeding import Tag, below, draw_u64, scale, threshold

_CHUNK = 1 << 16
"""Tokens masked together: the draws of a chunk stay in a core's cache."""
_SERVED = 64
"""Positions that eight blocks of leading bits serve together."""

Positions = tuple[NDArray[np.int64], NDArray[np.int64]]
"""(row, position), both (S,), from the first row to the last and from left to right."""


class MaskTag(Tag):
    """What the draws of masks are for."""

    LEADING = 4
    """The 16 leading bits of the draws by which positions are selected."""
    REST = 5
    """Their other bits."""
    REPLACEMENT = 6
    """What is shown at selected positions."""
    NGRAM = 7
    """How many words an n-gram has."""


class Selection(StrEnum):
    """How positions are selected."""

    BERNOULLI = "bernoulli"
    EXACT = "exact"
    WHOLE_WORD = "whole_word"
    NGRAM = "ngram"


class SelectionSettings(Protocol):
    """What of an objective's config says which positions are selected."""

    @property
    def mask_probability(self) -> float:
        """Share of the positions without a special id."""

    @property
    def selection(self) -> Selection:
        """How."""

    @property
    def max_ngram(self) -> int:
        """Words of the longest n-gram."""


class MaskedLM(Objective):
    """Masked language modelling."""

    kind: Literal["mlm"] = "mlm"
    """Names the objective."""
    mask_probability: float = Field(0.15, gt=0.0, le=1.0)
    """Share of the positions without a special id that are selected."""
    selection: Selection = Selection.BERNOULLI
    """`bernoulli` selects each position independently. `exact` selects the same share of every row, at
    least one position. `whole_word` selects words independently, each with all its tokens. `ngram`
    selects sequences of words, up to the same share of every row."""
    mask_share: float = Field(0.8, ge=0.0, le=1.0)
    """Share of the selected positions that show the mask."""
    random_share: float = Field(0.1, ge=0.0, le=1.0)
    """Share that shows a random ordinary id; the rest shows the token itself."""
    max_ngram: int = Field(3, ge=1, le=16)
    """Words of the longest n-gram; n words are drawn with a probability proportional to 1 / n.
    Only with `selection = "ngram"`."""

    @model_validator(mode="after")
    def _shares_leave_room(self) -> "MaskedLM":
        if self.mask_share + self.random_share > 1.0:
            raise ValueError(
                f"mask_share = {self.mask_share} and random_share = {self.random_share} must not pass 1"
                " together"
            )
        return self


def mask_tokens(
    rows: StoredRows, config: MaskedLM, vocabulary: Vocabulary, widths: Widths | None = None
) -> Columns:
    """Return `input_ids` (N, L) of the dtype stored and `labels` (N, L) int32.

    Where there is a label it is the token that stood there, so rows can be restored. A row in which
    nothing is selected has no label.

    Args:
        rows: the rows as stored, with what keys their draws.
        config: the objective.
        vocabulary: of the tokenizer.
        widths: of the dataset; all are L, so nothing is asked of them.

    Raises:
        FormatError: the tokenizer has no mask, or does not say which ids begin a word.
    """
    del widths
    mask = vocabulary.named("mask")
    to_mask, to_random = action_bounds(config)
    input_ids = rows.input_ids.copy()
    labels = np.full(rows.input_ids.shape, IGNORED, np.int32)
    for begin, part in chunks(rows):
        row, position = select_positions(part, config, vocabulary)
        tokens = part.input_ids[row, position]
        draws = draw_blocks(part, MaskTag.REPLACEMENT, row, position)
        random = vocabulary.ordinary[scale(draws[:, 1], len(vocabulary.ordinary))]
        actions = draws[:, 0]
        if config.selection is Selection.BERNOULLI:
            actions = _selecting(part, row, position)
        shown = np.where(below(actions, to_random), random, tokens)
        input_ids[begin + row, position] = np.where(below(actions, to_mask), mask, shown)
        labels[begin + row, position] = tokens
    return {"input_ids": input_ids, "labels": labels}


def restore_mlm(
    columns: Columns, config: MaskedLM, vocabulary: Vocabulary
) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
    """Return the clean tokens of every row, (N, L), and how many they are, (N,)."""
    del config
    input_ids, labels = columns["input_ids"], columns["labels"]
    tokens = np.where(labels != IGNORED, labels, input_ids).astype(input_ids.dtype)
    return tokens, unpadded_lengths(tokens, vocabulary.named("pad"))


def unpadded_lengths(tokens: NDArray[np.generic], pad: int) -> NDArray[np.int64]:
    """Return how many tokens of each row come before its padding: (N,) int64.

    [[7 8 2 .] [. . . .]] -> [3 0]
    """
    trailing = np.logical_and.accumulate(tokens[:, ::-1] == pad, axis=1)
    lengths: NDArray[np.int64] = tokens.shape[1] - np.count_nonzero(trailing, axis=1)
    return lengths


def expected_counts(maskable: NDArray[np.int64], probability: float) -> NDArray[np.int64]:
    """Return how many positions `exact` selects in rows with so many to select from.

    [0 1 2 10 20] at 0.15 -> [0 1 1 2 3]
    """
    wanted = np.floor(probability * maskable + 0.5).astype(np.int64)
    counts: NDArray[np.int64] = np.minimum(np.maximum(wanted, 1), maskable)
    return counts


def action_bounds(config: MaskedLM) -> tuple[int, int]:
    """Return the bounds below which a draw shows the mask, or a random id if not the mask."""
    bounds = threshold(config.mask_share), threshold(config.mask_share + config.random_share)
    if config.selection is Selection.BERNOULLI:
        selecting = threshold(config.mask_probability)
        return selecting * bounds[0] >> 64, selecting * bounds[1] >> 64
    return bounds


def ngram_bounds(longest: int) -> list[int]:
    """Return the bounds below which a draw gives n-grams of at most 1, 2, .. words.

    1 -> [2**64]; 2 -> [2/3 2**64, 2**64]
    """
    sums = list(accumulate(1 / n for n in range(1, longest + 1)))
    return [threshold(each / sums[-1]) for each in sums]


def chunks(rows: StoredRows) -> Iterator[tuple[int, StoredRows]]:
    """Yield the rows in parts that fit a cache, each with the number of its first row among `rows`."""
    count, length = rows.input_ids.shape
    step = max(1, _CHUNK // max(length, 1))
    for begin in range(0, count, step):
        yield begin, rows.take(np.arange(begin, min(begin + step, count)))


def select_positions(rows: StoredRows, config: SelectionSettings, vocabulary: Vocabulary) -> Positions:
    """Return the positions that are to be guessed."""
    maskable = rows.covered & ~vocabulary.special(rows.input_ids)
    match config.selection:
        case Selection.BERNOULLI:
            return _bernoulli(rows, maskable, config.mask_probability)
        case Selection.EXACT:
            return _smallest(rows, maskable, config.mask_probability)
        case Selection.WHOLE_WORD:
            begins, _ = _word_begins(rows, maskable, vocabulary)
            begun = np.zeros_like(maskable)
            begun[_bernoulli(rows, begins, config.mask_probability)] = True
            first = np.maximum.accumulate(np.where(begins, np.arange(begins.shape[1]), 0), axis=1)
            return _positions(maskable & np.take_along_axis(begun, first, axis=1))
        case Selection.NGRAM:
            return _positions(_ngrams(rows, config, maskable, vocabulary))


def _bernoulli(rows: StoredRows, able: NDArray[np.bool_], probability: float) -> Positions:
    """Return the positions whose draw is small, among those that are able to be selected."""
    bound = threshold(probability)
    row, position = np.nonzero(able & (_leading(rows) <= min(bound >> 48, 0xFFFF)))
    chosen = below(_selecting(rows, row, position), bound)
    return row[chosen], position[chosen]


def _smallest(rows: StoredRows, maskable: NDArray[np.bool_], probability: float) -> Positions:
    """Return in each row as many of the smallest draws as `exact` wants."""
    counts = expected_counts(np.count_nonzero(maskable, axis=1), probability)
    draws = np.zeros(maskable.shape, np.uint64)
    draws[maskable] = _selecting(rows, *np.nonzero(maskable))
    order = np.lexsort((draws, ~maskable), axis=1)
    selected = np.zeros(maskable.shape, np.bool_)
    np.put_along_axis(selected, order, np.arange(maskable.shape[1]) < counts[:, None], axis=1)
    return _positions(selected)


def _word_begins(
    rows: StoredRows, maskable: NDArray[np.bool_], vocabulary: Vocabulary
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return where words begin, and where what stands before is no text of the segment: (N, L) each."""
    apart = np.ones_like(maskable)
    apart[:, 1:] = ~maskable[:, :-1]
    apart[segment_starts(rows)] = True
    starts = word_starts(vocabulary).take(rows.input_ids, mode="clip")
    return maskable & (apart | starts), apart


def word_starts(vocabulary: Vocabulary) -> NDArray[np.bool_]:
    """Return which ids begin a word.

    Raises:
        FormatError: the tokenizer does not say.
    """
    if vocabulary.starts_word is None:
        raise FormatError(
            "starts_word: the tokenizer does not say which ids begin a word, so words cannot be masked"
            " as a whole; set selection to bernoulli or exact"
        )
    return vocabulary.starts_word


def _ngrams(
    rows: StoredRows, config: SelectionSettings, maskable: NDArray[np.bool_], vocabulary: Vocabulary
) -> NDArray[np.bool_]:
    """Say which positions the n-grams of each row hold."""
    begins, apart = _word_begins(rows, maskable, vocabulary)
    row, first = np.nonzero(begins)
    draws = _selecting(rows, row, first)
    wanted = np.ones(len(row), np.int64)
    for bound in ngram_bounds(config.max_ngram)[:-1]:
        wanted += ~below(draw_blocks(rows, MaskTag.NGRAM, row, first)[:, 0], bound)
    sizes = np.bincount(np.cumsum(begins)[maskable.ravel()] - 1, minlength=len(row))
    budgets = expected_counts(np.count_nonzero(maskable, axis=1), config.mask_probability)
    selected = np.zeros_like(maskable)
    for number in range(len(selected)):
        own = slice(*np.searchsorted(row, [number, number + 1]))
        order = np.argsort(draws[own], kind="stable")
        cut_off = apart[number, first[own]]
        for word, size in _visit(order, sizes[own], cut_off, wanted[own], budgets[number]):
            begin = first[own][word]
            selected[number, begin : begin + size] = True
    return selected


def _visit(
    order: NDArray[np.int64],
    sizes: NDArray[np.int64],
    cut_off: NDArray[np.bool_],
    wanted: NDArray[np.int64],
    budget: np.int64,
) -> Iterator[tuple[int, int]]:
    """Yield (first word, tokens) of the n-grams of one row.

    Args:
        order: the row's words as they are visited.
        sizes: tokens of each word.
        cut_off: whether each word is cut off from the one before.
        wanted: words of the n-gram that each may open.
        budget: tokens that may be selected.
    """
    taken = np.zeros(len(order), np.bool_)
    left = int(budget)
    for word in order.tolist():
        end, size = word, 0
        while (
            end < min(word + wanted[word], len(order))
            and not taken[end]
            and (end == word or not cut_off[end])
            and size + sizes[end] <= left
        ):
            size += int(sizes[end])
            end += 1
        taken[word:end] = True
        left -= size
        if size:
            yield word, size
    if left and not taken.any():
        yield int(order[0]), left


def _leading(rows: StoredRows) -> NDArray[np.uint16]:
    """Return the 16 leading bits of the draw that selects each position: (N, L)."""
    count, length = rows.input_ids.shape
    groups = -(-length // _SERVED)
    row = np.repeat(np.arange(count), 8 * groups)
    draws = draw_blocks(rows, MaskTag.LEADING, row, np.tile(np.arange(8 * groups), count))
    lanes = np.ascontiguousarray(draws.reshape(-1, 8, 2).transpose(0, 2, 1), "<u8").view("<u2")
    return lanes.reshape(count, groups * _SERVED)[:, :length]


def _selecting(
    rows: StoredRows, row: NDArray[np.int64], position: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Return the draw that selects each of some positions: (S,)."""
    number = position // 4 % 16
    served = draw_blocks(rows, MaskTag.LEADING, row, position // _SERVED * 8 + number % 8)
    lanes = served[np.arange(len(row)), number // 8] >> (position % 4 * 16).astype(np.uint64)
    rest = draw_blocks(rows, MaskTag.REST, row, position)[:, 0]
    return lanes << np.uint64(48) | rest >> np.uint64(16)


def draw_blocks(
    rows: StoredRows, tag: Tag, row: NDArray[np.int64], block: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Return the two draws of one block of the streams of some rows: (S, 2)."""
    return draw_u64(rows.key(tag), rows.numbers[row].astype(np.uint64), block=block.astype(np.uint64))


def _positions(selected: NDArray[np.bool_]) -> Positions:
    row, position = np.nonzero(selected)
    return row, position
