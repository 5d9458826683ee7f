"""Replaced token detection: say of each token whether it stood there before.

    tokens        The  quick  brown  fox  jumps  </s>  <pad>
    selected       .     #      .     #     .      .      .     (15 %; special ids never)
    input_ids     The   cat   brown  fox  jumps  </s>  <pad>    (drawn: cat for quick, fox for fox)
    labels         0     1      0     0     0      0   -100     (a right guess is no replacement)

Rows are stored clean; what is replaced is drawn when they are read, anew for each epoch. Positions are
selected as in `stages.objectives.mlm.config`, `bernoulli` or `exact`, by the same draws (tags 4 and 5).
What shows at a selected position t follows from r, which is u64[1] of block t of tag 6:

    uniform   ordinary id number floor(r V / 2**64) of V, ascending
    unigram   the first id up to which lie more than floor(r C / 2**64) of the shard's C ordinary tokens

`original_ids` are the stored ids and `selected` says where something was drawn, for the loss of a
generator that is trained beside.

Source: Clark et al. 2020, "ELECTRA", section 2, arXiv 2003.10555. We leave the paper in this: the
generator is no model but draws ids uniformly or by their frequency in the shard, and positions are drawn
without replacement; the public code draws them with replacement, so that some repeat.
"""

from enum import StrEnum
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from stages.errors import FormatError
from stages.objectives.mlm.config import (  # selects by the same draws
    MaskTag,
    Selection,
    chunks,
    draw_blocks,
    select_positions,
    unpadded_lengths,
)
from stages.objectives.rows import IGNORED, Columns, StoredRows, Widths
from stages.objectives.traits import Objective
from stages.objectives.vocabulary import Vocabulary
from stages.seeding import scale

MAX_UNIGRAM = (1 << 32) - 1
"""Ordinary tokens of a shard of which frequencies can be taken."""


class Generator(StrEnum):
    """Where replacements come from."""

    UNIFORM = "uniform"
    UNIGRAM = "unigram"
    MODEL = "model"


class ReplacedTokens(Objective):
    """Replaced token detection."""

    kind: Literal["electra"] = "electra"
    """Names the objective."""
    mask_probability: float = Field(0.15, gt=0.0, le=1.0)
    """Share of the positions without a special id that are selected."""
    selection: Literal[Selection.BERNOULLI, Selection.EXACT] = Selection.BERNOULLI
    """`bernoulli` selects each position independently. `exact` selects the same share of every row, at
    least one position."""
    generator: Generator = Generator.UNIFORM
    """`uniform` draws each ordinary id with the same probability. `unigram` draws ids by their frequency
    in the shard. `model` asks `model`; each epoch is then written to disk."""
    model: str | None = Field(None, pattern=r"^[\w.]+:\w+$")
    """The generator as "package.module:function", importable wherever a worker runs. Called once with
    the vocabulary, it gives the callable that `stages.objectives.electra.generated` describes."""
    mask_share: float = Field(0.85, ge=0.0, le=1.0)
    """Share of the selected positions at which the model sees the mask; at others it sees the token.
    Only with `generator = "model"`."""
    temperature: float = Field(1.0, gt=0.0)
    """The number that divides the model's logits. Only with `generator = "model"`."""

    @model_validator(mode="after")
    def _a_model_is_named(self) -> "ReplacedTokens":
        if (self.generator is Generator.MODEL) != (self.model is not None):
            raise ValueError(
                f"generator = {self.generator.value!r} and model = {self.model!r}: name the model's"
                ' "package.module:function" for generator = "model", and for no other'
            )
        return self

    @property
    def max_ngram(self) -> int:
        """Return the words of the longest n-gram, of which nothing is selected here."""
        return 1


def replace_tokens(
    rows: StoredRows, config: ReplacedTokens, vocabulary: Vocabulary, widths: Widths | None = None
) -> Columns:
    """Return `input_ids` and `original_ids` as stored, `labels` int32 and `selected` bool, each (N, L).

    Args:
        rows: the rows as stored, with what keys their draws.
        config: the objective.
        vocabulary: of the tokenizer.
        widths: of the dataset; all are L, so nothing is asked of them.

    Raises:
        FormatError: ids are to be drawn by their frequency, which is not known.
    """
    del widths
    counts = unigram_counts(rows) if config.generator is Generator.UNIGRAM else None
    input_ids = rows.input_ids.copy()
    selected = np.zeros(input_ids.shape, np.bool_)
    for begin, part in chunks(rows):
        row, position = select_positions(part, config, vocabulary)
        drawn = draw_blocks(part, MaskTag.REPLACEMENT, row, position)[:, 1]
        selected[begin + row, position] = True
        if counts is None:
            input_ids[begin + row, position] = vocabulary.ordinary[
                scale(drawn, len(vocabulary.ordinary))
            ]
        else:
            places = scale(drawn, int(counts[-1]))
            input_ids[begin + row, position] = np.searchsorted(counts, places, side="right")
    replaced = (input_ids != rows.input_ids).astype(np.int32)
    return {
        "input_ids": input_ids,
        "labels": np.where(rows.covered, replaced, np.int32(IGNORED)),
        "original_ids": rows.input_ids.copy(),
        "selected": selected,
    }


def unigram_counts(rows: StoredRows) -> NDArray[np.int64]:
    """Return how many ordinary tokens of the shard have this id or a smaller one: (V,) int64.

    Of no rows none are asked for: a shard without tokens has none to count.

    Raises:
        FormatError: there are none, or too many.
    """
    if not len(rows.numbers):
        return np.ones(1, np.int64)
    total = 0 if rows.unigram is None or not len(rows.unigram) else int(rows.unigram[-1])
    if rows.unigram is None or not 0 < total <= MAX_UNIGRAM:
        found = "not counted" if rows.unigram is None else f"{total:,}"
        raise FormatError(
            f"unigram: ordinary tokens of shard {rows.shard}: {found}, but generator = 'unigram' draws"
            f" by their frequency and needs 1 to {MAX_UNIGRAM:,}; set generator to 'uniform'"
        )
    return rows.unigram


def restore_electra(
    columns: Columns, config: ReplacedTokens, vocabulary: Vocabulary
) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
    """Return the clean tokens of every row, (N, L), and how many they are, (N,)."""
    del config
    tokens = columns["original_ids"]
    return tokens, unpadded_lengths(tokens, vocabulary.named("pad"))
