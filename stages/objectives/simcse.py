"""SimCSE: two views of a text belong together, those of two texts do not.

    row          The quick brown fox jumps </s>

    identical    The quick brown fox jumps </s>      both views: what differs is the model's dropout
    cropped      quick brown fox jumps .     .       two thirds of the tokens, from a place of its own
                 brown fox jumps </s>  .     .       (. is padding)

A loss holds each first view against all second views of a batch: its labels are 0, 1, 2, .., which is
not for a row to say, so there is no such column. Cropped are all n tokens of a row, its EOS like the
others; a row of no token has empty views. Every draw is a function of (seed, epoch, shard, row, view v):

    crop         tag 25, block 0, u64[v]     begins at token floor(u (n - m + 1) / 2**64),
                                             m = ceil(crop_ratio n) tokens long

The product is one of IEEE doubles. Identical views draw nothing. They restore the row; cropped ones need
not hold all of it, so that `check_views` says instead whether they are pieces of it.

Source: Gao, Yao, Chen 2021, "SimCSE", section 3, arXiv 2104.08821. We leave the paper in this: texts are
whatever a row holds, not sentences; crops are an option; there are no labelled pairs.
"""

from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from pydantic import Field

from stages.config import Config
from stages.errors import FormatError
from stages.objectives.rows import Columns, StoredRows, Widths
from stages.objectives.vocabulary import Vocabulary
from stages.seeding import Tag, draw_u64

VIEWS = 2
"""Of each row; a block holds a draw for each."""


class SimCSE(Config):
    """Contrastive learning of texts from two views of each."""

    kind: Literal["simcse"] = "simcse"
    """Names the objective."""
    views: Literal["identical", "cropped"] = "identical"
    """identical shows the row twice; cropped shows two pieces of it."""
    crop_ratio: float = Field(0.75, ge=0.5, le=1.0)
    """Share of the tokens in each piece, rounded up. Of no effect but on cropped."""


def make_views(rows: StoredRows, config: SimCSE, vocabulary: Vocabulary, widths: Widths) -> Columns:
    """Give two views of each row, plainly.

    Returns:
        `input_ids` (N, 2, L) in the dtype of the rows and `input_length` (N, 2) int32.
    """
    begins, lengths = crops(rows, config)
    shape = len(rows.input_ids), VIEWS, widths.inputs
    input_ids = np.full(shape, vocabulary.named("pad"), rows.input_ids.dtype)
    for row, ids in enumerate(rows.input_ids):
        for view, begin in enumerate(begins[row]):
            input_ids[row, view, : lengths[row]] = ids[begin : begin + lengths[row]]
    return {"input_ids": input_ids, "input_length": np.stack([lengths] * VIEWS, 1).astype(np.int32)}


def restore_simcse(
    columns: Columns, config: SimCSE, vocabulary: Vocabulary
) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
    """Give (ids, lengths) of the rows, the first of two identical views: (N, L) padded with pad, (N,).

    Raises:
        FormatError: views are cropped.
    """
    del vocabulary
    if config.views == "cropped":
        raise FormatError(
            'views = "cropped": pieces need not hold the whole row, so it cannot be restored from them;'
            " hold them against the stored rows"
        )
    return columns["input_ids"][:, 0], columns["input_length"][:, 0].astype(np.int64)


def check_views(
    rows: StoredRows, columns: Columns, config: SimCSE, vocabulary: Vocabulary
) -> NDArray[np.bool_]:
    """Say of which rows both views are pieces, as long as they must be, and padded: (N,) bool."""
    _, lengths = crops(rows, config)
    filled, pad = rows.filled, vocabulary.named("pad")
    right = (columns["input_length"] == lengths[:, None]).all(axis=1)
    for row, length in enumerate(lengths.tolist()):
        pieces = sliding_window_view(rows.input_ids[row, : filled[row]], length)
        for view in columns["input_ids"][row]:
            right[row] &= bool((pieces == view[:length]).all(axis=1).any())
            right[row] &= bool((view[length:] == pad).all())
    return np.asarray(right)


def crops(rows: StoredRows, config: SimCSE) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give where the views of each row begin, (N, 2), and how many tokens each has, (N,)."""
    filled = rows.filled
    if config.views == "identical":
        return np.zeros((len(filled), VIEWS), np.int64), filled
    lengths = np.ceil(config.crop_ratio * filled).astype(np.int64)
    draws = draw_u64(rows.key(Tag.CROP), rows.numbers.astype(np.uint64)).tolist()
    places = (filled - lengths + 1).tolist()
    begins = [[u * size >> 64 for u in pair] for pair, size in zip(draws, places, strict=True)]
    return np.array(begins, np.int64).reshape(-1, VIEWS), lengths
