"""Batches that can be resumed: a place, which moves behind each batch that was given.

    ResumableBatches        a place that workers follow, a loop that ends if something else moves it
      Batches     over one RowSource, epoch after epoch
      Sequence    over several, one after the other, each for as long as its stage lasts

`batches[n]` is a function of the current place and of n; iterating asks for `batches[0]` and moves on.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence

from stages.errors import ConfigError
from stages.loading.dataset import Batch
from stages.loading.shared_number import SharedNumber

BatchesState = dict[str, int | str]
"""The place of an iteration, as plain JSON."""


class ResumableBatches(Sequence[Batch], ABC):
    """Batches of one rank from a place on; `torch_loader.Loader` takes any."""

    def __init__(self) -> None:
        self._loop = 0  # the last one begun, which alone may go on
        self._stands = SharedNumber(0)

    def __getstate__(self) -> dict[str, object]:
        """Return what a copy needs: a place of its own, or in a worker that of this process."""
        return self.__dict__ | {"_stands": copy.copy(self._stands)}

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches that are left; the place is behind each batch that was given.

        Moving the place (`set_epoch`, `load_state_dict`, `advance`), or starting a second loop, ends the
        current iteration.
        """
        self._loop = loop = self._loop + 1
        left = self.place()
        for _ in range(self.begin_loop()):
            if self._loop != loop or left != self.place():
                return
            batch = self[0]
            self.advance()
            left = self.place()
            yield batch

    def begin_loop(self) -> int:
        """Return how many batches a loop that begins now gives."""
        return len(self)

    @property
    @abstractmethod
    def total(self) -> int:
        """Batches of a whole pass: of the current epoch, or of all stages."""

    @property
    @abstractmethod
    def current_pass(self) -> int:
        """The number of the current pass, from 0: passes that are over since these batches were made."""

    @property
    @abstractmethod
    def begins_pass(self) -> bool:
        """Whether the next batch is the first of the current pass."""

    @abstractmethod
    def restart(self, number: int = 0) -> None:
        """Go to the first batch of a pass, by its number; running workers follow."""

    @abstractmethod
    def place(self, step: int = 0) -> tuple[int, ...]:
        """Return the place after so many more batches of every rank."""

    @abstractmethod
    def advance(self, steps: int = 1) -> None:
        """Move ahead by some batches of every rank."""

    @abstractmethod
    def state_dict(self, steps: int = 0) -> BatchesState:
        """Return the state to continue from, here or so many batches ahead, as plain JSON."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, int | str]) -> None:
        """Go to the position of a state, which may be of another batch size or number of ranks."""


def refuse_other_window(state: Mapping[str, int | str], window: int | str | None) -> None:
    """Refuse a state of rows whose shards were read in other groups, and so in another order.

    Raises:
        ConfigError: names both windows.
    """
    was = state.get("window")
    if was != window:
        said = "names no window" if was is None else f"is of window = {was}"
        here = "these rows have none" if window is None else f"these rows are of window = {window}"
        raise ConfigError(
            f"state: it {said}, and {here}; open the dataset with the window that the state was saved"
            " with, or begin without the state"
        )


def read_field(state: Mapping[str, int | str], name: str) -> int | str:
    """Return a field of a state.

    Raises:
        ConfigError: it has none of this name.
    """
    if name not in state:
        raise ConfigError(f"state: no {name}; it was cut short, so take another, or begin without one")
    return state[name]
