"""Batches as tensors, read ahead by worker processes: torch's DataLoader around `Batches`.

    DIR -> open_dataset -> Batches -> Loader -> a training loop, Lightning, transformers

Workers take batches by number, so their number changes nothing. The state is that of the batches that
came out, not of those that workers read ahead. It is no DataLoader itself: trainers give those samplers
of their own, and rows would be sliced twice.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, cast

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from stages.loading.batches import Batches
from stages.loading.dataset import Batch

Tensors = dict[str, Tensor]


class Loader:
    """An iterable of the rest of an epoch, again and again, with a state that is exact to the row.

    Args:
        batches: this rank's walk; iterating moves it.
        num_workers: processes that read ahead; 0 reads in this one.
        collate: what makes tensors of a batch; None: each column as it is. It must be a function of a
            module where workers are spawned.
        start: how workers start; None: as torch does.
        pin_memory: whether tensors are put where a GPU copies them from while it computes.
    """

    def __init__(
        self,
        batches: Batches,
        *,
        num_workers: int = 0,
        collate: Callable[[Batch], Tensors] | None = None,
        start: Literal["fork", "spawn", "forkserver"] | None = None,
        pin_memory: bool = False,
    ) -> None:
        self.batches = batches
        self._num_workers = num_workers
        self._collate = as_tensors if collate is None else collate
        self._start = start
        self._pin_memory = pin_memory

    def __len__(self) -> int:
        """Batches from here to the end of the epoch."""
        return len(self.batches)

    def __iter__(self) -> Iterator[Tensors]:
        """Give the rest of the epoch; the walk stands behind each batch that was given."""
        ahead = copy.copy(self.batches)  # stays where it is, so that numbers of batches do too
        loader: DataLoader[Tensors] = DataLoader(
            cast("Dataset[Tensors]", ahead),
            batch_size=None,
            collate_fn=cast("Callable[[list[Batch]], Tensors]", self._collate),
            num_workers=self._num_workers,
            multiprocessing_context=self._start if self._num_workers else None,
            pin_memory=self._pin_memory,
        )
        for batch in loader:
            self.batches.advance()
            yield batch

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch, unless the walk is inside it already."""
        self.batches.set_epoch(epoch)

    def state_dict(self) -> dict[str, int | str]:
        """Give what a loader of any number of workers and ranks goes on from, as plain JSON."""
        return self.batches.state_dict()

    def load_state_dict(self, state: Mapping[str, int | str]) -> None:
        """Go where a state says."""
        self.batches.load_state_dict(state)


def as_tensors(batch: Batch) -> Tensors:
    """Give each column as a tensor, without copying it."""
    return {name: torch.from_numpy(column) for name, column in batch.items()}
