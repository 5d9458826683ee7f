"""What objectives with an encoder and a decoder share: how inputs and targets become columns.

    inputs             The <X> fox jumps </s> .       (. is the pad id)
    targets            <X> quick brown </s>
    labels             <X> quick brown </s>  -100
    decoder_input_ids  .   <X>   quick brown .        shifted right, the pad id starts
    input_length 5     label_length 4

Whoever corrupts closes both with EOS. Targets of no token at all mean that there is no example: the row
has no label, and a loss that is a mean over labels leaves it out.

Source: Raffel et al. 2020, "Exploring the limits of transfer learning with a unified text-to-text
transformer", section 3.1.4 (arXiv 1910.10683); the start token is the pad id, as in its code.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from stages.errors import FormatError
from stages.objectives.rows import IGNORED, Columns, Widths
from stages.objectives.vocabulary import Vocabulary

Pair = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Inputs and targets of one row, both closed, neither padded."""


def columns_of(
    pairs: Iterable[Pair], *, dtype: np.dtype[np.integer], widths: Widths, vocabulary: Vocabulary
) -> Columns:
    """Return the columns of N pairs.

    Args:
        pairs: inputs and targets of each row, both within the widths.
        dtype: of ids.
        widths: of the columns.
        vocabulary: names the pad id.

    Returns:
        `input_ids` (N, widths.inputs) and `decoder_input_ids` (N, widths.labels) of `dtype`, `labels`
        (N, widths.labels), `input_length` (N,) and `label_length` (N,) int32.
    """
    rows = list(pairs)
    pad = vocabulary.named("pad")
    input_ids = np.full((len(rows), widths.inputs), pad, dtype)
    labels = np.full((len(rows), widths.labels), IGNORED, np.int32)
    decoder_input_ids = np.full((len(rows), widths.labels), pad, dtype)
    for row, (inputs, targets) in enumerate(rows):
        input_ids[row, : len(inputs)] = inputs
        labels[row, : len(targets)] = targets
        decoder_input_ids[row, 1 : len(targets)] = targets[:-1]
    return {
        "input_ids": input_ids,
        "labels": labels,
        "decoder_input_ids": decoder_input_ids,
        "input_length": np.array([len(inputs) for inputs, _ in rows], np.int32),
        "label_length": np.array([len(targets) for _, targets in rows], np.int32),
    }


def refuse_overflow(
    input_length: NDArray[np.int64],
    label_length: NDArray[np.int64],
    *,
    widths: Widths,
    numbers: NDArray[np.int64],
) -> None:
    """Refuse rows that would not fit their columns.

    Raises:
        FormatError: names the first row that is too long, its length and the width.
    """
    for name, length, width in (
        ("input_ids", input_length, widths.inputs),
        ("labels", label_length, widths.labels),
    ):
        longer = np.flatnonzero(length > width)
        if len(longer):
            first = int(longer[0])
            raise FormatError(
                f"{name}: row {numbers[first]:,} would give {length[first]:,} tokens, the column holds"
                f" {width:,}; the rows were packed for other widths than the manifest's"
            )


def ids_without_ends(
    ids: NDArray[np.integer], lengths: NDArray[np.integer], *, eos: int, first: int | None = None
) -> NDArray[np.bool_]:
    """Say which positions hold tokens: neither padding, nor the closing EOS, nor the token put first.

    Args:
        ids: (N, W).
        lengths: (N,) tokens of each row.
        eos: closes each row; another token in its place is not left out.
        first: the id put before each row, or None.

    Returns:
        (N, W) bool.
    """
    position = np.arange(ids.shape[1])
    inside: NDArray[np.bool_] = position < lengths[:, None]
    inside &= ~((position == lengths[:, None] - 1) & (ids == eos))
    if first is not None:
        inside[:, 0] &= ids[:, 0] != first
    return inside


def rows_in_order(
    values: NDArray[np.integer],
    counts: NDArray[np.int64],
    order: NDArray[np.integer],
    *,
    pad: int,
) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
    """Return tokens as padded rows, each row's by `order`, equals as they come.

    values 5 7 6, counts [[2] [1]], order 0 2 1 -> [[5 6 7]], [3]

    Args:
        values: (T,) tokens: of each row in turn, then of each row again, for every kind of token.
        counts: (M, N) how many tokens of each kind a row has.
        order: (T,) where in its row, at least 0.
        pad: fills rows up.

    Returns:
        (N, W) ids, W the greatest length, and (N,) int64 lengths.
    """
    kinds, num_rows = counts.shape
    row = np.repeat(np.tile(np.arange(num_rows), kinds), counts.ravel())
    # the kinds are sorted runs, which a stable sort only has to merge
    sorted_ = np.argsort(row * (int(order.max(initial=0)) + 1) + order, kind="stable")
    lengths = counts.sum(axis=0)
    restored = np.full((num_rows, int(lengths.max(initial=0))), pad, values.dtype)
    restored[np.arange(restored.shape[1]) < lengths[:, None]] = values[sorted_]
    return restored, lengths
