"""A dataset as a trainer sees it: rows by number, shuffled by epoch, straight from the mapped files.

Needs numpy, xxhash and pydantic; no Ray, no pyarrow, no torch. Works as a map-style dataset for
torch's DataLoader, whose default collation turns the arrays into tensors.
"""

import copy
import hashlib
import itertools
import operator
from collections.abc import Collection, Sequence
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stages.errors import ConfigError, FormatError
from stages.loading.arguments import from_begin, refuse_columns, sound_epoch, whole_positions
from stages.loading.drawn import check_digests, check_sizes
from stages.loading.interleaved import InterleavedOrder, InterleavedRows, interleaved_rows
from stages.loading.lru_cache import LruCache
from stages.loading.mapped import ShardRows, by_shard, num_rows, row_files
from stages.loading.order import MAX_SORTED, EpochOrder
from stages.loading.room import NeededRoom, room_of
from stages.loading.shared_number import SharedNumber
from stages.loading.split_reader import FileCheck, SplitReader, dense_segments
from stages.loading.windowed import WindowOrder
from stages.store.drawn import read_drawn
from stages.store.folders import entries
from stages.store.manifest import read_manifest

_DERIVED = ("position_ids", "segment_ids")
_CAUSAL = ("input_ids", "labels", *_DERIVED)
_KEPT_ORDERS = 2
"""Epochs whose orders are kept: a batch may go on into the next one."""

Batch = dict[str, NDArray[np.int64]]


class ShardDataset(Sequence[Batch]):
    """The rows of one split in the order of one epoch; `open_dataset` makes it.

    An item is a dict of int64 arrays, (L,) unless said otherwise. It has input_ids, and labels, -100
    where there is no loss. Packed rows also have position_ids, from 0 in each document, and
    segment_ids, -1 on padding. An objective may declare more (docs/objectives.md). Draws differ from
    epoch to epoch, and depend only on the seed, the epoch and the row.

    `manifest` holds what dataset.json says: `manifest.attention`, `manifest.vocab_size`,
    `manifest.special_ids` and others. `objective` holds the settings of the objective.

    Args:
        reader: of the split.
        epoch: the pass over the data, which decides the order and the masks.
        shuffle: False gives the rows as they are stored.
        window: shards that are read together, for a node that cannot hold all; None mixes all rows.
    """

    def __init__(
        self, reader: SplitReader, *, epoch: int = 0, shuffle: bool = True, window: int | None = None
    ) -> None:
        self.reader = reader
        self.manifest = reader.manifest
        self.objective = reader.objective
        self.widths = reader.widths
        self.vocabulary = reader.vocabulary
        self.shuffle = shuffle
        self.window = window
        self._epoch = SharedNumber(sound_epoch(epoch))
        self._wanted: frozenset[str] | None = None
        self._orders: LruCache[int, EpochOrder] = LruCache(_KEPT_ORDERS)

    def __getstate__(self) -> dict[str, object]:
        """Return what a copy needs: an epoch of its own, or in a worker that of this process."""
        return self.__dict__ | {"_epoch": copy.copy(self._epoch)}

    @property
    def folder(self) -> Path:
        """Of the split, as an absolute path."""
        return self.reader.folder

    @property
    def epoch(self) -> int:
        """The pass over the data, which decides the order and the masks."""
        return self._epoch.get()

    @property
    def fingerprint(self) -> str:
        """Names the content, and the window if there is one: states of another order are not these."""
        return with_window(self.manifest.fingerprint, self.window)

    @property
    def pad(self) -> int:
        """The id of padding."""
        return self.vocabulary.named("pad")

    @property
    def name(self) -> str:
        """As the run file calls the dataset."""
        return self.manifest.name

    @property
    def seq_len(self) -> int:
        """Tokens of a row."""
        return self.manifest.seq_len

    @property
    def tokenizer_sha256(self) -> str:
        """Of the tokenizer's file."""
        return self.manifest.tokenizer.sha256

    @property
    def begins(self) -> str:
        """The epoch that a stage of these rows begins in, as a state names it."""
        return str(self.epoch)

    @property
    def sorted_by_draws(self) -> bool:
        """Whether rows are so few that their order is sorted by draws."""
        return self.shuffle and len(self) <= MAX_SORTED

    def __len__(self) -> int:
        """Rows."""
        return int(self.reader.first_rows[-1])

    def __getitem__(self, index: int) -> Batch:  # type: ignore[override]
        """Return the row at a position of the epoch."""
        return self.__getitems__([operator.index(index)])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Batch]:
        """Return the rows at some positions one by one; torch's DataLoader asks for batches so."""
        batch = self.batch(from_begin(indices, len(self)))
        return [{name: column[n] for name, column in batch.items()} for n in range(len(indices))]

    def share_descriptors(self, datasets: int) -> None:
        """Map so many times fewer files at a time, for as many datasets are read in this process."""
        self.reader.share_descriptors(datasets)

    @property
    def readers(self) -> tuple[SplitReader, ...]:
        """Of all generations."""
        return (self.reader,)

    @property
    def room(self) -> NeededRoom | None:
        """What it needs of this machine's cache; None if it lies in a folder."""
        if not any(reader.is_stored for reader in self.readers):
            return None
        mixed = self.is_interleaved
        return room_of(self.readers, shuffle=self.shuffle, window=self.window, interleaved=mixed)

    def hold_shards(self, shards: int) -> None:
        """Map at most so many shards at a time."""
        self.reader.hold_shards(shards)

    @property
    def is_interleaved(self) -> bool:
        """Whether rows of several sources are interleaved over all shards."""
        return self._interleaved is not None

    def release(self) -> None:
        """Unmap all files; they are mapped again when rows are read."""
        self.reader.release()

    def locate(self, row: int) -> tuple[int, int]:
        """Return the shard of a row in stored order, and its number there."""
        shard = int(np.searchsorted(self.reader.first_rows, row, side="right")) - 1
        return shard, row - int(self.reader.first_rows[shard])

    def stored_rows(self, epoch: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows at some positions of an epoch, as their numbers in stored order, (N,)."""
        return self._orders.get(epoch, self._order).rows(positions) if self.shuffle else positions

    def set_epoch(self, epoch: int) -> None:
        """Go to another epoch: another order of the same rows, and other masks.

        Workers that run already follow: what they read from then on is of this epoch. Call it before a
        loop begins, because in the middle of one they have read ahead.

        Raises:
            ConfigError: the epoch can neither be drawn nor is it on disk.
        """
        self._epoch.set(self.sound_epoch(epoch))

    def sound_epoch(self, epoch: int) -> int:
        """Return an epoch that rows can be read of.

        Raises:
            ConfigError: it can neither be drawn nor is it on disk.
        """
        sound = sound_epoch(epoch)
        written, kept_for = self.reader.epochs_on_disk, self.reader.traits.written_for
        if kept_for and sound >= written:
            known = f"{written} epoch stands" if written == 1 else f"{written} epochs stand"
            raise ConfigError(
                f"epoch = {epoch}: {self.objective.kind} cannot be drawn when it is read, for"
                f" {kept_for}; {known} on disk; train on those, or set"
                f" materialized_epochs = {epoch + 1} and run again"
            )
        return sound

    def batch(self, positions: ArrayLike) -> Batch:
        """Return the rows at some positions of the epoch, each column (N, L) int64."""
        return self._at(self.epoch, whole_positions(positions))

    def at(self, epoch: int, positions: NDArray[np.int64]) -> Batch:
        """Return the rows at some positions of any epoch; the dataset stays in its own."""
        return self._at(self.sound_epoch(epoch), whole_positions(positions))

    def _at(self, epoch: int, rows: NDArray[np.int64]) -> Batch:
        """Return rows of one epoch, which another process may end while they are read."""
        if not len(rows) and len(self):  # of the columns that any row has
            one = self._at(epoch, np.zeros(1, np.int64))
            return {name: column[:0] for name, column in one.items()}
        if not len(rows) and self.manifest.shards:
            return self._read([ShardRows(0, rows, rows)], epoch)  # no row of a shard that has none
        outside = rows.view(np.uint64) >= len(self)  # below 0 is far above
        if np.count_nonzero(outside):
            raise IndexError(f"row {rows[outside][0]} of {len(self)}")
        rows = self.stored_rows(epoch, rows)
        shards = self.reader.first_rows.searchsorted(rows, "right") - 1
        return self._read(by_shard(shards, rows - self.reader.first_rows[shards]), epoch)

    def _order(self, epoch: int) -> EpochOrder:
        if self.window is not None:
            rows, seed = self.shard_rows, self.manifest.seed
            return WindowOrder(rows, window=self.window, seed=seed, epoch=epoch)
        if self._interleaved is not None:
            return InterleavedOrder(self._interleaved, seed=self.manifest.seed, epoch=epoch)
        return EpochOrder(len(self), seed=self.manifest.seed, epoch=epoch)

    @property
    def shard_rows(self) -> list[int]:
        """The rows of each shard, in stored order."""
        return [shard.rows for shard in self.manifest.shards]

    @cached_property
    def _interleaved(self) -> InterleavedRows | None:
        """The rows by source, if they are interleaved."""
        return interleaved_rows([self.manifest])

    def keep(self, columns: Collection[str]) -> None:
        """Return these columns alone from now on.

        Raises:
            ConfigError: rows have no such column.
            FormatError: the first row, which shows the columns there are, was changed.
        """
        self._wanted = None
        there = self.batch([0] if len(self) else [])
        refuse_columns(columns, there)
        self._wanted = frozenset(columns)

    def _read(self, parts: Sequence[ShardRows], epoch: int) -> Batch:
        """Return the columns of rows of any shards, int64."""
        batch = self._columns(parts, epoch)
        adds = self.reader.adds_segments and "segment_ids" not in batch
        if adds and any(map(self._wants, _DERIVED)):
            batch |= self._segments(parts)
        wanted = self._wanted
        return batch if wanted is None else {name: batch[name] for name in batch if name in wanted}

    def _columns(self, parts: Sequence[ShardRows], epoch: int) -> Batch:
        """Return what the objective makes of rows; where it has no segments they may be missing."""
        reader, traits = self.reader, self.reader.traits
        written = epoch < reader.epochs_on_disk
        copied = traits.copied and not written and reader.manifest.row_frame is None
        if copied and (kernels := row_kernels()):
            names = _CAUSAL if any(map(self._wants, _DERIVED)) else _CAUSAL[:2]
            filled, first = self._empty(len(names), parts), traits.unlabelled_starts
            for number, places, rows in parts:
                kernels.fill_causal(reader.mapped(number).packed, rows, places, filled, first)
            return dict(zip(names, filled, strict=True))
        if not written and not traits.dynamic:  # no draw, so no shard that keys it
            drawn = reader.drawn_of(reader.gathered(parts, epoch))
            return {name: column.astype(np.int64) for name, column in drawn.items()}
        batch: Batch = {}
        for part, columns in reader.drawn_parts(parts, epoch):
            for name, column in columns.items():
                shape = (num_rows(parts), *column.shape[1:])
                batch.setdefault(name, np.empty(shape, np.int64))[part.places] = column
        return batch

    def _segments(self, parts: Sequence[ShardRows]) -> Batch:
        """Return the documents of rows: segment_ids and position_ids, each (N, L)."""
        if kernels := row_kernels():
            segment_ids, position_ids = self._empty(2, parts)
            for number, places, rows in parts:
                shard = self.reader.mapped(number).packed[1:]
                kernels.fill_segments(shard, rows, places, segment_ids, position_ids)
        else:
            of = self.reader.gathered(parts, 0)  # the same in each epoch
            segment_ids, position_ids = dense_segments(
                of.segment_ptr, of.segment_length, row_length=self.widths.stored
            )
        return {"position_ids": position_ids, "segment_ids": segment_ids}

    def _empty(self, columns: int, parts: Sequence[ShardRows]) -> NDArray[np.int64]:
        """Return columns in one piece: malloc hands several back to the kernel, which clears them."""
        return np.empty((columns, num_rows(parts), self.widths.stored), np.int64)

    def _wants(self, name: str) -> bool:
        return self._wanted is None or name in self._wanted


def with_window(fingerprint: str, window: int | None) -> str:
    """Return what names rows in an order of their own."""
    if window is None:
        return fingerprint
    return hashlib.sha256(f"{fingerprint} window {window}".encode()).hexdigest()


@cache
def row_kernels() -> ModuleType | None:
    """Return the compiled ways to fill in rows, if numba is there; it is imported here and no sooner."""
    if find_spec("numba") is None:
        return None
    from stages.loading import kernels  # noqa: PLC0415  # numba takes half a second

    return kernels


def open_dataset(
    path: str | Path,
    *,
    split: str = "train",
    epoch: int = 0,
    shuffle: bool = True,
    check: FileCheck = "xxh3",
    columns: Collection[str] | None = None,
) -> ShardDataset:
    """Open one split of a dataset.

    Args:
        path: the folder `DIR/datasets/NAME`.
        split: its name.
        epoch: the pass over the data, which decides the order and the masks.
        shuffle: False gives the rows as they are stored.
        check: "xxh3" hashes each file when its shard is first touched; "size" trusts it if it is as
            long as it must be.
        columns: the columns wanted; None gives all of them.

    The manifest is checked. Each file that rows are made of must be there and have the right length.
    Other files of a shard are checked when it is first touched.

    Raises:
        ConfigError: no such split, epoch, check or column.
        FormatError: the dataset is not whole, was changed, or says what this reader cannot do.
    """
    folder = Path(path) / split
    if not folder.is_dir():
        found = [split.name for split in entries(Path(path)) if (split / "dataset.json").exists()]
        what = f"splits here: {', '.join(found)}" if found else "no dataset here"
        raise ConfigError(f"{path}: no split {split!r}; {what}")
    manifest = read_manifest(folder)
    drawn = read_drawn(folder, dataset=manifest.fingerprint)
    reader = SplitReader(folder, manifest, check=check, drawn=drawn)
    dataset = ShardDataset(reader, epoch=epoch, shuffle=shuffle)
    dataset.set_epoch(epoch)
    convention = reader.traits.label_convention
    if manifest.label_convention != convention:
        raise FormatError(
            f"{folder}: label_convention {manifest.label_convention!r}, but the labels of"
            f" {dataset.objective.kind} are {convention!r}"
        )
    stored = reader.is_stored
    check_digests(folder, manifest.tables)
    for shard in () if stored else manifest.shards:
        check_sizes(f"{folder}/{shard.path}", row_files(shard))
    for part in () if drawn is None or stored else itertools.chain.from_iterable(drawn.shards):
        check_sizes(f"{folder}/{part.path}", part.files)
    if columns is not None:
        dataset.keep(columns)
    return dataset
