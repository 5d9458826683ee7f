"""A stage of a curriculum: rows, how many of them make a batch, and how long they last.

    Stage(general, 8, epochs=2)       2 passes over the rows, one after the other without a gap
    Stage(general, 8, tokens=10**9)   as many rows as have so many tokens, in as many passes as it takes
    Stage(general, 8, steps=1000)     so many batches of every rank, whatever their size

`StageSteps` counts steps for `Sequence`; the rows of a step are read by a `Batches`.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, Protocol

from stages.errors import ConfigError
from stages.loading.arguments import whole_number
from stages.loading.batches import Batches, Last, RowSource, WalkPosition
from stages.loading.dataset import Batch

_NAMED = 16
"""Digits of a fingerprint by which a state names rows."""


class StageRows(RowSource, Protocol):
    """What a stage can be of: a ShardDataset, or several as a Blend."""

    @property
    def name(self) -> str:
        """Of the dataset, or of all of them."""

    @property
    def begins(self) -> str:
        """The epoch that it is in, or those of its datasets."""

    @property
    def seq_len(self) -> int:
        """Tokens of a row."""

    @property
    def tokenizer_sha256(self) -> str:
        """Of the tokenizer's file."""

    def release(self) -> None:
        """Unmap all files; they are mapped again when rows are read."""


@dataclass(frozen=True, eq=False)
class Stage:
    """Rows, and how long a trainer gets them: `epochs`, `steps` or `tokens`; none of them is one epoch.

    Args:
        rows: a dataset, or a Blend. The stage begins with the first row of the epoch that the dataset
            is in. A Blend begins in the epochs that its datasets were in when it was made.
        batch_size: rows of a batch of each rank.
        epochs: passes over the rows, above 0, in whole or in part: 2, 0.25.
        steps: batches of every rank, at least 1.
        tokens: at least 1; each row counts as `seq_len`, its padding included.
        name: what messages and `Sequence.stage` call it; None: as the dataset is called.
    """

    rows: StageRows
    batch_size: int
    epochs: float | None = None
    steps: int | None = None
    tokens: int | None = None
    name: str | None = None


class StagePosition(NamedTuple):
    """Where a stage stands."""

    row: int
    """Rows that are through, counted from its epoch 0."""
    step: int = 0
    """Steps that are through, if it lasts steps; else 0."""


class StageSteps:
    """The steps of a stage.

    Args:
        stage: as it was asked for.
        rank: this process among those that train together.
        world_size: how many they are.
        last: what becomes of rows at its end that do not fill a step.

    Raises:
        ConfigError: a size or a length that is none, or too few rows for a step.
    """

    def __init__(self, stage: Stage, *, rank: int, world_size: int, last: Last) -> None:
        rows = stage.rows
        self.name = rows.name if stage.name is None else stage.name
        within: Last = "pad" if last == "pad" else "carry"
        self.batches = Batches(rows, stage.batch_size, rank=rank, world_size=world_size, last=within)
        self.rows = rows
        self.begin = StagePosition(rows.epoch * len(rows))
        self._begins = rows.begins
        self.steps, wanted, self.lasts = _length(stage)
        self.end = None if self.steps else self.begin.row + wanted
        """The row behind its last; None if steps decide."""
        self._last = last
        self._a_step = self.batches.rows_a_step
        if not self.left(self.begin):
            raise ConfigError(
                f"{self.lasts}: {wanted:,} rows, but {world_size} ranks take {self._a_step:,} a step;"
                ' let it last longer, take smaller batches, or last="pad" or "carry"'
            )

    @property
    def said(self) -> str:
        """What rows they are, for people and states."""
        return self._said(self.rows.window)

    def is_said(self, rows: str) -> bool:
        """Say whether a state names these rows; states of earlier versions name no window."""
        return rows in (self.said, self._said(None))

    def _said(self, window: int | str | None) -> str:
        order = "shuffled" if self.rows.shuffle else "as stored"
        order += "" if window is None else f", window = {window}"
        named = self.rows.fingerprint[:_NAMED]
        return f"{len(self.rows):,} rows of {named}, {order}, from epoch {self._begins}"

    def left(self, at: StagePosition) -> int:
        """Return how many steps there are from a position on."""
        if self.end is None:
            return self.steps - at.step
        rows = max(0, self.end - at.row)
        return rows // self._a_step if self._last == "drop" else -(-rows // self._a_step)

    def after(self, at: StagePosition, steps: int) -> StagePosition:
        """Return the position so many steps on, which are no more than there are.

        Rows that the last step leaves out are through, too.
        """
        if self.end is None:
            return StagePosition(at.row + steps * self._a_step, at.step + steps)
        if steps and steps == self.left(at) and self._last != "carry":
            return StagePosition(self.end)
        return StagePosition(at.row + steps * self._a_step)

    def batch(self, at: StagePosition) -> Batch:
        """Return this rank's batch of the step that begins at a position."""
        return self.batches.at(WalkPosition(*divmod(at.row, len(self.rows))), self._may_give(at))

    def padding_rows(self, at: StagePosition) -> int:
        """Return how many rows of padding the step has that begins at a position, over all ranks."""
        given = self._may_give(at)
        return 0 if self._last != "pad" or given is None else max(0, self._a_step - given)

    def last_row(self, at: StagePosition) -> int:
        """Return the last row that steps from a position on read."""
        behind = at.row + self.left(at) * self._a_step
        return (behind if self.end is None or self._last == "carry" else min(behind, self.end)) - 1

    def refuse_epochs(self, at: StagePosition) -> None:
        """Refuse steps from a position on if they are of epochs that cannot be read.

        Raises:
            ConfigError: there is no such epoch.
        """
        if self.left(at):
            self.rows.sound_epoch(self.last_row(at) // len(self.rows))

    def _may_give(self, at: StagePosition) -> int | None:
        return None if self.end is None or self._last == "carry" else self.end - at.row


def _length(stage: Stage) -> tuple[int, int, str]:
    """Return the steps, or else the rows, that a stage lasts, and what says so."""
    given = {"epochs": stage.epochs, "steps": stage.steps, "tokens": stage.tokens}
    wanted = {name: value for name, value in given.items() if value is not None} or {"epochs": 1}
    if len(wanted) > 1:
        raise ConfigError(f"{' and '.join(wanted)} are given; a stage lasts one of them")
    ((name, value),) = wanted.items()
    if name == "epochs":
        epochs = _fraction(value)
        said = epochs.numerator if epochs.denominator == 1 else float(epochs)
        return 0, math.ceil(epochs * len(stage.rows)), f"epochs = {said}"
    number = whole_number(name, value)
    if number < 1:
        raise ConfigError(f"{name} = {number}: must be at least 1")
    if name == "steps":
        return number, 0, f"steps = {number}"
    return 0, -(-number // stage.rows.seq_len), f"tokens = {number}"


def _fraction(value: float) -> Fraction:
    try:
        epochs = Fraction(str(value))
    except (ValueError, ZeroDivisionError):  # not finite, or no number at all
        epochs = Fraction(0)
    if epochs <= 0:
        raise ConfigError(f"epochs = {value}: must be a number above 0")
    return epochs
