"""Measure a training loop: tokens a second, operations a second, and how long it waits for its loader.

    supply -> next -> prepare -> step -> synchronize        one step
              wait               work

Steps are measured in windows, after some that warm up, and a figure is the median over the windows. The
device is synchronized after each step, so that waiting for a batch cannot hide behind work that the
device still does. `prepare` is what the learning check does to a batch and a trainer does not: it is not
measured.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from stages.loading.batches import Batches
from stages.loading.dataset import Batch, ShardDataset
from stages.loading.torch_loader import Tensors, as_tensors
from stages.objectives.table import traits_of
from stages.store.drawn import read_drawn
from stages.verify.resume import read_ahead

Prepared = TypeVar("Prepared")


@dataclass(frozen=True)
class Work(Generic[Prepared]):
    """What is done with the batches of a loader."""

    prepare: Callable[[Tensors], Prepared]
    step: Callable[[Prepared], Tensor | float]
    """Trains on what was prepared and returns the loss."""
    tokens: Callable[[Prepared], int]
    """Tokens that a step reads, padding left out."""
    flops: Callable[[Prepared], float]
    """Floating-point operations of a step by the model's own count."""


@dataclass(frozen=True)
class Plan:
    """How long is measured."""

    warmup: int = 5
    """Steps before the first window."""
    windows: int = 5
    steps: int = 50
    """Steps of all windows together."""
    seconds: float = 30.0
    """No window begins after so many seconds of measuring; the first one always does."""

    @property
    def window_steps(self) -> int:
        """Steps of one window."""
        return max(1, self.steps // self.windows)


@dataclass(frozen=True)
class Speed:
    """Medians over windows, and the losses on the way."""

    tokens_per_second: float
    """Of waiting and working together."""
    least_tokens_per_second: float
    """Of the slowest window."""
    most_tokens_per_second: float
    flops_per_second: float
    wait_share: float
    """Share of the time of waiting and working that the loop waited for a batch."""
    windows: int
    steps: int
    """That were measured."""
    first_loss: float
    """Of the first step of the warm-up."""
    last_loss: float
    finite: bool
    """Whether every loss was a number."""


@dataclass(frozen=True)
class _Window:
    waited: float
    worked: float
    tokens: int
    flops: float


def measure(
    batches: Iterator[Tensors],
    work: Work[Prepared],
    plan: Plan,
    *,
    clock: Callable[[], float] = time.perf_counter,
    synchronize: Callable[[], None] = lambda: None,
) -> Speed:
    """Train on batches and return how fast that was.

    Args:
        batches: gives at least as many as are needed.
        work: what is done with each.
        plan: how many are needed.
        clock: seconds.
        synchronize: waits until the device is done.
    """
    losses: list[Tensor | float] = []

    def window(steps: int) -> _Window:
        waited = worked = flops = 0.0
        tokens = 0
        for _ in range(steps):
            asked = clock()
            batch = next(batches)
            waited += clock() - asked
            prepared = work.prepare(batch)
            begun = clock()
            losses.append(work.step(prepared))
            synchronize()
            worked += clock() - begun
            tokens += work.tokens(prepared)
            flops += work.flops(prepared)
        return _Window(waited, worked, tokens, flops)

    window(plan.warmup)
    found = [window(plan.window_steps)]
    while len(found) < plan.windows and sum(w.waited + w.worked for w in found) < plan.seconds:
        found.append(window(plan.window_steps))
    values = [float(loss) for loss in losses]
    rates = [w.tokens / (w.waited + w.worked) for w in found]
    return Speed(
        statistics.median(rates),
        min(rates),
        max(rates),
        statistics.median(w.flops / (w.waited + w.worked) for w in found),
        statistics.median(w.waited / (w.waited + w.worked) for w in found),
        len(found),
        len(found) * plan.window_steps,
        values[0],
        values[-1],
        all(map(math.isfinite, values)),
    )


class EveryEpoch:
    """The rows of a dataset in epoch after epoch; where no more can be drawn, those on disk again.

    Args:
        dataset: whose rows are read.
    """

    epoch = 0
    shuffle = True

    def __init__(self, dataset: ShardDataset) -> None:
        self._dataset = dataset
        self._epochs: int | None = None
        if traits_of(dataset.objective).written_for:
            drawn = read_drawn(dataset.folder, dataset=dataset.manifest.fingerprint)
            self._epochs = 1 if drawn is None else drawn.epochs

    @property
    def fingerprint(self) -> str:
        """Names the content."""
        return self._dataset.fingerprint

    @property
    def pad(self) -> int:
        """The id of padding."""
        return self._dataset.pad

    @property
    def sorted_by_draws(self) -> bool:
        """Whether rows are so few that their order is sorted by draws."""
        return self._dataset.sorted_by_draws

    @property
    def window(self) -> int | str | None:
        """The shards that are read together."""
        return self._dataset.window

    def __len__(self) -> int:
        """Rows of an epoch."""
        return len(self._dataset)

    def sound_epoch(self, epoch: int) -> int:
        """Return an epoch: all can be read."""
        return epoch

    def at(self, epoch: int, positions: NDArray[np.int64]) -> Batch:
        """Return the rows at some positions of an epoch."""
        epoch = epoch if self._epochs is None else epoch % self._epochs
        return self._dataset.at(epoch, positions)


def supply(
    dataset: ShardDataset, batch_rows: int, *, steps: int, processes: int, pin_memory: bool = False
) -> Iterator[Tensors]:
    """Return the batches of so many steps, read ahead by a thread or by processes.

    Args:
        dataset: whose rows are read.
        batch_rows: rows of a batch; a smaller dataset gives all it has.
        steps: batches.
        processes: that read ahead; 0: a thread does, two batches ahead.
        pin_memory: whether batches are put where a GPU copies them from while it computes.
    """
    walk = Batches(EveryEpoch(dataset), min(batch_rows, len(dataset)), last="carry")
    if not processes:
        return map(as_tensors, read_ahead(walk, steps))
    loader: DataLoader[Tensors] = DataLoader(
        cast("Dataset[Tensors]", walk),
        batch_size=None,
        sampler=range(steps),
        collate_fn=cast("Callable[[list[Batch]], Tensors]", as_tensors),
        num_workers=processes,
        pin_memory=pin_memory,
    )
    return iter(loader)
