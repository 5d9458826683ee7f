"""The learning check: a tiny model trained on the shards must learn more than token frequencies.

    rows -> windows -> compact ids -> train on the labels -> held-out loss \
                                   -> train on the control -> held-out loss -> gates

CALIBRATION
"""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from enum import IntEnum
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import nn

from stages.config import Config
from stages.errors import DataError
from stages.verify.model import (
    NO_LABEL,
    PADDING,
    LabelledRows,
    TinyTransformer,
    count_labelled,
    cut_windows,
    heldout_loss,
    log_unigram,
    reproducible,
    summed_loss,
    take_rows,
    unigram_entropy,
)

_CURVE_EVERY = 10


class LearningConfig(Config):
    """Sizes and gates of the learning check."""

    max_ids: int = Field(2048, ge=2)
    """Ids the tiny model knows; the rarer ones share one unknown id."""

    row_length: int = Field(64, ge=8)
    """Tokens in a window; rows are cut into windows of this length."""

    batch_rows: int = Field(16, ge=1)
    """Windows in a training step."""

    labelled_tokens: int = Field(125_000, ge=1)
    """Labelled tokens to train on, as many for the control."""

    max_epochs: float = Field(4.0, gt=0)
    """Times the training slice may be repeated to reach labelled_tokens."""

    min_labelled_tokens: int = Field(20_000, ge=1)
    """Fewest labelled tokens in the training slice for which the gates mean anything."""

    min_heldout_tokens: int = Field(2_000, ge=1)
    """Fewest labelled tokens in the held-out slice."""

    heldout_rows: int = Field(400, ge=1)
    """Most held-out windows on which losses are measured."""

    learning_rate: float = Field(1e-2, gt=0)
    """Highest learning rate, at the end of the warm-up."""

    warmup_steps: int = Field(20, ge=0)
    """Steps over which the learning rate rises to its highest."""

    min_gain: float = Field(0.10, ge=0)
    """Least fall of the held-out loss below the unigram entropy, in nats."""

    min_gain_ratio: float = Field(5.0, ge=0)
    """Least gain, as a multiple of the control's."""

    leak_floor: float = Field(0.25, ge=0)
    """Share of the unigram entropy under which a loss means that the inputs show the labels."""

    min_order_ablation: float = Field(0.3, ge=0)
    """Least rise of the held-out loss, in nats, when tokens are shuffled within their documents."""


class _Draw(IntEnum):
    """What a stream of draws is for."""

    ROW_ORDER = 1
    HELDOUT_ROWS = 2
    CONTROL = 3
    HELDOUT_CONTROL = 4
    ABLATION = 5


@dataclass(frozen=True)
class Gate:
    """One measured value, its lower bound, and whether it reaches it; NaN never does."""

    name: str
    value: float
    bound: float
    passed: bool


@dataclass(frozen=True, eq=False)
class Training:
    """A trained model, the frequencies it started from, its losses on the way as (step, loss)."""

    model: TinyTransformer
    log_probabilities: NDArray[np.float64]
    curve: tuple[tuple[int, float], ...]
    steps: int
    finite_steps: int
    labelled_tokens: int


@dataclass(frozen=True)
class LearningResult:
    """What the check measured, losses in nats per label, and the gates it was held to."""

    unigram_entropy: float
    loss: float
    control_loss: float
    gain: float
    control_gain: float
    order_ablation: float
    finite_share: float
    labelled_tokens: int
    steps: int
    tokens_per_second: float = field(compare=False)
    curve: tuple[tuple[int, float], ...]
    control_curve: tuple[tuple[int, float], ...]
    gates: tuple[Gate, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether there are gates and every one passed."""
        return bool(self.gates) and all(gate.passed for gate in self.gates)

    def to_dict(self) -> dict[str, object]:
        """Give the result in the types of JSON; a number that is not finite becomes null."""
        record = {name: _plain(value) for name, value in asdict(self).items()}
        return record | {"passed": self.passed}


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def frequent_ids(rows: LabelledRows, max_ids: int) -> NDArray[np.int64]:
    """Give the ids that keep an id of their own: at most max_ids - 1, the most frequent first.

    Inputs outside padding count as labels do; equally frequent ids go by number.
    """
    inputs = rows.input_ids[rows.segment_ids != PADDING]
    labels = rows.labels[rows.labels != NO_LABEL]
    ids, counts = np.unique(np.concatenate([inputs, labels]), return_counts=True)
    return ids[np.argsort(-counts, kind="stable")][: max_ids - 1]


def compact_ids(rows: LabelledRows, kept: NDArray[np.int64]) -> LabelledRows:
    """Number the kept ids from 0; all others become len(kept) in the inputs and -100 in the labels.

    kept       9 4
    input_ids  4 9 7 9    labels  4 9  7 -100
    compact    1 0 2 0            1 0  .    .    (. is -100)
    """
    order = np.argsort(kept)

    def compact(ids: NDArray[np.int64], unknown: int) -> NDArray[np.int64]:
        known = np.isin(ids, kept)
        compacted = np.full_like(ids, unknown)
        compacted[known] = order[np.searchsorted(kept, ids[known], sorter=order)]
        return compacted

    return replace(
        rows,
        input_ids=compact(rows.input_ids, len(kept)),
        labels=compact(rows.labels, NO_LABEL),
    )


def permute_labels(rows: LabelledRows, draws: np.random.Generator) -> LabelledRows:
    """Give the control: labels change places among all labelled positions, inputs stay."""
    labels = rows.labels.copy()
    labelled = labels != NO_LABEL
    labels[labelled] = draws.permutation(labels[labelled])
    return replace(rows, labels=labels)


def shuffle_tokens(rows: LabelledRows, draws: np.random.Generator) -> LabelledRows:
    """Shuffle tokens within each document of each row; a label goes with its token."""
    document = np.cumsum(np.diff(rows.segment_ids, axis=1, prepend=0) != 0, axis=1)
    order = np.lexsort((draws.random(document.shape), document), axis=1)
    return replace(
        rows,
        input_ids=np.take_along_axis(rows.input_ids, order, axis=1),
        labels=np.take_along_axis(rows.labels, order, axis=1),
    )


def learning_rate(step: int, steps: int, *, config: LearningConfig) -> float:
    """Give a step's learning rate: linear to the highest, then half a cosine towards 0."""
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    share = (step - config.warmup_steps) / (steps - config.warmup_steps)
    return config.learning_rate * (1 + math.cos(math.pi * share)) / 2


def step_rows(rows: LabelledRows, config: LearningConfig, *, seed: int) -> NDArray[np.int64]:
    """Give the rows of each step, (steps, batch_rows): all once an epoch, in a new order.

    There are as many steps as reach labelled_tokens, or max_epochs if that is less.
    """
    labelled, num_rows = count_labelled(rows), len(rows.labels)
    epochs = min(config.labelled_tokens / labelled, config.max_epochs)
    steps = max(1, round(epochs * num_rows / config.batch_rows))
    draws = _draws(seed, _Draw.ROW_ORDER)
    shuffled = -(-steps * config.batch_rows // num_rows)
    order = np.concatenate([draws.permutation(num_rows) for _ in range(shuffled)])
    return order[: steps * config.batch_rows].reshape(steps, config.batch_rows)


def train(
    rows: LabelledRows,
    config: LearningConfig,
    *,
    num_ids: int,
    seed: int,
    device: str = "cpu",
    progress: Callable[[int, int], None] | None = None,
) -> Training:
    """Train a tiny model on windows with compact ids.

    Source: Loshchilov, Hutter 2019, "Decoupled weight decay regularization", arXiv 1711.05101.
    """
    log_probabilities = log_unigram(rows, num_ids)
    generator = torch.Generator().manual_seed(seed)
    model = TinyTransformer(torch.from_numpy(log_probabilities).float(), generator).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), fused=True)
    order = step_rows(rows, config, seed=seed)
    curve: list[tuple[int, float]] = []
    finite_steps = labelled_tokens = 0
    for step, chosen in enumerate(order):
        batch = take_rows(rows, chosen)
        rate = learning_rate(step, len(order), config=config)
        loss, norm = _update(model, batch, optimizer=optimizer, rate=rate)
        labelled_tokens += count_labelled(batch)
        finite_steps += math.isfinite(loss) and math.isfinite(norm)
        if step % _CURVE_EVERY == 0 or step == len(order) - 1:
            curve.append((step, loss))
        if progress is not None:
            progress(step + 1, len(order))
    return Training(
        model, log_probabilities, tuple(curve), len(order), finite_steps, labelled_tokens
    )


def _update(
    model: TinyTransformer,
    batch: LabelledRows,
    *,
    optimizer: torch.optim.Optimizer,
    rate: float,
) -> tuple[float, float]:
    """Take one step; give its loss and the norm of its gradient before clipping."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad()
    total, labelled = summed_loss(model, batch)
    loss = total / max(labelled, 1)
    loss.backward()  # type: ignore[no-untyped-call]
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item(), norm.item()


def check_learning(
    training: LabelledRows,
    heldout: LabelledRows,
    *,
    config: LearningConfig,
    seed: int,
    device: str = "cpu",
    progress: Callable[[str, int, int], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> LearningResult:
    """Train on the labels as they are, then on the control, and hold the losses to the gates.

    Args:
        training: rows to train on, of any length.
        heldout: rows not among them.
        config: sizes and gates.
        seed: decides every draw; on a CPU the same seed gives the same numbers to the bit.
        device: "cpu" or "cuda".
        progress: told (run, step, steps) after each step.
        clock: seconds, for tokens_per_second alone.

    Raises:
        DataError: a slice has too few labels.

    """
    training, heldout, num_ids = _slices(training, heldout, config=config, seed=seed)

    def run(name: str, rows: LabelledRows) -> Training:
        report = None if progress is None else partial(progress, name)
        return train(rows, config, num_ids=num_ids, seed=seed, device=device, progress=report)

    with reproducible(device):
        started = clock()
        real = run("labels", training)
        control = run("control", permute_labels(training, _draws(seed, _Draw.CONTROL)))
        seconds = clock() - started
        loss = heldout_loss(real.model, heldout)
        shuffled = heldout_loss(real.model, shuffle_tokens(heldout, _draws(seed, _Draw.ABLATION)))
        heldout_control = permute_labels(heldout, _draws(seed, _Draw.HELDOUT_CONTROL))
        control_loss = heldout_loss(control.model, heldout_control)
    entropy = unigram_entropy(heldout, real.log_probabilities)
    control_entropy = unigram_entropy(heldout_control, control.log_probabilities)
    result = LearningResult(
        unigram_entropy=entropy,
        loss=loss,
        control_loss=control_loss,
        gain=entropy - loss,
        control_gain=control_entropy - control_loss,
        order_ablation=shuffled - loss,
        finite_share=(real.finite_steps + control.finite_steps) / (real.steps + control.steps),
        labelled_tokens=real.labelled_tokens,
        steps=real.steps,
        tokens_per_second=(real.labelled_tokens + control.labelled_tokens) / seconds,
        curve=real.curve,
        control_curve=control.curve,
    )
    return replace(result, gates=gates(result, config))


def gates(result: LearningResult, config: LearningConfig) -> tuple[Gate, ...]:
    """Hold what was measured to its bounds."""
    control_gain = max(
        result.control_gain, 0.0
    )  # in this order NaN stays NaN, which no gain reaches
    measured = (
        ("gain", result.gain, config.min_gain),
        ("gain_over_control", result.gain, config.min_gain_ratio * control_gain),
        ("leak_floor", result.loss, config.leak_floor * result.unigram_entropy),
        ("order_ablation", result.order_ablation, config.min_order_ablation),
        ("finite_share", result.finite_share, 1.0),
    )
    return tuple(Gate(name, value, bound, passed=value >= bound) for name, value, bound in measured)


def _slices(
    training: LabelledRows, heldout: LabelledRows, *, config: LearningConfig, seed: int
) -> tuple[LabelledRows, LabelledRows, int]:
    """Give both slices as windows with compact ids, and how many ids there are."""
    training = cut_windows(training, config.row_length)
    heldout = cut_windows(heldout, config.row_length)
    order = _draws(seed, _Draw.HELDOUT_ROWS).permutation(len(heldout.labels))
    heldout = take_rows(heldout, order[: config.heldout_rows])
    kept = frequent_ids(training, config.max_ids)
    training, heldout = compact_ids(training, kept), compact_ids(heldout, kept)
    for rows, name, bound, least in (
        (training, "training", "min_labelled_tokens", config.min_labelled_tokens),
        (heldout, "held-out", "min_heldout_tokens", config.min_heldout_tokens),
    ):
        if (labelled := count_labelled(rows)) < least:
            raise DataError(
                f"learning check: {labelled:,} labelled tokens in the {name} slice, but {bound} = "
                f"{least:,}; give it more rows, of a larger corpus if need be, or lower {bound}"
            )
    return training, heldout, len(kept) + 1


def _draws(seed: int, purpose: _Draw) -> np.random.Generator:
    """Give a counter-based generator of its own for each seed and purpose."""
    return np.random.Generator(np.random.Philox(key=np.array([seed, purpose], np.uint64)))
