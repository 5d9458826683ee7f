"""Masked language modelling: say what stood at some positions, from both sides.

    tokens      The  quick  brown  fox  jumps  </s>
    selected     .     #      .     #     #     .      (15 %; special ids never)
    input_ids   The <mask>  brown  cat  jumps  </s>    (80 % mask, 10 % random, 10 % kept)
    labels       .   quick    .    fox  jumps   .      (. is -100)

Labels stand where the token stood: nothing is shifted. Rows are stored clean; the mask is drawn when
they are read, another for each epoch. Every draw is a function of (seed, epoch, shard, row, position):

    selected     tag 2, block t // 2, u64[t % 2] of position t
                 bernoulli  lies below T(mask_probability)
                 exact      is among the row's k smallest, equal draws from the left
    replacement  tag 3, block t
                 u64[0]     below T(mask_share): mask; below T(mask_share) + T(random_share): random;
                            else kept
                 u64[1]     random: the ordinary id number floor(u64 * V / 2**64) of V, ascending

T(p) = floor(p 2**64). k = floor(p n + 1/2) of a row's n positions that may be selected, at least 1.
No id is likelier than another by more than 2**-64.

Source: Devlin et al. 2019, "BERT", section 3.1, arXiv 1810.04805; a mask for each epoch: Liu et al.
2019, "RoBERTa", section 4.1, arXiv 1907.11692. We leave the papers in this: no special id is selected
or drawn, and rows have no CLS or SEP. Words are not masked as a whole: which pieces begin a word is
known to the tokenizer, not to the manifest.
"""

from enum import StrEnum
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from stages.config import Config
from stages.objectives.clm import IGNORED
from stages.objectives.rows import StoredRows
from stages.objectives.vocabulary import Vocabulary
from stages.seeding import Key, Tag, draw_u64, scale, threshold

_CHUNK = 1 << 16
"""Tokens masked together: the draws of a chunk stay in a core's cache."""


class Selection(StrEnum):
    """How positions are selected."""

    BERNOULLI = "bernoulli"
    EXACT = "exact"


class MaskedLM(Config):
    """Masked language modelling."""

    kind: Literal["mlm"] = "mlm"
    """Names the objective."""
    mask_probability: float = Field(0.15, gt=0.0, le=1.0)
    """Share of the positions without a special id that are selected."""
    selection: Selection = Selection.BERNOULLI
    """bernoulli selects each position alone; exact selects the same share of every row, one position at
    least."""
    mask_share: float = Field(0.8, ge=0.0, le=1.0)
    """Share of the selected positions that show the mask."""
    random_share: float = Field(0.1, ge=0.0, le=1.0)
    """Share that shows a random ordinary id; the rest shows the token itself."""

    @model_validator(mode="after")
    def _shares_leave_room(self) -> "MaskedLM":
        if self.mask_share + self.random_share > 1.0:
            raise ValueError(
                f"mask_share = {self.mask_share} and random_share = {self.random_share} must not pass 1"
                " together"
            )
        return self


def mask_tokens(
    rows: StoredRows, config: MaskedLM, vocabulary: Vocabulary
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give (input_ids, labels) of packed rows, each (N, L) int64.

    Where there is a label it is the token that stood there, so rows can be restored. A row in which
    nothing is selected has no label.

    Args:
        rows: the rows as stored, with what keys their draws.
        config: the objective.
        vocabulary: of the tokenizer.
    """
    input_ids = np.empty_like(rows.input_ids)
    labels = np.empty_like(rows.input_ids)
    count, length = rows.input_ids.shape
    step = max(1, _CHUNK // length)
    for start in range(0, count, step):
        part = slice(start, start + step)
        input_ids[part], labels[part] = _mask(rows.take(part), config, vocabulary)
    return input_ids, labels


def expected_counts(maskable: NDArray[np.int64], probability: float) -> NDArray[np.int64]:
    """Give how many positions `exact` selects in rows with so many to select from.

    [0 1 2 10 20] at 0.15 -> [0 1 1 2 3]
    """
    wanted = np.floor(probability * maskable + 0.5).astype(np.int64)
    counts: NDArray[np.int64] = np.minimum(np.maximum(wanted, 1), maskable)
    return counts


def _mask(
    rows: StoredRows, config: MaskedLM, vocabulary: Vocabulary
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    maskable = (rows.segment_ids >= 0) & ~vocabulary.special(rows.input_ids)
    draws = _selection_draws(rows)
    if config.selection is Selection.EXACT:
        selected = _smallest(draws, maskable, config.mask_probability)
    else:
        selected = maskable & _below(draws, threshold(config.mask_probability))
    row, position = np.nonzero(selected)
    key = Key(rows.seed, rows.epoch, rows.shard, Tag.MASK_REPLACEMENT)
    draws = draw_u64(key, rows.numbers[row].astype(np.uint64), block=position.astype(np.uint64))
    to_mask = threshold(config.mask_share)
    masked = _below(draws[:, 0], to_mask)
    changed = _below(draws[:, 0], min(to_mask + threshold(config.random_share), 1 << 64))
    tokens = rows.input_ids[row, position]
    random = vocabulary.ordinary[scale(draws[:, 1], len(vocabulary.ordinary))]
    input_ids = rows.input_ids.copy()
    input_ids[row, position] = np.where(
        masked, vocabulary.named("mask"), np.where(changed, random, tokens)
    )
    labels = np.full_like(input_ids, IGNORED)
    labels[row, position] = tokens
    return input_ids, labels


def _selection_draws(rows: StoredRows) -> NDArray[np.uint64]:
    """Give the draw that selects each position, (N, L); a block of two serves two positions."""
    count, length = rows.input_ids.shape
    blocks = (length + 1) // 2
    key = Key(rows.seed, rows.epoch, rows.shard, Tag.MASK_SELECTION)
    numbers = np.repeat(rows.numbers.astype(np.uint64), blocks)
    draws = draw_u64(key, numbers, block=np.tile(np.arange(blocks, dtype=np.uint64), count))
    return draws.reshape(count, 2 * blocks)[:, :length]


def _smallest(
    draws: NDArray[np.uint64], maskable: NDArray[np.bool_], probability: float
) -> NDArray[np.bool_]:
    """Select in each row as many of the smallest draws as `exact` wants."""
    counts = expected_counts(np.count_nonzero(maskable, axis=1), probability)
    order = np.lexsort((draws, ~maskable), axis=1)
    selected = np.zeros(maskable.shape, np.bool_)
    first = np.arange(maskable.shape[1]) < counts[:, None]
    np.put_along_axis(selected, order, first, axis=1)
    return selected


def _below(draws: NDArray[np.uint64], bound: int) -> NDArray[np.bool_]:
    """Say which draws lie below a bound of at most 2**64, which no u64 can hold."""
    if bound == 0:
        return np.zeros(draws.shape, np.bool_)
    below: NDArray[np.bool_] = draws <= np.uint64(bound - 1)
    return below
