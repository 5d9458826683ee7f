"""Training: a model goes on from its weights on the rows of the steps, and is measured on the way.

    rows of a step -> sum of the losses / number of labels -> AdamW
    before step 0, at equal distances, after the last -> the loss on every evaluation set

On a CPU the same to the bit for the same seed. Not a trainer for large models: one process, one device.

Source: Loshchilov, Hutter 2019, "Decoupled weight decay regularization", arXiv 1711.05101.

Seen: which chunks of an evaluation set begin as some stretch of the text that was trained on.

A held-out document of one run may be a training document of another: the loss on it is then no measure
of what a model knows of text that it has not read. Each chunk of an evaluation set is known by a hash
of its first 32 tokens, which is looked for at every place of the rows that are trained on.

Axes: N rows, L tokens, P chunks.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from stages.comparing.budget import tokens_read
from stages.continuing.causal_model import CausalModel, seeded
from stages.continuing.settings import ContinuedModel, ContinueSettings, HeldoutLoss, Measurement
from stages.continuing.supply import plan_stages, training_steps
from stages.errors import DataError
from stages.hashing import GOLDEN, splitmix64
from stages.loading.dataset import ShardDataset
from stages.objectives.learning import LearningSettings
from stages.verify.model import reproducible
from stages.verify.rows import NO_LABEL, PADDING, LabelledRows, count_labelled
from stages.verify.training import Machine, learning_rate

WINDOW = 32
"""Tokens: a power of two."""


class SeenChunks:
    """The chunks of an evaluation set, and which of them were seen.

    Args:
        rows: of the evaluation set.
    """

    def __init__(self, rows: LabelledRows) -> None:
        self._hashes = np.unique(_beginnings(rows))
        self._chunks = _beginnings(rows)
        self._found = np.zeros(len(self._hashes), np.bool_)

    def look(self, rows: LabelledRows) -> None:
        """Look for the chunks in rows that are trained on."""
        if len(self._hashes):
            hashes = np.unique(_windows(rows.input_ids))
            self._found |= np.isin(self._hashes, hashes, assume_unique=True)

    @property
    def share(self) -> float | None:
        """Return the share of the chunks that were seen; None if no chunk has 32 tokens."""
        if not len(self._chunks):
            return None
        return float(self._found[np.searchsorted(self._hashes, self._chunks)].mean())


def _beginnings(rows: LabelledRows) -> NDArray[np.uint64]:
    """Return the hashes of the first tokens of each chunk that has as many, and labels there, (P,)."""
    segments = rows.segment_ids
    if segments.shape[1] < WINDOW:
        return np.zeros(0, np.uint64)
    before = np.pad(segments[:, :-1], ((0, 0), (1, 0)), constant_values=PADDING)
    begins = (segments != PADDING) & (segments != before)
    last = segments.shape[1] - WINDOW + 1
    asked = np.cumsum(np.pad(rows.labels != NO_LABEL, ((0, 0), (1, 0))), axis=1)
    places = begins[:, :last] & (segments[:, :last] == segments[:, WINDOW - 1 :])
    places &= asked[:, WINDOW:] > asked[:, :last]
    found: NDArray[np.uint64] = _windows(rows.input_ids)[places]
    return found


def _windows(ids: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the hash of every stretch of 32 tokens of each row, (N, L - 31)."""
    if ids.shape[1] < WINDOW:
        return np.zeros((len(ids), 0), np.uint64)
    hashes, length = _mixed(ids.astype(np.uint64)), 1
    while length < WINDOW:
        factor = np.uint64(pow(int(GOLDEN), length, 1 << 64))  # odd, so no bit of a token is lost
        hashes = hashes[:, :-length] * factor + hashes[:, length:]
        length *= 2
    return hashes


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the values of splitmix64: neighbouring ids have nothing in common."""
    return splitmix64((values + np.uint64(1)) * GOLDEN)


_CURVE_POINTS = 60
_BETAS = (0.9, 0.95)
_LARGEST_NORM = 1.0


@dataclass(frozen=True, eq=False)
class MeasuredSet:
    """Held-out rows under the run's tokenizer.

    Args:
        rows: with labels.
        num_bytes: (V,) int64, of text that each id stands for; 0 of special ids.
    """

    rows: LabelledRows
    num_bytes: NDArray[np.int64]

    @torch.no_grad()
    def loss_of(self, model: CausalModel) -> HeldoutLoss:
        """Return the loss of a model.

        Raises:
            DataError: no label stands for text.
        """
        model.module.eval()
        nats, labels, size = 0.0, 0, 0
        for loss, targets in model.summed_losses(self.rows):
            nats += float(loss)
            labels += len(targets)
            size += int(self.num_bytes[targets].sum())
        if not size:
            raise DataError(
                "the evaluation set has no token of text to predict; hold out more documents"
            )
        return HeldoutLoss(nats / labels, nats / math.log(2) / size)


@dataclass(frozen=True, eq=False)
class TrainingData:
    """What models are trained on, and measured on.

    Args:
        start: folder of the model.
        datasets: in the order of training.
        evaluations: by name.
    """

    start: Path
    datasets: tuple[ShardDataset, ...]
    evaluations: Mapping[str, MeasuredSet]


class ModelInTraining:
    """A model with its optimizer."""

    def __init__(self, model: CausalModel, *, weight_decay: float) -> None:
        self.model = model
        weights = [one for one in model.module.parameters() if one.requires_grad]
        groups = [
            {"params": [one for one in weights if one.ndim > 1], "weight_decay": weight_decay},
            {"params": [one for one in weights if one.ndim <= 1], "weight_decay": 0.0},
        ]
        kept = [group for group in groups if group["params"]]
        self._optimizer = torch.optim.AdamW(kept, betas=_BETAS, fused=True)
        self._weights = weights

    def step(self, rows: LabelledRows, rate: float) -> float:
        """Take one step; give its mean loss."""
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.zero_grad()
        self.model.module.train()
        labelled, total = max(count_labelled(rows), 1), 0.0
        for loss, _ in self.model.summed_losses(rows):
            (loss / labelled).backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        nn.utils.clip_grad_norm_(self._weights, _LARGEST_NORM)
        self._optimizer.step()
        return total / labelled


def train_on(
    course: TrainingData,
    settings: ContinueSettings,
    *,
    seed: int,
    machine: Machine,
    save: Path | None = None,
) -> ContinuedModel:
    """Train a model on datasets, one after the other, and measure it on the way.

    Args:
        course: what on.
        settings: how long, and how.
        seed: of the order of rows, and of weights where the checkpoint has none.
        machine: where.
        save: folder that the trained model is written to, as transformers has it.

    Raises:
        ConfigError: the model is not loaded, or a step would hold less than a row.
        DataError: a dataset or an evaluation set has nothing to learn or to measure, or a loss is no
            number.
    """
    stages = plan_stages(course.datasets, settings, seed=seed)
    steps = sum(stage.steps for stage in stages)
    moments = _moments(steps, settings.evaluations)
    with reproducible(machine.device), seeded(seed):
        model = CausalModel(course.start, seed=seed, machine=machine)
        descent = ModelInTraining(model, weight_decay=settings.weight_decay)
        seen = {name: SeenChunks(one.rows) for name, one in course.evaluations.items()}
        warmup = min(settings.warmup_steps, steps // 4)
        rates = LearningSettings(learning_rate=settings.learning_rate, warmup_steps=warmup)
        measured = [_measure(model, course, step=0, tokens=0)]
        losses, tokens, labelled, read = [], 0, 0, [0] * len(stages)
        for number, step in enumerate(training_steps(stages, settings)):
            rate = learning_rate(number, steps, config=rates)
            losses.append(descent.step(step.rows, rate))
            if not math.isfinite(losses[-1]):
                raise DataError(
                    f"seed {seed}: the loss of step {number + 1} is no number; lower --learning-rate"
                    f" {settings.learning_rate:g}"
                )
            for one in seen.values():
                one.look(step.rows)
            tokens += int(tokens_read(step.rows).sum())
            labelled += count_labelled(step.rows)
            read[step.stage] = step.read
            if number + 1 in moments:
                measured.append(_measure(model, course, step=number + 1, tokens=tokens))
        if save is not None:
            model.module.save_pretrained(save)  # type: ignore[operator]  # of transformers
    return ContinuedModel(
        seed=seed,
        steps=steps,
        tokens=tokens,
        labelled_tokens=labelled,
        passes=tuple(n / len(one.dataset) for n, one in zip(read, stages, strict=True)),
        measurements=tuple(measured),
        seen={name: one.share for name, one in seen.items()},
        curve=_curve(losses),
    )


def _moments(steps: int, evaluations: int) -> set[int]:
    """Return after how many steps the losses are measured, the last step among them."""
    return {round(steps * (number + 1) / evaluations) for number in range(evaluations)} - {0}


def _measure(model: CausalModel, course: TrainingData, *, step: int, tokens: int) -> Measurement:
    losses = {name: one.loss_of(model) for name, one in course.evaluations.items()}
    return Measurement(step, tokens, losses)


def _curve(losses: Sequence[float]) -> tuple[tuple[int, float], ...]:
    """Return the mean losses of stretches of steps, each with its last step."""
    stretch = max(1, len(losses) // _CURVE_POINTS)
    parts = [losses[begin : begin + stretch] for begin in range(0, len(losses), stretch)]
    ends = [min(begin + stretch, len(losses)) - 1 for begin in range(0, len(losses), stretch)]
    return tuple((end, float(np.mean(part))) for end, part in zip(ends, parts, strict=True))
