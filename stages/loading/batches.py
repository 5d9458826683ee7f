"""Batches: an order of the rows that all ranks, workers and restarts agree on.

    epoch of 10 rows, batches of 2, 2 ranks        position of the epoch's order
    step        0         1         2              0 1 2 3 4 5 6 7 8 9
    rank 0      0 1       4 5       8 9
    rank 1          2 3       6 7   .              drop: no step 2; pad: two rows of padding;
                                                   carry: positions 0 and 1 of the next epoch

Each batch is a function of the current place and of a step's number, so nothing but the place needs
saving: (epoch, position). It holds for any batch size, number of ranks and number of workers.
"""

import operator
import sys
from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from stages.errors import ConfigError
from stages.loading.arguments import no_rows, one_of, whole_number
from stages.loading.dataset import Batch, ShardDataset
from stages.loading.order import MAX_SORTED
from stages.loading.resumable import BatchesState, ResumableBatches, read_field, refuse_other_window
from stages.loading.shared_number import MAX_NUMBER
from stages.objectives.rows import IGNORED
from stages.seeding import MAX_EPOCHS

Last = Literal["drop", "pad", "carry"]
"""What becomes of rows at the end of an epoch that do not fill a batch of every rank: they are left out;
or padding fills it up; or rows of the next epoch do."""
PADDED = "padding_row"
"""The column, with `last="pad"`, that is 1 for rows that are padding and 0 for all others."""
_STATE_VERSION = 3
_BEFORE_SORTED = 2
"""The version of states whose epochs of few rows had another order."""
_UNLABELLED = ("labels", "next_sentence_label", "sentence_order_label")
_IDS = ("input_ids", "decoder_input_ids", "original_ids")


class RowSource(Protocol):
    """What can be walked over: a ShardDataset, or several as a Blend."""

    @property
    def fingerprint(self) -> str:
        """Names the content."""

    @property
    def pad(self) -> int:
        """The id of padding."""

    @property
    def epoch(self) -> int:
        """The epoch that an iteration begins in."""

    @property
    def shuffle(self) -> bool:
        """Whether an epoch has an order of its own."""

    @property
    def window(self) -> int | str | None:
        """The shards that are read together, of a Blend those of each dataset; None for all."""

    @property
    def sorted_by_draws(self) -> bool:
        """Whether rows are so few that their order is sorted by draws."""

    def __len__(self) -> int:
        """Rows of an epoch."""

    def at(self, epoch: int, positions: NDArray[np.int64]) -> Batch:
        """Return the rows at some positions of an epoch."""

    def sound_epoch(self, epoch: int) -> int:
        """Return an epoch that all rows can be read of, or refuse it."""


class WalkPosition(NamedTuple):
    """Where an iteration is: all positions of the epoch before this one have been given."""

    epoch: int
    position: int


class Batches(ResumableBatches):
    """The batches of one rank, from the current position; iterating moves it to the end of the epoch.

    `batches[n]` gives the n-th batch from here and does not move the position. So `Batches` is also a
    map-style dataset of complete batches.

    Args:
        rows: a dataset or a Blend, read from the beginning of its epoch.
        batch_size: rows of a batch of this rank.
        rank: this process among those that train together.
        world_size: the number of these processes.
        last: what happens to the last rows of an epoch, if they do not fill a step. They are left out
            (drop), or padding is added (pad), or rows of the next epoch (carry).

    Raises:
        ConfigError: no such rank or `last`, or no rows for a single batch.
    """

    def __init__(
        self,
        rows: RowSource,
        batch_size: int,
        *,
        rank: int = 0,
        world_size: int = 1,
        last: Last = "drop",
    ) -> None:
        batch_size, rank = whole_number("batch_size", batch_size), whole_number("rank", rank)
        world_size, last = whole_number("world_size", world_size), one_of("last", last, get_args(Last))
        if batch_size < 1:
            raise ConfigError(f"batch_size = {batch_size}: must be at least 1")
        if not 0 <= rank < world_size:
            raise ConfigError(f"rank = {rank}: must be at least 0 and below world_size = {world_size}")
        together = batch_size * world_size
        if not len(rows):
            raise ConfigError(f"rows: an epoch has none to walk over{_which(rows)}")
        if last == "drop" and len(rows) < together:
            raise ConfigError(
                f"batch_size = {batch_size}: {world_size} ranks take {together:,} rows a step, but an"
                f' epoch has {len(rows):,}; take smaller batches, or last="pad" or "carry"'
            )
        super().__init__()
        self.rows = rows
        self.last = last
        self._size = batch_size
        self._rank = rank
        self._together = together
        self._first = rows.epoch
        self._read = 0  # batches from here on that were read by number, in this process
        self._asked = False  # whether `set_epoch` went to this epoch
        self._go(WalkPosition(self._first, 0))

    def __len__(self) -> int:
        """Batches from here to the end of the epoch."""
        return self._steps_from(self._here.position)

    def __getitem__(self, step: int) -> Batch:  # type: ignore[override]
        """Return the batch that is so many steps ahead; later epochs follow the present one."""
        if step < 0:
            raise IndexError(f"batch {step}: batches count from the current place")
        place = self.place(step)
        left = None if self.last == "carry" else len(self.rows) - place.position
        batch = self.at(place, left)
        self._read = max(self._read, step + 1)
        return batch

    def at(self, place: WalkPosition, left: int | None) -> Batch:
        """Return this rank's batch of the step that begins at a place, which may be any.

        Args:
            place: where the step's first row is.
            left: rows that may be given from there on, over all ranks; None: rows of the next epochs
                follow without end.
        """
        begin = self._rank * self._size
        end = begin + self._size if left is None else min(begin + self._size, max(begin, left))
        batch = self._carried(place.epoch, place.position + np.arange(begin, end))
        return padded(batch, self._size, pad=self.rows.pad) if self.last == "pad" else batch

    @property
    def total(self) -> int:
        """Batches of the whole epoch in which it stands.

        With `last="carry"` the batch that begins in an epoch and ends in the next counts for the first,
        so epochs may differ by one batch.
        """
        if self.last != "carry":
            return self._steps_from(0)
        position = self._here.position
        return position // self._together + self._steps_from(position)

    @property
    def current_pass(self) -> int:
        """Epochs since the one in which the object was made."""
        return self.epoch - self._first

    @property
    def begins_pass(self) -> bool:
        """Whether the next batch is the first that begins in its epoch."""
        return self._here.position < (self._together if self.last == "carry" else 1)

    def restart(self, number: int = 0) -> None:
        """Go to the beginning of an epoch, counted from the one in which the object was made.

        Raises:
            ConfigError: there is no such epoch, or with `last="carry"` it has no beginning of its own.
        """
        epoch = self.rows.sound_epoch(self._first + whole_number("epoch", number))
        if number and self.last == "carry" and len(self.rows) % self._together:
            raise ConfigError(
                f'epoch {number}: with last="carry" and {len(self.rows):,} rows an epoch, a batch of'
                f" {self._together:,} rows belongs to two epochs, and epochs have different numbers of"
                ' batches; take last="drop" or "pad", or Sequence([Stage(rows, batch_size, epochs=...)])'
            )
        self._go(WalkPosition(epoch, 0))

    @property
    def rows_a_step(self) -> int:
        """Rows of a batch of every rank together."""
        return self._together

    @property
    def epoch(self) -> int:
        """The epoch that the next batch begins in."""
        return self._here.epoch

    @property
    def _here(self) -> WalkPosition:
        return WalkPosition(*divmod(self._stands.get(), len(self.rows)))

    def _go(self, place: WalkPosition) -> None:
        """Stand at a place, here and in workers that run already; it is one number, so never half set.

        Raises:
            ConfigError: so many epochs of so many rows have no number.
        """
        number = place.epoch * len(self.rows) + place.position
        if number > MAX_NUMBER:
            raise ConfigError(
                f"epoch = {place.epoch}: must be below {MAX_NUMBER // len(self.rows) + 1:,} for"
                f" {len(self.rows):,} rows"
            )
        self._stands.set(number)
        self._read, self._asked = 0, False

    def place(self, step: int = 0) -> WalkPosition:
        """Return the place after so many more batches of every rank."""
        return self._after(self._here, operator.index(step))

    def _after(self, place: WalkPosition, step: int) -> WalkPosition:
        """Return the place so many batches of every rank after another."""
        epoch, position = place
        if self.last == "carry":
            behind = epoch * len(self.rows) + position + step * self._together
            return WalkPosition(*divmod(behind, len(self.rows)))
        first = self._steps_from(position)
        if step < first:
            return WalkPosition(epoch, position + step * self._together)
        epochs, steps = divmod(step - first, self._steps_from(0))
        return WalkPosition(epoch + 1 + epochs, steps * self._together)

    def advance(self, steps: int = 1) -> None:
        """Move ahead by some batches of every rank."""
        self._go(self.place(steps))

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch, unless it is the current one; running workers follow.

        Raises:
            ConfigError: there is no such epoch.
        """
        sound = self.rows.sound_epoch(epoch)
        if sound != self.epoch:
            self._go(WalkPosition(sound, 0))
            self._asked = True

    def padding_rows(self, step: int = 0) -> int:
        """Return how many rows of padding the batch so many steps ahead has, over all ranks."""
        missing = self.place(step).position + self._together - len(self.rows)
        return max(missing, 0) if self.last == "pad" else 0

    def state_dict(self, steps: int = 0) -> BatchesState:
        """Return the state to continue from, here or so many batches ahead, as plain JSON."""
        epoch, position = self.place(steps)
        read = {"read": self._read} if self._read and not steps else {}  # for torchdata: `_is_over`
        window = {} if self.rows.window is None else {"window": self.rows.window}
        return {
            "version": _STATE_VERSION,
            "rows": len(self.rows),
            "fingerprint": self.rows.fingerprint,
            "shuffle": int(self.rows.shuffle),
            "epoch": epoch,
            "position": position,
            **window,
            **read,
        }

    def load_state_dict(self, state: Mapping[str, int | str]) -> None:
        """Go to the position of a state, which may be of another batch size or number of ranks.

        Raises:
            ConfigError: the state is not valid: it is of other rows, of another order or of an unknown
                version, or its position does not exist.
        """
        if not isinstance(state, Mapping):
            raise ConfigError(f"state = {state!r}: must be what state_dict() gave")
        if state.get("version") not in (_STATE_VERSION, _BEFORE_SORTED):
            raise ConfigError(
                f"state: version {state.get('version')}; this reader knows {_BEFORE_SORTED} and"
                f" {_STATE_VERSION}"
            )
        fingerprint = read_field(state, "fingerprint")
        rows, shuffle, epoch, position = (
            whole_number(f"state: {name}", read_field(state, name))
            for name in ("rows", "shuffle", "epoch", "position")
        )
        if fingerprint != self.rows.fingerprint or rows != len(self.rows):
            refuse_other_window(state, self.rows.window)
            raise ConfigError(
                f"state: of {rows:,} rows of {str(fingerprint)[:12]}, but"
                f" these are {len(self.rows):,} of {self.rows.fingerprint[:12]}; open the dataset"
                " that the state was saved with, or begin without the state. If the run has grown"
                " since, open_dataset(..., generations=N) reads the first N generations alone"
            )
        if bool(shuffle) != self.rows.shuffle:
            raise ConfigError(
                f"state: of rows with shuffle={bool(shuffle)}, but these have"
                f" shuffle={self.rows.shuffle}; open the dataset as it was when the state was saved"
            )
        if state["version"] == _BEFORE_SORTED and self.rows.sorted_by_draws:
            raise ConfigError(
                f"this state is from version {_BEFORE_SORTED}; the row order of small datasets (at most"
                f" {MAX_SORTED:,} rows) changed since. Restart that epoch: set_epoch({epoch})"
            )
        if not 0 <= epoch < MAX_EPOCHS or not 0 <= position < len(self.rows):
            raise ConfigError(
                f"state: epoch {epoch}, position {position:,}: an epoch is at least 0 and below"
                f" {MAX_EPOCHS:,}, and a position of these rows at least 0 and below {len(self.rows):,}"
            )
        if not self._is_over(WalkPosition(epoch, position), int(state.get("read", 0))):
            self._go(self._after(WalkPosition(epoch, position), 0))  # the next epoch, if none is left

    def _is_over(self, place: WalkPosition, read: int) -> bool:
        """Say whether a state is that of an epoch that was read to its end, before the one asked for.

        torchdata's StatefulDataLoader loads such a state when the loop over the next epoch begins, after
        `set_epoch`. Workers load one too: then what their parent process asked for counts.
        """
        if not self._asked or place.epoch == self.epoch:
            return False
        return read >= self._steps_from(place.position) or _in_worker()

    def _steps_from(self, position: int) -> int:
        left = len(self.rows) - position
        return left // self._together if self.last == "drop" else -(-left // self._together)

    def _carried(self, epoch: int, positions: NDArray[np.int64]) -> Batch:
        """Return rows at positions that go on into the epochs behind this one."""
        further, positions = np.divmod(positions, len(self.rows))
        if not len(further) or further[0] == further[-1]:
            return self.rows.at(epoch + int(further[:1].sum()), positions)
        parts = [
            self.rows.at(epoch + ahead, positions[further == ahead])
            for ahead in range(further[0], further[-1] + 1)
        ]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _in_worker() -> bool:
    """Say whether this process is a worker of a DataLoader; without torch there is none."""
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None


def _which(rows: RowSource) -> str:
    """Say which split has no rows, and the way out."""
    if isinstance(rows, ShardDataset):
        return f". {no_rows(rows.folder, rows.manifest.split)}"
    return "; give the run more documents"


def padded(batch: Batch, size: int, *, pad: int) -> Batch:
    """Return a batch of so many rows, the missing ones added as padding that has no loss.

    Ids are those of padding, labels -100, segments -1, everything else 0; `padding_row` says which.
    """
    missing = size - len(next(iter(batch.values())))
    whole = {name: _extended(column, missing, _fill(name, pad)) for name, column in batch.items()}
    return {**whole, PADDED: (np.arange(size) >= size - missing).astype(np.int64)}


def _extended(column: NDArray[np.int64], missing: int, value: int) -> NDArray[np.int64]:
    if not missing:
        return column
    return np.concatenate([column, np.full((missing, *column.shape[1:]), value, np.int64)])


def _fill(name: str, pad: int) -> int:
    if name in _UNLABELLED:
        return IGNORED
    if name in _IDS:
        return pad
    return -1 if name == "segment_ids" else 0
