"""Batches as tensors, read ahead by worker processes: torch's DataLoader around `ResumableBatches`.

    DIR -> open_dataset -> Batches or Sequence -> Loader -> a training loop, Lightning, transformers

Workers take batches by number, so their number changes nothing. The state is that of the batches that
came out, not of those that workers read ahead. Workers stay from epoch to epoch: each would import
everything and hash every file anew. It is no DataLoader itself: trainers give those samplers of their
own, and rows would be sliced twice.
"""

import copy
import os
import resource
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Generic, Literal, cast

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler
from typing_extensions import TypeVar

from stages.errors import ConfigError, ShardmillError
from stages.loading.arguments import whole_number
from stages.loading.batches import Batches
from stages.loading.dataset import Batch, ShardDataset, row_kernels
from stages.loading.resumable import BatchesState, ResumableBatches
from stages.loading.skipped import PassNumbers, SkippedPass, only_one

Tensors = dict[str, Tensor]
Walked = TypeVar("Walked", bound=ResumableBatches, default=Batches)
"""What a loader is around, so that type checkers know what its `batches` can do."""
_LONGEST_TEMPORARY = 107 - len("/pymp-12345678/listener-12345678")
"""Bytes of the path of the folder for temporary files, in which workers make a socket.

A socket's path has at most 107 bytes (man page unix(7)). With a longer one multiprocessing loses each
batch, and torch waits for it for ever.
"""


class _Numbers(Sampler[int]):
    """Numbers of the batches that are read next; workers have the batches as they were at number 0."""

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
        restart: whether each iteration begins again with the first batch of the epoch in which
            `batches` was made, as a validation must.

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
        restart: bool = False,
    ) -> None:
        if num_workers:
            _require_sockets()
        self.batches = batches
        self._num_workers = num_workers
        self._collate = as_tensors if collate is None else collate
        self._start = start
        self._pin_memory = pin_memory
        self.restarts = restart
        """Whether each iteration begins anew."""
        self._loaded = False  # a state was loaded, and no trainer said since what epoch that is
        self._counted = 0  # epochs that a trainer does not count, because they were before that state
        self._begin = copy.copy(batches)
        self._numbers = _Numbers()
        self._loop = 0  # the last one begun: loops share the workers, so it alone may read on
        self._loader: DataLoader[Tensors] | None = None

    def __getstate__(self) -> dict[str, object]:
        """Return what another process needs: it starts workers of its own."""
        return self.__dict__ | {"_loader": None}

    def __len__(self) -> int:
        """Batches of the whole epoch in which it stands, or of all stages; `remaining` is what is left.

        Trainers read it once and take it for the length of every epoch, also when they resume.
        """
        return self.batches.total

    @property
    def remaining(self) -> int:
        """Batches that are left of the epoch, or of all stages."""
        return len(self.batches)

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch as the trainer counts them.

        The first call after a state was loaded does not move: it tells how the trainer counts the epoch
        of the state. So a trainer that counts from 0 again, or that counts with another number of ranks,
        does not undo the state.

        Args:
            epoch: 0 is the epoch in which `batches` was made, whatever its number in the dataset.

        Raises:
            ConfigError: there is no such epoch.
        """
        number = whole_number("epoch", epoch)
        if self._loaded:
            self._loaded, self._counted = False, self.batches.current_pass - number
        else:
            self.go_to_pass(number + self._counted)

    def go_to_pass(self, number: int) -> None:
        """Go to the beginning of an epoch, counted from that in which `batches` was made."""
        if number != self.batches.current_pass or not self.batches.begins_pass:
            self.batches.restart(number)

    @property
    def dataset(self) -> SkippedPass:
        """What `accelerate.skip_first_batches` reads, which the Trainer of transformers resumes with."""
        return SkippedPass(self)

    @property
    def batch_sampler(self) -> PassNumbers:
        """The numbers of the batches of the current pass, from which that function leaves some out."""
        return PassNumbers(self)

    # What else that function looks for: the DataLoader that it makes reads in this process.
    sampler = None
    num_workers = 0
    prefetch_factor = None
    collate_fn = staticmethod(only_one)

    def __iter__(self) -> Iterator[Tensors]:
        """Yield what is left; the place is behind each batch that was given.

        Calling `set_epoch` or `load_state_dict`, or starting a second loop, ends the current iteration.
        The next one goes on from the same place, also after an error: it starts new workers then.
        """
        self._loop = loop = self._loop + 1
        if self.restarts:
            self.batches.restart()
        left = self.batches.begin_loop()
        read = self._resumed(left)
        if read is None:
            read = self._started(left)
        begin, numbers = self._begin, self._numbers
        for number in range(numbers.taken, numbers.end):
            if self._loop != loop or begin.place(number) != self.batches.place():
                return
            with self._workers_dropped_on_error():
                batch = next(read)
            self.batches.advance()
            numbers.taken = number + 1
            yield batch

    def _resumed(self, left: int) -> Iterator[Tensors] | None:
        """Return the rest of the epoch from the workers there are, if they can go on with it."""
        begin, numbers, here = self._begin, self._numbers, self.batches.place()
        if self._loader is None:
            return None
        if begin.place(numbers.taken) != here:
            if begin.place() != here:
                return None
            numbers.taken = 0
        numbers.end = numbers.taken + left
        with suppress(RuntimeError, OSError), self._workers_dropped_on_error():
            return iter(self._loader)
        return None  # a worker was killed since the last loop; torch's handler of the signal has said so

    def _started(self, left: int) -> Iterator[Tensors]:
        """Return the rest of the epoch from new workers, which stay for later loops."""
        self._begin = copy.copy(self.batches)  # stays there, so that numbers of batches mean the same
        self._numbers = _Numbers()
        self._numbers.end = left
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
        except ShardmillError:  # it came whole from a worker, so all can be asked to end
            with suppress(Exception):
                self._end_workers()
            raise
        except EOFError as error:
            self._loader = None
            if not self._num_workers:
                raise
            limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            raise RuntimeError(
                "a worker ended while it sent a batch, as one does that has no file descriptor left;"
                f" this process may have {limit:,} (ulimit -n): raise the limit, or set num_workers=0"
            ) from error
        except BaseException:  # Ctrl-C ends the workers too
            self._loader = None
            raise

    def close(self) -> None:
        """End the loop and the workers; the next loop starts others and begins where this loader stands.

        Without it, workers end with the loader. If something refers to it in a circle, as trainers of
        Lightning do, torch then waits 5 s for each worker.
        """
        self._loop += 1
        self._end_workers()

    def _end_workers(self) -> None:
        """End the workers now: if an error refers to torch's loader in a circle, it waits 5 s for each.

        A worker that reads when it is asked to end is given 5 s for it too.
        """
        running = getattr(self._loader, "_iterator", None)  # torch's, with the workers
        self._loader = None
        if running is not None:
            running._shutdown_workers()  # noqa: SLF001  # a loop that somebody holds would keep them

    def state_dict(self) -> BatchesState:
        """Return the state, from which a loader of any number of workers and ranks continues."""
        return self.batches.state_dict()

    def load_state_dict(self, state: Mapping[str, int | str]) -> None:
        """Go to the position of a state."""
        self.batches.load_state_dict(state)
        self._loaded = True


def validation_loader(
    rows: ShardDataset,
    batch_size: int,
    *,
    rank: int = 0,
    world_size: int = 1,
    num_workers: int = 0,
    collate: Callable[[Batch], Tensors] | None = None,
) -> Loader:
    """Return a loader of which each iteration gives every row once, the same ones in the same order.

    The last batches of the ranks are filled up with padding, whose labels are -100. All iterations have
    the masks of the epoch in which `rows` is now.

    Args:
        rows: usually `open_dataset(..., split="validation")`.
        batch_size: rows of a batch of each rank.
        rank: this process among those that validate together.
        world_size: the number of these processes.
        num_workers: processes that read ahead, of each rank.
        collate: as for `Loader`.

    Raises:
        ConfigError: no such rank, or no row.
    """
    batches = Batches(rows, batch_size, rank=rank, world_size=world_size, last="pad")
    return Loader(batches, num_workers=num_workers, collate=collate, restart=True)


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
