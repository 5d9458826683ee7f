"""Batches as tensors, read ahead by worker processes: torch's DataLoader around a walk.

    DIR -> open_dataset -> Batches or Sequence -> Loader -> a training loop, Lightning, transformers

Workers take batches by number, so their number changes nothing. The state is that of the batches that
came out, not of those that workers read ahead. Workers stay from epoch to epoch: each would import
everything and hash every file anew. It is no DataLoader itself: trainers give those samplers of their
own, and rows would be sliced twice. It has no `set_epoch` either, for it goes to the next epoch by
itself, and a trainer that calls one when it goes on would undo the state that was loaded.
"""

import copy
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Generic, Literal, cast

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler
from typing_extensions import TypeVar

from stages.errors import ConfigError
from stages.loading.batches import Batches
from stages.loading.dataset import Batch, row_kernels
from stages.loading.walk import Walk, WalkState

Tensors = dict[str, Tensor]
Walked = TypeVar("Walked", bound=Walk, default=Batches)
"""What a loader is around, so that type checkers know what its `batches` can do."""
_LONGEST_TEMPORARY = 107 - len("/pymp-12345678/listener-12345678")
"""Bytes of the path of the folder for temporary files, in which workers make a socket.

A socket's path has at most 107 bytes (man page unix(7)). With a longer one multiprocessing loses each
batch, and torch waits for it for ever.
"""


class _Numbers(Sampler[int]):
    """The numbers of the batches that are read next; workers have the walk as it was at number 0."""

    def __init__(self) -> None:
        self.taken = 0
        self.end = 0

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.taken, self.end))


class Loader(Generic[Walked]):
    """An iterable of the batches that are left, again and again, with a state that is exact to the row.

    With `Batches`, an iteration gives the rest of the epoch, and the next one gives the next epoch. With
    a `Sequence`, an iteration gives the rest of all stages, once.

    Args:
        batches: of this rank; iterating moves their position.
        num_workers: processes that read ahead, of each rank; 0 reads in this process.
        collate: makes tensors of a batch; None takes each column as it is. If workers are spawned, it
            must be a function of a module.
        start: how workers start; None takes torch's default.
        pin_memory: whether tensors are in pinned memory, from which a GPU copies while it computes.

    Raises:
        ConfigError: workers could not send batches, since the path of the folder for temporary files is
            too long.
    """

    def __init__(
        self,
        batches: Walked,
        *,
        num_workers: int = 0,
        collate: Callable[[Batch], Tensors] | None = None,
        start: Literal["fork", "spawn", "forkserver"] | None = None,
        pin_memory: bool = False,
    ) -> None:
        if num_workers:
            _require_sockets()
        self.batches = batches
        self._num_workers = num_workers
        self._collate = as_tensors if collate is None else collate
        self._start = start
        self._pin_memory = pin_memory
        self._begin = copy.copy(batches)
        self._numbers = _Numbers()
        self._loop = 0  # the last one begun: loops share the workers, so it alone may read on
        self._loader: DataLoader[Tensors] | None = None

    def __getstate__(self) -> dict[str, object]:
        """Return what another process needs: it starts workers of its own."""
        return self.__dict__ | {"_loader": None}

    def __len__(self) -> int:
        """Batches that are left."""
        return len(self.batches)

    def __iter__(self) -> Iterator[Tensors]:
        """Yield what is left; the walk stands behind each batch that was given.

        Calling `set_epoch` or `load_state_dict`, or starting a second loop, ends the current iteration.
        The next one goes on from the walk's place, also after an error: it starts new workers then.
        """
        self._loop = loop = self._loop + 1
        read = self._resumed()
        if read is None:
            read = self._started()
        begin, numbers = self._begin, self._numbers
        for number in range(numbers.taken, numbers.end):
            if self._loop != loop or begin.place(number) != self.batches.place():
                return
            with self._workers_dropped_on_error():
                batch = next(read)
            self.batches.advance()
            numbers.taken = number + 1
            yield batch

    def _resumed(self) -> Iterator[Tensors] | None:
        """Return the rest of the epoch from the workers there are, if they can go on with it."""
        begin, numbers = self._begin, self._numbers
        if self._loader is None or begin.place(numbers.taken) != self.batches.place():
            return None
        numbers.end = numbers.taken + len(self)
        with suppress(RuntimeError, OSError), self._workers_dropped_on_error():
            return iter(self._loader)
        return None  # a worker was killed since the last loop; torch's handler of the signal has said so

    def _started(self) -> Iterator[Tensors]:
        """Return the rest of the epoch from new workers, which stay for later loops."""
        self._begin = copy.copy(self.batches)  # stays there, so that numbers of batches mean the same
        self._numbers = _Numbers()
        self._numbers.end = len(self)
        if self._num_workers:
            row_kernels()  # a place for their code is found, and missed, once for all workers
        self._loader = DataLoader(
            cast("Dataset[Tensors]", self._begin),
            batch_size=None,
            sampler=self._numbers,
            collate_fn=cast("Callable[[list[Batch]], Tensors]", self._collate),
            num_workers=self._num_workers,
            persistent_workers=self._num_workers > 0,
            multiprocessing_context=self._start if self._num_workers else None,
            pin_memory=self._pin_memory,
        )
        return iter(self._loader)

    @contextmanager
    def _workers_dropped_on_error(self) -> Iterator[None]:
        """Drop the workers if reading fails: one may have been killed in the middle of a message."""
        try:
            yield
        except BaseException:  # Ctrl-C ends the workers too
            self._loader = None
            raise

    def state_dict(self) -> WalkState:
        """Return the state, from which a loader of any number of workers and ranks continues."""
        return self.batches.state_dict()

    def load_state_dict(self, state: Mapping[str, int | str]) -> None:
        """Go to the position of a state."""
        self.batches.load_state_dict(state)


def _require_sockets() -> None:
    """Refuse a folder for temporary files in which workers could not pass on tensors."""
    folder = tempfile.gettempdir()
    size = len(os.fsencode(folder))
    strategy = torch.multiprocessing.get_sharing_strategy()  # type: ignore[no-untyped-call]
    if size > _LONGEST_TEMPORARY and strategy == "file_descriptor":
        raise ConfigError(
            f"num_workers: workers send batches over sockets in the folder for temporary files, and the "
            f"{size} bytes of its path are too many: {folder}; set TMPDIR to a folder whose path has at "
            f"most {_LONGEST_TEMPORARY} bytes"
        )


def as_tensors(batch: Batch) -> Tensors:
    """Return each column as a tensor, without copying it."""
    return {name: torch.from_numpy(column) for name, column in batch.items()}
