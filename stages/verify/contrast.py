"""Contrast: views of a text are told from those of other texts, by the loss that simcse is trained on.

    views -> compact ids -> tiny encoder -> mean over tokens -> contrastive loss, batch by batch

Reported and held to no gate: views of one text share its tokens, so that even a broken encoder tells
them apart, and in seconds no loss says how good they are. The mechanics decide alone.

Axes: N rows, V views, L tokens, K channels.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from stages.loading.losses import contrastive_loss, duplicate_rows
from stages.objectives.learning import LearningSettings
from stages.verify.model import autocast, known_of, reproducible
from stages.verify.rows import NO_LABEL, PADDING, LabelledRows, compact_ids, frequent_ids
from stages.verify.training import AdamW, Machine, Stream, Trainer, draws_of, learning_rate

STEPS = 40
_DROPOUT = 0.1
_TEMPERATURE = 0.05

Views = tuple[NDArray[np.int64], NDArray[np.int64]]
"""(N, V, L) ids and (N, V) lengths."""


@dataclass(frozen=True)
class ContrastResult:
    """Losses of finding each row's other view in a batch, in nats."""

    chance: float
    """The loss of guessing."""
    first_loss: float
    loss: float
    """Of rows held out."""
    steps: int
    curve: tuple[tuple[int, float], ...]


def view_rows(views: Views, length: int) -> LabelledRows:
    """Return views as rows of at most this length, view by view: (V N, L')."""
    ids, lengths = views
    length = min(length, ids.shape[2])
    ids = np.moveaxis(ids, 1, 0)[..., :length].reshape(-1, length)
    inside = np.arange(length) < lengths.T.reshape(-1, 1)
    positions = np.tile(np.arange(length, dtype=np.int32), (len(ids), 1))
    segments = np.where(inside, 0, PADDING).astype(np.int32)
    return LabelledRows(
        np.ascontiguousarray(ids),
        np.full(ids.shape, NO_LABEL),
        segments,
        positions,
        attention="bidirectional",
    )


class ContrastTrainer:
    """A tiny encoder with its optimizer, trained to find each row's other view in a batch.

    Args:
        views: of the first batch: the ids that the encoder knows are frequent there.
        config: sizes.
        seed: of weights and dropout.
        machine: where to train.
    """

    def __init__(self, views: Views, *, config: LearningSettings, seed: int, machine: Machine) -> None:
        self._config = config
        first = view_rows(views, config.row_length)
        self._kept = frequent_ids(first, config.max_ids)
        num_ids = len(self._kept) + 1
        self.trainer = Trainer(first, np.zeros(1), num_ids=num_ids, seed=seed, machine=machine)
        self._optimizer = AdamW(self.trainer.model.parameters())
        self._draws = draws_of(seed, Stream.DROPOUT)

    def rows(self, views: Views) -> LabelledRows:
        """Return what the encoder reads of some views."""
        return compact_ids(view_rows(views, self._config.row_length), self._kept)

    def step(self, views: Views, rate: float) -> float:
        """Take one step; return its loss."""
        loss = _loss(self.trainer, views, self.rows(views), self._draws)
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.trainer.model.parameters(), 1.0)
        self._optimizer.step(rate)
        return loss.item()

    @torch.no_grad()
    def heldout_loss(self, views: Views) -> float:
        """Return the loss on views that are not learned from."""
        return _loss(self.trainer, views, self.rows(views), self._draws).item()


def check_contrast(
    batch_of: Callable[[int], Views],
    heldout: Views,
    *,
    config: LearningSettings,
    seed: int,
    machine: Machine | None = None,
) -> ContrastResult:
    """Train an encoder on batches of views; give its loss on views held out.

    Args:
        batch_of: gives the views of a step.
        heldout: one batch of others.
        config: sizes.
        seed: of weights and dropout.
        machine: where to train.
    """
    machine = machine or Machine()
    trainer = ContrastTrainer(batch_of(0), config=config, seed=seed, machine=machine)
    with reproducible(machine.device):
        curve = tuple(
            (step, trainer.step(batch_of(step), learning_rate(step, STEPS, config=config)))
            for step in range(STEPS)
        )
        heldout_loss = trainer.heldout_loss(heldout)
    return ContrastResult(math.log(len(heldout[0])), curve[0][1], heldout_loss, STEPS, curve)


def _loss(trainer: Trainer, views: Views, rows: LabelledRows, draws: np.random.Generator) -> Tensor:
    """Return the contrastive loss of one batch; a third view is a hard negative where there is one."""
    count, num_views = views[1].shape
    with autocast(trainer.model):
        hidden = known_of(trainer.model, rows)
    inside = torch.from_numpy(rows.segment_ids != PADDING).to(hidden.device)[..., None]
    # what the paper's encoder does in every layer is done here to what it gives
    dropped = torch.from_numpy(draws.random(tuple(hidden.shape)) < _DROPOUT).to(hidden.device)
    hidden = hidden.float().masked_fill(dropped | ~inside, 0.0) / (1 - _DROPOUT)
    embeddings = (hidden.sum(dim=1) / inside.sum(dim=1).clamp(min=1)).view(num_views, count, -1)
    ids = torch.from_numpy(views[0][:, 0]).to(hidden.device)
    negative = None if num_views < 3 else embeddings[2]  # noqa: PLR2004  # an anchor, its like, its opposite
    has_negative = None if negative is None else torch.from_numpy(views[1][:, 2] > 0).to(hidden.device)
    return contrastive_loss(
        embeddings[0],
        embeddings[1],
        temperature=_TEMPERATURE,
        hard_negatives=negative,
        negative_of=has_negative,
        same=duplicate_rows(ids),
    ).value
