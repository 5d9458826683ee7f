"""Several datasets as one, by weight: which of them a position takes, and how far it is in it.

    weights 2 : 1    position   0 1 2 3 4 5 6 7 8
                     dataset    . 0 1 . 0 1 . 0 1     (. is 0 as well)
                     its row    0 1 0 2 3 1 4 5 2

No draw and no table: after t positions the first dataset has had floor(t w / W) of them, the others
share the rest in the same way. So of any W positions in a row, on a boundary, each has exactly its
weight, and no prefix is off by more than a row for each dataset. Each dataset begins in the epoch in
which it is when the blend is made, and begins its next epoch when its own rows are through.
"""

import hashlib
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from stages.errors import ConfigError
from stages.loading.arguments import no_rows, sound_epoch, whole_number, whole_positions
from stages.loading.dataset import Batch, ShardDataset
from stages.loading.room import hold_to_cache

MAX_PARTS = 1 << 20
"""Bound of the weights' sum in whole numbers, so that a position times a weight stays below 2**63."""


class Blend:
    """Rows of several datasets in fixed proportions; an epoch of it is a number of positions.

    Args:
        datasets: of one tokenizer and one shape of rows. The blend begins with the first row of the
            epoch that each of them is in. A later `set_epoch` of a dataset does not move the blend.
        weights: the share of rows of each, as whole numbers or decimals: 7, 2, 1 or 0.7, 0.2, 0.1.
        rows: positions of an epoch of the blend; None: as many as the datasets have rows.

    The datasets share the files that one alone would map at a time.

    Raises:
        ConfigError: a weight is not valid, the datasets do not match, or those in a store are more than
            the cache can hold.
        FormatError: the first rows of a dataset, which show its columns, were changed.
    """

    epoch = 0
    """The epoch of the blend that an iteration begins in."""

    def __init__(
        self,
        datasets: Sequence[ShardDataset],
        weights: Sequence[float],
        *,
        rows: int | None = None,
    ) -> None:
        self.datasets = tuple(datasets)
        self.epochs = tuple(dataset.epoch for dataset in self.datasets)
        self.weights = whole_weights(weights)
        if len(self.datasets) != len(self.weights):
            entries = "1 entry" if len(self.weights) == 1 else f"{len(self.weights)} entries"
            there = "is 1 dataset" if len(self.datasets) == 1 else f"are {len(self.datasets)} datasets"
            raise ConfigError(f"weights has {entries}, but there {there}")
        hold_to_cache(self.datasets)
        for dataset in self.datasets:
            dataset.share_descriptors(len(self.datasets))
            refuse_to_blend(self.datasets[0], dataset)
        self._rows = sum(map(len, self.datasets)) if rows is None else whole_number("rows", rows)
        if self._rows < 1:
            raise ConfigError(f"rows = {rows}: must be at least 1, or None for as many as there are")

    @property
    def fingerprint(self) -> str:
        """Names the datasets in their order, their weights and first epochs, and which are shuffled."""
        parts = [(dataset.fingerprint, dataset.shuffle) for dataset in self.datasets]
        epochs = f" {self.epochs}" if any(self.epochs) else ""  # states of earlier versions name none
        return hashlib.sha256(f"{self.weights} {parts}{epochs}".encode()).hexdigest()

    @property
    def begins(self) -> str:
        """The epochs in which the datasets begin, as a state names them: "2+0", and "0" for all 0."""
        return "+".join(map(str, self.epochs)) if any(self.epochs) else "0"

    @property
    def window(self) -> str | None:
        """The windows of the datasets, as a state names them: "4+none"; None if none has one."""
        windows = [dataset.window for dataset in self.datasets]
        named = "+".join("none" if window is None else str(window) for window in windows)
        return named if any(windows) else None

    @property
    def pad(self) -> int:
        """The id of padding."""
        return self.datasets[0].pad

    @property
    def name(self) -> str:
        """The datasets' names, joined."""
        return "+".join(dataset.name for dataset in self.datasets)

    @property
    def seq_len(self) -> int:
        """Tokens of a row, the same in all datasets."""
        return self.datasets[0].seq_len

    @property
    def tokenizer_sha256(self) -> str:
        """Of the tokenizer's file, the same for all datasets."""
        return self.datasets[0].tokenizer_sha256

    @property
    def shuffle(self) -> bool:
        """Whether a dataset has an order of its own in each epoch."""
        return any(dataset.shuffle for dataset in self.datasets)

    @property
    def sorted_by_draws(self) -> bool:
        """Whether the order of a dataset is sorted by draws, because it has few rows."""
        return any(dataset.sorted_by_draws for dataset in self.datasets)

    def __len__(self) -> int:
        """Positions of an epoch."""
        return self._rows

    def release(self) -> None:
        """Unmap all files of all datasets."""
        for dataset in self.datasets:
            dataset.release()

    def sound_epoch(self, epoch: int) -> int:
        """Return an epoch of the blend that each dataset can give its rows for.

        Raises:
            ConfigError: a dataset has not.
        """
        sound = sound_epoch(epoch)
        end = (sound + 1) * len(self)
        begin = max(end - sum(self.weights), sound * len(self))  # a period has rows of each dataset
        owners, numbers = blended(np.arange(begin, end), self.weights)
        for owner in np.unique(owners).tolist():
            dataset = self.datasets[owner]
            further = int(numbers[owners == owner].max()) // len(dataset)
            dataset.sound_epoch(self.epochs[owner] + further)
        return sound

    def at(self, epoch: int, positions: NDArray[np.int64]) -> Batch:
        """Return the rows at some positions of an epoch of the blend."""
        places = whole_positions(positions)
        if not len(places):
            return self.datasets[0].batch(places)
        owners, numbers = blended(epoch * len(self) + places, self.weights)
        batch: Batch = {}
        for owner in np.unique(owners).tolist():
            dataset = self.datasets[owner]
            epochs, rows = np.divmod(numbers, len(dataset))
            for own_epoch in np.unique(epochs[owners == owner]).tolist():
                places = np.flatnonzero((owners == owner) & (epochs == own_epoch))
                found = dataset.at(self.epochs[owner] + own_epoch, rows[places])
                for name, column in found.items():
                    shape = (len(owners), *column.shape[1:])
                    batch.setdefault(name, np.empty(shape, np.int64))[places] = column
        return batch


def blended(
    positions: NDArray[np.int64], weights: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (dataset, row of its own stream) of each position, both (N,) int64.

    Args:
        positions: (N,) int64, counted over all epochs.
        weights: of each dataset, whole numbers.
    """
    owners, numbers = np.zeros_like(positions), np.zeros_like(positions)
    left, places = positions, np.arange(len(positions))
    rest = sum(weights)
    for dataset, weight in enumerate(weights):
        had = left * weight // rest
        takes = (left + 1) * weight // rest > had
        owners[places[takes]], numbers[places[takes]] = dataset, had[takes]
        left, places = (left - had)[~takes], places[~takes]
        rest -= weight
        if not rest:
            break
    return owners, numbers


def whole_weights(weights: Sequence[float]) -> tuple[int, ...]:
    """Return weights as whole numbers in the same proportions.

    0.7, 0.2, 0.1 -> 7, 2, 1

    Raises:
        ConfigError: none of them, one that is no positive number, or too many digits.
    """
    try:
        exact = [Fraction(str(weight)) for weight in weights]
    except ValueError:  # not finite, or no number at all
        exact = []
    if not exact or min(exact) <= 0:
        raise ConfigError(f"weights = {list(weights)}: each must be a number above 0")
    scale = math.lcm(*(part.denominator for part in exact))
    parts = [int(part * scale) for part in exact]
    least = math.gcd(*parts)
    if sum(parts) // least > MAX_PARTS:
        raise ConfigError(
            f"weights = {list(weights)}: {sum(parts) // least:,} parts in whole numbers, and at most"
            f" {MAX_PARTS:,} are exact; round them, to three digits say"
        )
    return tuple(part // least for part in parts)


def refuse_to_blend(first: ShardDataset, other: ShardDataset) -> None:
    """Refuse datasets whose rows a trainer could not take as one batch."""
    if not len(other):
        raise ConfigError(f"no rows to blend: {no_rows(other.folder, other.manifest.split)}")
    one, two = first.manifest, other.manifest
    for name in ("seq_len", "attention", "label_convention"):
        a, b = getattr(one, name), getattr(two, name)
        if a != b:
            raise ConfigError(
                f"{first.folder} has {name} = {a!r}, but {other.folder} has {b!r}; a batch needs one"
            )
    if one.tokenizer.sha256 != two.tokenizer.sha256:
        raise ConfigError(
            f"{other.folder}: ids of another tokenizer than those of {first.folder}; make both of one"
        )
    if first.widths != other.widths:
        raise ConfigError(f"{other.folder}: rows of other widths than those of {first.folder}")
    differing = _columns(first) ^ _columns(other)
    if differing:
        raise ConfigError(
            f"{other.folder} and {first.folder}: only one of them has {', '.join(sorted(differing))};"
            f" open both with columns={sorted(_columns(first) & _columns(other))}"
        )


def _columns(dataset: ShardDataset) -> set[str]:
    return set(dataset.at(dataset.epoch, np.zeros(1, np.int64)))
