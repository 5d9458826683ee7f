"""What the resume check promises: no bit of difference, unless a batch, a weight or a moment differs."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from stages.errors import FormatError
from stages.loading.batches import Batches
from stages.loading.dataset import Batch
from stages.verify.model import reproducible
from stages.verify.resume import (
    AHEAD,
    STEPS,
    ResumeResult,
    check_resume,
    read_ahead,
    step_flops,
    utilisation,
)
from stages.verify.rows import NO_LABEL, LabelledRows, count_labelled, log_unigram, take_rows
from stages.verify.training import Machine, Trainer, TrainingState
from tests.stages.verify.languages import NUM_IDS, language
from tests.stages.verify.test_learning import QUICK

ROWS = language(4 * STEPS, seed=1, length=32)


class Numbers:
    """A loader whose columns are the numbers of its rows."""

    fingerprint = "rows"
    pad = 0
    epoch = 0
    shuffle = False
    sorted_by_draws = False
    window = None

    def __init__(self, shift: int = 0) -> None:
        self.shift = shift

    def __len__(self) -> int:
        """Rows."""
        return len(ROWS.labels)

    def at(self, epoch: int, positions: NDArray[np.int64]) -> Batch:
        """Return the rows at some positions of an epoch."""
        return {"number": (positions + epoch + self.shift) % len(self)}

    def sound_epoch(self, epoch: int) -> int:
        """Return an epoch: there are all of them."""
        return epoch


class Lost(Batches):
    """A walk that goes on from its beginning, whatever the state says."""

    def load_state_dict(self, state: Mapping[str, int | str]) -> None:
        """Forget the state."""


def sound() -> Batches:
    return Batches(Numbers(), 4)


def rows_at(batch: Batch) -> LabelledRows:
    return take_rows(ROWS, batch["number"])


def trainer(kind: type[Trainer] = Trainer, *, machine: Machine | None = None) -> Trainer:
    unigram = log_unigram(ROWS, NUM_IDS)
    return kind(ROWS, unigram, num_ids=NUM_IDS, seed=3, machine=machine or Machine())


def check(reopen: Callable[[], Batches] = sound, make: Callable[[], Trainer] = trainer) -> ResumeResult:
    ticks: Iterator[int] = count()
    with reproducible("cpu"):
        return check_resume(reopen, rows_at, make, config=QUICK, clock=lambda: float(next(ticks)))


class Forgetful(Trainer):
    """Saves weights, and nothing of what the optimizer remembers."""

    def load_state_dict(self, state: TrainingState) -> None:
        """Load the weights alone."""
        fresh = trainer().state_dict()
        super().load_state_dict({**fresh, "model": state["model"]})


def test_a_training_that_stopped_gives_the_same_bits() -> None:
    result = check()
    assert (result.max_difference, result.bound) == (0.0, 0.0)
    assert all(gate.passed for gate in result.gates)


def test_supply_is_the_share_of_loading_and_the_tokens_of_a_second_of_training() -> None:
    supply = check().supply  # each of loading, preparing and training takes one tick
    assert supply.wait_share == 0.5
    assert supply.tokens_per_second == 4 * 32
    assert supply.mfu is None


def test_a_loader_that_opens_elsewhere_is_found() -> None:
    opened: Iterator[int] = count()
    result = check(lambda: Batches(Numbers(2 * next(opened)), 4))
    assert result.max_difference > 1e-3
    assert not result.gates[0].passed


def test_a_loader_that_goes_on_from_another_place_is_found() -> None:
    result = check(lambda: Lost(Numbers(), 4))
    assert result.max_difference > 1e-3
    assert not result.gates[0].passed


def test_a_trainer_that_forgets_its_moments_is_found() -> None:
    result = check(make=lambda: trainer(Forgetful))
    assert result.max_difference > 0.0
    assert not result.gates[0].passed


def test_batches_of_no_rows_take_no_step() -> None:
    def prepare(batch: Batch) -> LabelledRows:
        return take_rows(ROWS, batch["number"][batch["number"] >= 4 * STEPS // 2])

    ticks: Iterator[int] = count()
    with reproducible("cpu"):
        result = check_resume(sound, prepare, trainer, config=QUICK, clock=lambda: float(next(ticks)))
    assert result.max_difference == 0.0
    assert 0 < result.supply.tokens_per_second < 4 * 32


def test_bfloat16_resumes_too() -> None:
    assert check(make=lambda: trainer(machine=Machine(bfloat16=True))).max_difference == 0.0


def test_operations_are_six_for_each_weight_that_a_token_or_a_label_meets() -> None:
    made = trainer()
    half = replace(ROWS, labels=np.where(np.arange(32) < 16, ROWS.labels, NO_LABEL))
    output = NUM_IDS * 65
    body = sum(weight.numel() for weight in made.model.parameters()) - NUM_IDS * 64 - output
    labels = count_labelled(half)
    assert labels < ROWS.labels.size // 2
    expected = ROWS.labels.size * (6 * body + 12 * 2 * 64 * 32) + 6 * output * labels
    assert step_flops(made, half) == pytest.approx(expected)
    assert utilisation(1e12, torch.device("cpu")) is None


@pytest.mark.parametrize("steps", [0, 1, AHEAD, AHEAD + 1, 7])
def test_batches_read_ahead_are_those_of_the_walk_which_stays(steps: int) -> None:
    walk = sound()
    walk.advance(3)
    given = [batch["number"].tolist() for batch in read_ahead(walk, steps)]
    assert given == [walk[step]["number"].tolist() for step in range(steps)]
    assert walk.place() == sound().place(3)


def test_what_stops_the_reading_comes_with_its_batch_and_no_thread_stays() -> None:
    class Damaged(Numbers):
        def at(self, epoch: int, positions: NDArray[np.int64]) -> Batch:
            if positions[0] == 8:
                raise FormatError("a shard was changed")
            return super().at(epoch, positions)

    threads = threading.active_count()
    with closing(read_ahead(Batches(Damaged(), 4), 6)) as batches:
        assert [len(next(batches)["number"]) for _ in range(2)] == [4, 4]
        assert threading.active_count() == threads + 1
        with pytest.raises(FormatError, match="was changed"):
            next(batches)
    assert threading.active_count() == threads
