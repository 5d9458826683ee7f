"""Small languages written out or drawn, for a model to learn, and a model to read them."""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from stages.verify.model import Shape, TinyTransformer, known_of
from stages.verify.rows import NO_LABEL, PADDING, LabelledRows

NUM_IDS = 64
BOTH_WAYS = "bidirectional_within_document"
MASK = NUM_IDS
"""An id that no token has."""


def rows_of(
    input_ids: list[list[int]],
    *,
    labels: list[list[int]] | None = None,
    segment_ids: list[list[int]] | None = None,
) -> LabelledRows:
    """Rows written out; labels are the inputs, each row one document, unless said otherwise."""
    inputs = np.array(input_ids, np.int64)
    segments = np.zeros(inputs.shape, np.int32)
    if segment_ids is not None:
        segments = np.array(segment_ids, np.int32)
    targets = np.where(segments == PADDING, NO_LABEL, inputs)
    if labels is not None:
        targets = np.array(labels, np.int64)
    return LabelledRows(inputs, targets, segments, positions_of(segments))


def arrays_of(rows: LabelledRows) -> list[NDArray[np.integer]]:
    return [value for value in vars(rows).values() if isinstance(value, np.ndarray)]


def positions_of(segment_ids: NDArray[np.int32]) -> NDArray[np.int32]:
    """The slow plain count of positions from each document's first token."""
    positions = np.zeros_like(segment_ids)
    for row, column in np.ndindex(segment_ids.shape):
        same = column > 0 and segment_ids[row, column] == segment_ids[row, column - 1]
        positions[row, column] = positions[row, column - 1] + 1 if same else 0
    return positions


def language(num_rows: int, *, seed: int, length: int = 96) -> LabelledRows:
    """A language where each token has two usual successors, 40 % each; documents of 24 tokens."""
    draws = np.random.default_rng(seed)
    successors = np.random.default_rng(0).permuted(np.tile(np.arange(NUM_IDS), (2, 1)), axis=1)
    tokens = np.empty((num_rows, length), np.int64)
    tokens[:, 0] = draws.integers(NUM_IDS, size=num_rows)
    for column in range(1, length):
        usual = successors[draws.integers(2, size=num_rows), tokens[:, column - 1]]
        other = draws.integers(NUM_IDS, size=num_rows)
        tokens[:, column] = np.where(draws.random(num_rows) < 0.8, usual, other)
    segments = np.tile(np.arange(length) // 24, (num_rows, 1)).astype(np.int32)
    return LabelledRows(tokens, tokens.copy(), segments, positions_of(segments))


def topics(num_rows: int, *, seed: int, length: int = 96) -> LabelledRows:
    """A language where each document draws all of its tokens from the eight of one topic."""
    draws, rows = np.random.default_rng(seed), language(num_rows, seed=seed, length=length)
    topic = np.take_along_axis(
        draws.integers(NUM_IDS // 8, size=(num_rows, length)), rows.segment_ids, 1
    )
    tokens = 8 * topic + draws.integers(8, size=topic.shape)
    return replace(rows, input_ids=tokens, labels=tokens.copy())


def masked(rows: LabelledRows, *, seed: int) -> LabelledRows:
    """The same rows for a masked language model: 3 in 20 tokens hidden behind an id of their own."""
    hidden = np.random.default_rng(seed).random(rows.input_ids.shape) < 0.15
    return replace(
        rows,
        input_ids=np.where(hidden, MASK, rows.input_ids),
        labels=np.where(hidden, rows.input_ids, NO_LABEL),
        attention=BOTH_WAYS,
    )


def restored(rows: LabelledRows) -> NDArray[np.int64]:
    return np.where(rows.labels == NO_LABEL, rows.input_ids, rows.labels)


def tiny(num_ids: int, *, attention: str = "causal_within_document") -> TinyTransformer:
    """A model whose output weights are not 0, so that its logits depend on what it reads."""
    generator = torch.Generator().manual_seed(0)
    model = TinyTransformer(torch.zeros(num_ids), generator, Shape(attention))
    torch.nn.init.normal_(model.output_weight, generator=generator)
    return model


@torch.no_grad()
def logits_of(model: TinyTransformer, rows: LabelledRows) -> torch.Tensor:
    return model.logits(known_of(model, rows))
