"""Training: the steps of a tiny model on rows, the same to the bit for the same seed on a CPU.

    rows, seed -> order of steps -> trainer -> losses

AdamW: the steps of `torch.optim.AdamW`, to the bit, without the compiler that its class imports.

`torch.optim` imports `torch._dynamo` for any optimizer, compiled or not: 3 CPU seconds and 100 MB of a
worker that trains for 15 s. The function that the class calls imports nothing.

Source: Loshchilov, Hutter 2019, "Decoupled weight decay regularization", arXiv 1711.05101.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim.adamw import adamw

from stages.loading.masks import ENCODER_DECODER
from stages.objectives.learning import LearningSettings
from stages.verify.model import Shape, TinyTransformer, summed_loss
from stages.verify.rows import PADDING, LabelledRows, count_labelled, log_unigram, take_rows

_BETAS, _EPSILON, _DECAY = (0.9, 0.95), 1e-8, 0.01
OptimizerState = dict[str, list[Tensor]]
"""Of each parameter: the steps it took and the means of its gradients and of their squares."""


class AdamW:
    """An optimizer of some parameters.

    Args:
        parameters: what is trained; those without a gradient stay as they are.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self._parameters = list(parameters)
        self._state: OptimizerState = {
            "steps": [torch.zeros((), device=one.device) for one in self._parameters],
            "means": [torch.zeros_like(one) for one in self._parameters],
            "squares": [torch.zeros_like(one) for one in self._parameters],
        }

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for one in self._parameters:
            one.grad = None

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Move the parameters along their gradients.

        Args:
            rate: of learning.
        """
        places = [place for place, one in enumerate(self._parameters) if one.grad is not None]
        steps, means, squares = ([kept[place] for place in places] for kept in self._state.values())
        adamw(
            [self._parameters[place] for place in places],
            [grad for one in self._parameters if (grad := one.grad) is not None],
            means,
            squares,
            [],
            steps,
            fused=True,
            amsgrad=False,
            beta1=_BETAS[0],
            beta2=_BETAS[1],
            lr=rate,
            weight_decay=_DECAY,
            eps=_EPSILON,
            maximize=False,
        )

    def state_dict(self) -> OptimizerState:
        """Return what is remembered of the gradients; later steps change it."""
        return self._state

    def load_state_dict(self, state: OptimizerState) -> None:
        """Go on from a state, which is left as it is."""
        for name, kept in self._state.items():
            for own, other in zip(kept, state[name], strict=True):
                own.copy_(other)


_CURVE_EVERY = 10


class Stream(IntEnum):
    """What a stream of draws is for."""

    ROW_ORDER = 1
    HELDOUT_ROWS = 2
    CONTROL = 3
    HELDOUT_CONTROL = 4
    ABLATION = 5
    NEIGHBOURS = 6
    DROPOUT = 7
    PLACES = 8


@dataclass(frozen=True)
class Machine:
    """Where a model is trained."""

    device: str = "cpu"
    """"cpu" or "cuda"."""
    bfloat16: bool = False
    """Whether it computes in bfloat16, as it does on a GPU."""


CPU = Machine()


class TrainingState(TypedDict):
    """What a training goes on from."""

    model: dict[str, Tensor]
    optimizer: OptimizerState


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A trained model, the frequencies it started from, its losses on the way as (step, loss)."""

    model: TinyTransformer
    log_probabilities: NDArray[np.float64]
    curve: tuple[tuple[int, float], ...]
    steps: int
    finite_steps: int
    labelled_tokens: int


class Trainer:
    """A tiny model with its optimizer.

    Args:
        rows: what it is to learn from: their attention and classes decide its shape.
        log_probabilities: (V,) of the labels, where its bias starts.
        num_ids: ids it reads.
        seed: of its weights.
        machine: where it computes.
    """

    def __init__(
        self,
        rows: LabelledRows,
        log_probabilities: NDArray[np.float64],
        *,
        num_ids: int,
        seed: int,
        machine: Machine,
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        bias = torch.from_numpy(log_probabilities).float()
        shape = Shape(
            rows.attention,
            num_ids=num_ids,
            bfloat16=machine.bfloat16,
            num_layers=1 if rows.attention == ENCODER_DECODER else 2,
        )
        self.model = TinyTransformer(bias, generator, shape).to(machine.device)
        self._optimizer = AdamW(self.model.parameters())

    def step(self, batch: LabelledRows, rate: float) -> tuple[float, float]:
        """Take one step; give its loss and the norm of its gradient before clipping."""
        self._optimizer.zero_grad()
        total, labelled = summed_loss(self.model, batch)
        loss = total / max(labelled, 1)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self._optimizer.step(rate)
        return loss.item(), norm.item()

    def state_dict(self) -> TrainingState:
        """Return the weights and what the optimizer remembers."""
        return {"model": self.model.state_dict(), "optimizer": self._optimizer.state_dict()}

    def load_state_dict(self, state: TrainingState) -> None:
        """Go on from a state."""
        self.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])


def learning_rate(step: int, steps: int, *, config: LearningSettings) -> float:
    """Return a step's learning rate: linear to the highest, then half a cosine towards 0."""
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    share = (step - config.warmup_steps) / (steps - config.warmup_steps)
    return config.learning_rate * (1 + math.cos(math.pi * share)) / 2


def step_rows(rows: LabelledRows, config: LearningSettings, *, seed: int) -> NDArray[np.int64]:
    """Return the rows of each step, (steps, batch_rows): all once an epoch, in a new order.

    There are as many steps as reach labelled_tokens, or max_epochs if that is less.
    """
    usual = config.label_share * np.count_nonzero(rows.segment_ids != PADDING)
    labelled, num_rows = min(count_labelled(rows), usual), len(rows.labels)
    epochs = min(config.labelled_tokens / labelled, config.max_epochs)
    steps = max(1, round(epochs * num_rows / config.batch_rows))
    draws = draws_of(seed, Stream.ROW_ORDER)
    shuffled = -(-steps * config.batch_rows // num_rows)
    order = np.concatenate([draws.permutation(num_rows) for _ in range(shuffled)])
    return order[: steps * config.batch_rows].reshape(steps, config.batch_rows)


def train(
    rows: LabelledRows,
    config: LearningSettings,
    *,
    num_ids: int,
    seed: int,
    machine: Machine | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> TrainedModel:
    """Train a tiny model on windows with compact ids."""
    log_probabilities = log_unigram(rows, rows.classes or num_ids)
    trainer = Trainer(rows, log_probabilities, num_ids=num_ids, seed=seed, machine=machine or Machine())
    order = step_rows(rows, config, seed=seed)
    curve: list[tuple[int, float]] = []
    finite_steps = labelled_tokens = 0
    for step, chosen in enumerate(order):
        batch = take_rows(rows, chosen)
        loss, norm = trainer.step(batch, learning_rate(step, len(order), config=config))
        labelled_tokens += count_labelled(batch)
        finite_steps += math.isfinite(loss) and math.isfinite(norm)
        if step % _CURVE_EVERY == 0 or step == len(order) - 1:
            curve.append((step, loss))
        if progress is not None:
            progress(step + 1, len(order))
    model = trainer.model
    return TrainedModel(
        model, log_probabilities, tuple(curve), len(order), finite_steps, labelled_tokens
    )


def draws_of(seed: int, purpose: Stream) -> np.random.Generator:
    """Return a counter-based generator of its own for each seed and purpose."""
    return np.random.Generator(np.random.Philox(key=np.array([seed, purpose], np.uint64)))
