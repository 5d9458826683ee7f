"""The learning check: a tiny model trained on the shards must learn more than token frequencies.

    rows -> windows -> compact ids -+-> train on the labels  -> held-out loss -+-> gates
                                    +-> train on the control -> held-out loss -+

It shows that a trainer finds something to learn in the shards, not that their labels are right:
that is for the exact checks of the mechanics. Measured by `benchmarks/learning_gates.py` on 17 MB of
English, source code and short texts in hundreds of languages: BPE of 8,192 pieces with byte fallback,
rows of 512, the default settings. Nats; unigram entropies 6.61 to 6.68; `failed` names the gates:

    clm                      seeds  gain            order ablation   failed
    correct                  20     0.73 .. 0.86    0.70 .. 0.83     none
    labels permuted          5      -0.01 .. 0.00   -0.01 .. 0.00    gain, order_ablation, and see below
    tokens shuffled          5      0.38 .. 0.39    -0.00 .. 0.00    order_ablation
    inputs show the labels   5      6.61 .. 6.64    12.9 .. 13.2     leak_floor
    labels shifted by 1      5      0.43 .. 0.51    0.02 .. 0.06     order_ablation
    labels shifted by 2      5      0.39 .. 0.49    -0.02 .. -0.01   order_ablation

    mlm                      seeds  gain            loss / entropy   failed
    correct                  20     0.44 .. 0.58    0.91 .. 0.93     none
    labels permuted          5      -0.03 .. 0.00   1.00 .. 1.00     gain, and see below
    tokens shuffled          5      0.45 .. 0.54    0.92 .. 0.93     none
    inputs show the labels   5      6.13 .. 6.20    0.07 .. 0.08     leak_floor
    labels on all tokens     5      5.71 .. 5.75    0.14 .. 0.14     leak_floor
    labels shifted by 1      5      0.62 .. 0.68    0.90 .. 0.91     none
    labels shifted by 2      5      0.44 .. 0.47    0.93 .. 0.94     none

The control gained -0.031 to 0.005; permuted labels fail gain_over_control too, 4 times of 5 for either.
A check costs 17 to 20 CPU seconds for clm, 29 to 33 for mlm, 54 with labels on all tokens. For masked
rows order does not show in the loss (ablations of correct rows: 0.00 to 0.02), so there is no gate of
it, and the loss cannot tell shifted labels: the mechanics, which are exact, do. No gate can be relied
on for missing end tokens. On another packing of the same texts, with 2.3 documents a row, labels
shifted by 2 had an order ablation of up to 0.32, so for these too the mechanics are what counts.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from stages.errors import DataError
from stages.verify.gates import LearningResult, LearningSettings, gates
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


class _Draw(IntEnum):
    """What a stream of draws is for."""

    ROW_ORDER = 1
    HELDOUT_ROWS = 2
    CONTROL = 3
    HELDOUT_CONTROL = 4
    ABLATION = 5


@dataclass(frozen=True, eq=False)
class Training:
    """A trained model, the frequencies it started from, its losses on the way as (step, loss)."""

    model: TinyTransformer
    log_probabilities: NDArray[np.float64]
    curve: tuple[tuple[int, float], ...]
    steps: int
    finite_steps: int
    labelled_tokens: int


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
    # A rare id is no label: the unknown id would be 14 % of all labels at 2,048 ids of 8,192, and
    # correct rows then gain 1.05 and 1.37 nats, not 1.31 and 1.56, with an order ablation of 0.66
    # and 0.78, not 0.90 and 0.98 (two seeds).
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


def learning_rate(step: int, steps: int, *, config: LearningSettings) -> float:
    """Give a step's learning rate: linear to the highest, then half a cosine towards 0."""
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    share = (step - config.warmup_steps) / (steps - config.warmup_steps)
    return config.learning_rate * (1 + math.cos(math.pi * share)) / 2


def step_rows(rows: LabelledRows, config: LearningSettings, *, seed: int) -> NDArray[np.int64]:
    """Give the rows of each step, (steps, batch_rows): all once an epoch, in a new order.

    There are as many steps as reach labelled_tokens, or max_epochs if that is less.
    """
    usual = config.label_share * np.count_nonzero(rows.segment_ids != PADDING)
    labelled, num_rows = min(count_labelled(rows), usual), len(rows.labels)
    epochs = min(config.labelled_tokens / labelled, config.max_epochs)
    steps = max(1, round(epochs * num_rows / config.batch_rows))
    draws = _draws(seed, _Draw.ROW_ORDER)
    shuffled = -(-steps * config.batch_rows // num_rows)
    order = np.concatenate([draws.permutation(num_rows) for _ in range(shuffled)])
    return order[: steps * config.batch_rows].reshape(steps, config.batch_rows)


def train(
    rows: LabelledRows,
    config: LearningSettings,
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
    bias = torch.from_numpy(log_probabilities).float()
    model = TinyTransformer(bias, generator, causal=rows.causal).to(device)
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
    return Training(model, log_probabilities, tuple(curve), len(order), finite_steps, labelled_tokens)


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
    config: LearningSettings,
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


def _slices(
    training: LabelledRows, heldout: LabelledRows, *, config: LearningSettings, seed: int
) -> tuple[LabelledRows, LabelledRows, int]:
    """Give both slices as windows with compact ids, and how many ids there are."""
    training = cut_windows(training, config.row_length)
    heldout = cut_windows(heldout, config.row_length)
    order = _draws(seed, _Draw.HELDOUT_ROWS).permutation(len(heldout.labels))
    heldout = take_rows(heldout, order[: config.heldout_rows])
    kept = frequent_ids(training, config.max_ids)
    training, heldout = compact_ids(training, kept), compact_ids(heldout, kept)
    for rows, name, bound, least in (
        (training, "training", "verify.min_labelled_tokens", config.min_labelled_tokens),
        (heldout, "held-out", "verify.min_heldout_tokens", config.min_heldout_tokens),
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
