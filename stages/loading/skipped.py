"""What a trainer that resumes by skipping batches finds in a `Loader`, as in a torch DataLoader.

    loader                        17 batches an epoch, stands anywhere
    skip_first_batches(loader, 5) -> DataLoader(loader.dataset, batch_sampler=<numbers 5 .. 16>)
                                     the loader's own batches 5 .. 16 of the current epoch

The Trainer of transformers calls `skip_first_batches` of accelerate, which makes such a DataLoader of
these attributes. That DataLoader has no workers: it asks in this process for batches by their numbers,
and the loader reads them, with its own workers. So no batch is read to be thrown away, and the loader's
position and state are those of the batches that came out.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from torch import Tensor
from torch.utils.data import Dataset, Sampler

from stages.loading.resumable import ResumableBatches

_Item = TypeVar("_Item")


class ReadsByPass(Protocol):
    """A `Loader`, as far as it is used here."""

    @property
    def batches(self) -> ResumableBatches:
        """Where it stands."""

    def __len__(self) -> int:
        """Batches of a whole pass."""

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        """Yield what is left."""

    def go_to_pass(self, number: int) -> None:
        """Go to the beginning of a pass."""


class PassNumbers(Sampler[list[int]]):
    """The numbers of all batches of a pass, each as a list of one.

    Args:
        loader: whose batches they are.
    """

    def __init__(self, loader: ReadsByPass) -> None:
        self._loader = loader

    def __len__(self) -> int:
        """Batches of a whole pass."""
        return len(self._loader)

    def __iter__(self) -> Iterator[list[int]]:
        """Yield [0], [1], and so on."""
        for number in range(len(self)):
            yield [number]

    def set_epoch(self, epoch: int) -> None:
        """Go to an epoch as the trainer counts them, which skips what was before and needs no state."""
        self._loader.go_to_pass(epoch)


class SkippedPass(Dataset[dict[str, Tensor]]):
    """The batches of a loader's current pass by their numbers, best in ascending order without gaps.

    It has no length: trainers would take it for a number of rows.

    Args:
        loader: that reads them. It moves behind each batch that is given.
    """

    def __init__(self, loader: ReadsByPass) -> None:
        self._loader = loader
        self._next = -1
        self._batches: Iterator[dict[str, Tensor]] = iter(())

    def __getitem__(self, number: int) -> dict[str, Tensor]:
        """Return a batch of the current pass.

        Raises:
            IndexError: the pass has no such batch, or something else moved the loader.
        """
        if number != self._next:
            batches = self._loader.batches
            batches.restart(batches.current_pass)
            batches.advance(number)
            self._batches = iter(self._loader)
        self._next = number + 1
        for batch in self._batches:
            return batch
        raise IndexError(f"batch {number}: the epoch is over, or the loader was moved while it was read")


def only_one(batches: Sequence[_Item]) -> _Item:
    """Return the only item of a list of one."""
    (batch,) = batches
    return batch
