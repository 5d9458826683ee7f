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

Since these figures were taken rows come evenly from a shard and no longer from its start, and weights
are drawn in another order; one seed of clm since then: gain 0.79, order ablation 0.66. Of the other
kinds: docs/verification.md.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from stages.errors import TooFewLabelsError
from stages.objectives.learning import LearningSettings
from stages.verify.gates import LearningResult, gates
from stages.verify.model import TinyTransformer, heldout_loss, reproducible
from stages.verify.rows import (
    LabelledRows,
    compact_ids,
    count_labelled,
    cut_windows,
    frequent_ids,
    labels_apart,
    log_unigram,
    permute_labels,
    shuffle_tokens,
    take_rows,
    unigram_entropy,
)
from stages.verify.training import CPU, Machine, Stream, TrainedModel, draws_of, train


@dataclass(frozen=True, eq=False)
class Windows:
    """Both slices as windows with compact ids."""

    training: LabelledRows
    heldout: LabelledRows
    kept: NDArray[np.int64]
    """The ids that have an id of their own: theirs is their place here."""

    @property
    def num_ids(self) -> int:
        """Ids, the one of all rarer ones among them."""
        return len(self.kept) + 1


@dataclass(frozen=True, eq=False)
class LearnedModel:
    """What the check found, and the model that it found it with."""

    result: LearningResult
    model: TinyTransformer
    log_probabilities: NDArray[np.float64]
    """Of the labels, where the model's bias started."""
    windows: Windows


def check_learning(
    training: LabelledRows,
    heldout: LabelledRows,
    *,
    config: LearningSettings,
    seed: int,
    machine: Machine = CPU,
    progress: Callable[[str, int, int], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> LearnedModel:
    """Train on the labels as they are, then on the control, and hold the losses to the gates.

    Args:
        training: rows to train on, of any length.
        heldout: rows not among them.
        config: sizes and gates.
        seed: decides every draw; on a CPU the same seed gives the same numbers to the bit.
        machine: where to train.
        progress: told (run, step, steps) after each step.
        clock: seconds, for tokens_per_second alone.

    Raises:
        TooFewLabelsError: a slice has too few labels.
    """
    windows = make_windows(training, heldout, config=config, seed=seed)
    training, heldout = windows.training, windows.heldout

    def run(name: str, rows: LabelledRows) -> TrainedModel:
        report = None if progress is None else partial(progress, name)
        return train(rows, config, num_ids=windows.num_ids, seed=seed, machine=machine, progress=report)

    shuffled = shuffle_tokens(heldout, draws_of(seed, Stream.ABLATION))
    permuted = permute_labels(training, draws_of(seed, Stream.CONTROL))
    heldout_permuted = permute_labels(heldout, draws_of(seed, Stream.HELDOUT_CONTROL))
    with reproducible(machine.device):
        started = clock()
        real, control = run("labels", training), run("control", permuted)
        seconds = clock() - started
        entropy, loss = measured_loss(real, training, heldout)
        _, shuffled_loss = measured_loss(real, training, shuffled)
        control_entropy, control_loss = measured_loss(control, permuted, heldout_permuted)
        apart = labels_apart(heldout, apart=True)
        apart_loss = heldout_loss(real.model, apart) if heldout.apart and count_labelled(apart) else None
    result = LearningResult(
        unigram_entropy=entropy,
        loss=loss,
        control_loss=control_loss,
        gain=entropy - loss,
        control_gain=control_entropy - control_loss,
        order_ablation=shuffled_loss - loss,
        finite_share=(real.finite_steps + control.finite_steps) / (real.steps + control.steps),
        labelled_tokens=real.labelled_tokens,
        steps=real.steps,
        tokens_per_second=(real.labelled_tokens + control.labelled_tokens) / seconds,
        curve=real.curve,
        control_curve=control.curve,
        apart_loss=apart_loss,
    )
    result = replace(result, gates=gates(result, config))
    return LearnedModel(result, real.model, real.log_probabilities, windows)


def measured_loss(
    trained: TrainedModel, rows: LabelledRows, heldout: LabelledRows
) -> tuple[float, float]:
    """Return the entropy of held-out labels by the frequencies of these rows, and their loss.

    EOS and sentinels of a decoder's targets count in neither: they say little of a text.
    """
    if not heldout.apart:
        return unigram_entropy(heldout, trained.log_probabilities), heldout_loss(trained.model, heldout)
    rows, heldout = labels_apart(rows, apart=False), labels_apart(heldout, apart=False)
    frequencies = log_unigram(rows, len(trained.log_probabilities))
    loss = heldout_loss(trained.model, heldout, without=heldout.apart)
    return unigram_entropy(heldout, frequencies), loss


def make_windows(
    training: LabelledRows, heldout: LabelledRows, *, config: LearningSettings, seed: int
) -> Windows:
    """Return both slices as windows with compact ids.

    Raises:
        TooFewLabelsError: a slice has too few labels.
    """
    training = cut_windows(training, config.row_length)
    heldout = cut_windows(heldout, config.row_length)
    order = draws_of(seed, Stream.HELDOUT_ROWS).permutation(len(heldout.labels))
    heldout = take_rows(heldout, order[: config.heldout_rows])
    kept = frequent_ids(training, config.max_ids)
    training, heldout = compact_ids(training, kept), compact_ids(heldout, kept)
    for rows, name, bound, least in (
        (training, "training", "verify.min_labelled_tokens", config.min_labelled_tokens),
        (heldout, "held-out", "verify.min_heldout_tokens", config.min_heldout_tokens),
    ):
        if (labelled := count_labelled(rows)) < least:
            raise TooFewLabelsError(
                f"{labelled:,} labelled tokens in the {name} slice, but {bound} = {least:,}, because"
                " fewer tell nothing; give the run more documents, or set verify.learning = false, and"
                " the exact checks decide alone"
            )
    return Windows(training, heldout, kept)
