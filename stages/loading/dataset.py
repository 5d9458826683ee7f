"""A dataset as a trainer sees it: rows by number, shuffled by epoch, straight from the mapped files.

Needs numpy, xxhash and pydantic; no Ray, no pyarrow, no torch. Works as a map-style dataset for
torch's DataLoader, whose default collation turns the arrays into tensors.
"""

import itertools
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stages.errors import ConfigError, FormatError
from stages.loading.drawn import DrawnEpochs, check_digests, check_sizes
from stages.loading.order import shuffled
from stages.loading.segments import dense_segments
from stages.objectives.drawing import draw_columns
from stages.objectives.rows import Columns, StoredRows
from stages.objectives.table import PAIRS, TARGETS, read_objective, traits_of, widths_of
from stages.objectives.vocabulary import Vocabulary, vocabulary_of
from stages.objectives.whole_shard import WholeShard
from stages.ragged import Ragged
from stages.seeding import MAX_EPOCHS, shard_field
from stages.store.arrays import open_array
from stages.store.drawn import DrawnManifest, read_drawn
from stages.store.manifest import (
    OBJECTIVE_ID,
    PROMPT,
    ROOM,
    SEGMENT_COLUMNS,
    SENTENCES,
    UNIGRAM,
    WORD_STARTS,
    Manifest,
    Shard,
    read_manifest,
)

MAX_OPEN_SHARDS = 64
"""Shards mapped at a time; each takes six file descriptors, of which many machines allow 1,024."""

Batch = dict[str, NDArray[np.int64]]


@dataclass(frozen=True)
class MappedShard:
    """The arrays of one shard."""

    columns: dict[str, NDArray[np.integer]]
    """Of the rows, by name; `input_ids` among them."""
    segments: dict[str, NDArray[np.integer]]
    unigram: NDArray[np.int64] | None = None
    """The shard's ordinary ids counted up, if the objective draws by frequency."""
    sentences: Ragged | None = None
    """Where the sentences of each document end, if the objective asks."""


class ShardDataset(Sequence[Batch]):
    """The rows of one split in the order of one epoch; `open_dataset` makes it.

    An item is a dict of int64 arrays, (L,) unless said otherwise: input_ids and labels, -100 where
    there is no loss, and what else the objective declares (docs/objectives.md); for packed rows
    position_ids, from 0 in each document, and segment_ids, -1 on padding. What is drawn differs from
    epoch to epoch, and depends on nothing but the seed, the epoch and the row.

    Args:
        folder: the split's folder.
        manifest: its manifest.
        epoch: the pass over the data, which decides the order and the masks.
        shuffle: False gives the rows as they are stored.
        check: "xxh3" hashes each file when its shard is first touched; "size" trusts its header.
        drawn: the epochs that stand on disk; all others are drawn, and so are these without it.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        *,
        epoch: int = 0,
        shuffle: bool = True,
        check: Literal["xxh3", "size"] = "xxh3",
        drawn: DrawnManifest | None = None,
    ) -> None:
        self.folder = folder
        self.manifest = manifest
        self.epoch = _sound_epoch(epoch)
        self._shuffle = shuffle
        self._check = check
        self.objective = read_objective(manifest.objective)
        self.widths = widths_of(self.objective, manifest.seq_len)
        self._traits = traits_of(self.objective)
        self.vocabulary = vocabulary_for(folder, manifest)
        self._row_ptr = np.cumsum([0, *(shard.rows for shard in manifest.shards)])
        self._drawn = None if drawn is None else DrawnEpochs(folder, drawn, check=check == "xxh3")
        self._mapped: OrderedDict[int, MappedShard] = OrderedDict()
        self._checked: set[int] = set()

    def __len__(self) -> int:
        """Rows."""
        return int(self._row_ptr[-1])

    def __getitem__(self, index: int) -> Batch:  # type: ignore[override]
        """Give the row at a position of the epoch."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        batch = self.batch(np.array([index % len(self)]))
        return {name: column[0] for name, column in batch.items()}

    def locate(self, row: int) -> tuple[int, int]:
        """Give the shard of a row in stored order, and its number there."""
        shard = int(np.searchsorted(self._row_ptr, row, side="right")) - 1
        return shard, row - int(self._row_ptr[shard])

    def set_epoch(self, epoch: int) -> None:
        """Go to another epoch: another order of the same rows, and other masks.

        Raises:
            ConfigError: the epoch can neither be drawn nor does it stand on disk.
        """
        sound = _sound_epoch(epoch)
        written = 0 if self._drawn is None else self._drawn.epochs
        if self._traits.beyond and epoch >= written:
            known = f"{written} epoch stands" if written == 1 else f"{written} epochs stand"
            raise ConfigError(
                f"epoch = {epoch}: {self.objective.kind} cannot be drawn when it is read, for"
                f" {self._traits.beyond}; {known} on disk; train on those, or set"
                f" materialized_epochs = {epoch + 1} and run again"
            )
        self.epoch = sound

    def batch(self, positions: NDArray[np.int64]) -> Batch:
        """Give the rows at some positions of the epoch, each column (N, L) int64."""
        rows = np.asarray(positions, np.int64)
        outside = rows[(rows < 0) | (rows >= len(self))]
        if len(outside):
            raise IndexError(f"row {outside[0]} of {len(self)}")
        if self._shuffle:
            seed = self.manifest.seed
            rows = shuffled(rows, len(self), seed=seed, epoch=self.epoch)
        shards = np.searchsorted(self._row_ptr, rows, side="right") - 1
        batch: Batch = {}
        for shard in np.unique(shards):
            chosen = np.flatnonzero(shards == shard)
            part = self.read(int(shard), rows[chosen] - self._row_ptr[shard])
            for name, column in part.items():
                shape = (len(rows), *column.shape[1:])
                batch.setdefault(name, np.empty(shape, np.int64))[chosen] = column
        return batch

    def stored_rows(self, number: int, rows: NDArray[np.int64]) -> StoredRows:
        """Give rows of a shard as they are stored, with what keys their draws."""
        shard = self._map(number)
        row_ptr, length = shard.segments["row_ptr"], shard.segments["length"]
        first, counts = row_ptr[rows], row_ptr[rows + 1] - row_ptr[rows]
        ptr = np.concatenate([[0], np.cumsum(counts)])
        within = np.arange(ptr[-1]) - np.repeat(ptr[:-1], counts)
        components, room, prompt = map(shard.columns.get, (OBJECTIVE_ID, ROOM, PROMPT))
        return StoredRows(
            shard.columns["input_ids"][rows],
            ptr,
            length[np.repeat(first, counts) + within].astype(np.int64),
            rows,
            seed=self.manifest.seed,
            epoch=self.epoch,
            shard=shard_field(self.manifest.split, number),
            components=None if components is None else components[rows].astype(np.uint8),
            unigram=shard.unigram,
            room=None if room is None else room[rows].astype(np.int32),
            prompt=None if prompt is None else prompt[rows].astype(np.int32),
        )

    def whole_shard(self, number: int, *, sources: tuple[str, ...] | None = None) -> WholeShard:
        """Give a shard for objectives that look beyond a row, with its documents' sources if given."""
        shard = self._map(number)
        documents = self.manifest.shards[number].documents
        ids = shard.columns["input_ids"]
        return WholeShard(ids, shard.segments, documents, sources, shard.sentences)

    def draw(self, number: int, rows: NDArray[np.int64]) -> Columns:
        """Give what the objective makes of rows of a shard, in the dtypes of the disk."""
        stored = self.stored_rows(number, rows)
        return draw_columns(stored, self.objective, self.vocabulary, self.widths)

    def read(self, number: int, rows: NDArray[np.int64]) -> Columns:
        """Give rows of a shard as a trainer gets them, but in the dtypes of the disk."""
        if self._drawn is not None and self.epoch < self._drawn.epochs:
            drawn = self._drawn.read(self.epoch, number, rows)
        else:
            drawn = self.draw(number, rows)
        if self._traits.label_convention in (TARGETS, PAIRS) or "segment_ids" in drawn:
            return drawn
        stored = self.stored_rows(number, rows)
        segment_ids, position_ids = dense_segments(
            stored.segment_ptr, stored.segment_length, row_length=self.widths.stored
        )
        return {**drawn, "position_ids": position_ids, "segment_ids": segment_ids}

    def _map(self, number: int) -> MappedShard:
        """Give a shard's arrays, mapping it if need be and unmapping the one least recently used."""
        if number in self._mapped:
            self._mapped.move_to_end(number)
            return self._mapped[number]
        shard = self.manifest.shards[number]
        if self._check == "xxh3" and number not in self._checked:
            check_digests(self.folder / shard.path, shard.files)
            self._checked.add(number)
        self._mapped[number] = map_shard(self.folder, shard, self.manifest)
        if len(self._mapped) > MAX_OPEN_SHARDS:
            self._mapped.popitem(last=False)
        return self._mapped[number]


def _sound_epoch(epoch: int) -> int:
    if not 0 <= epoch < MAX_EPOCHS:
        raise ConfigError(f"epoch = {epoch}: must be at least 0 and below {MAX_EPOCHS:,}")
    return epoch


def open_dataset(
    path: str | Path,
    *,
    split: str = "train",
    epoch: int = 0,
    shuffle: bool = True,
    check: Literal["xxh3", "size"] = "xxh3",
) -> ShardDataset:
    """Open one split of a dataset, the folder `DIR/datasets/NAME`.

    Raises:
        ConfigError: no such split.
        FormatError: the dataset is not whole, was changed, or says what this reader cannot do.
    """
    folder = Path(path) / split
    if not folder.is_dir():
        found = sorted(p.parent.name for p in Path(path).glob("*/dataset.json"))
        what = f"splits here: {', '.join(found)}" if found else "no dataset here"
        raise ConfigError(f"{path}: no split {split!r}; {what}")
    manifest = read_manifest(folder)
    drawn = read_drawn(folder, dataset=manifest.fingerprint)
    dataset = ShardDataset(folder, manifest, epoch=epoch, shuffle=shuffle, check=check, drawn=drawn)
    dataset.set_epoch(epoch)
    convention = traits_of(dataset.objective).label_convention
    if manifest.label_convention != convention:
        raise FormatError(
            f"{folder}: label_convention {manifest.label_convention!r}, but the labels of"
            f" {dataset.objective.kind} are {convention!r}"
        )
    check_digests(folder, manifest.tables)
    for shard in manifest.shards:
        check_sizes(folder / shard.path, shard.files)
    for part in () if drawn is None else itertools.chain.from_iterable(drawn.shards):
        check_sizes(folder / part.path, part.files)
    return dataset


def vocabulary_for(folder: Path, manifest: Manifest) -> Vocabulary:
    """Give the tokenizer's ids as a split's manifest and the tables beside it describe them."""
    starts_word = None
    if WORD_STARTS in manifest.tables:
        path = folder / WORD_STARTS
        starts_word = open_array(path, shape=(manifest.vocab_size,), dtype="|b1").astype(np.bool_)
    return vocabulary_of(manifest.vocab_size, manifest.special_ids, starts_word)


def map_shard(folder: Path, shard: Shard, manifest: Manifest) -> MappedShard:
    """Map the arrays of a shard, their headers checked against the manifest."""
    path = folder / shard.path
    columns = {
        name: open_array(path / f"{name}.npy", shape=(shard.rows, *column.shape), dtype=column.dtype)
        for name, column in manifest.columns.items()
    }
    lengths = dict.fromkeys(SEGMENT_COLUMNS, shard.segments) | {"row_ptr": shard.rows + 1}
    segments = {
        name: open_array(path / "segments" / f"{name}.npy", shape=(lengths[name],), dtype=dtype)
        for name, dtype in SEGMENT_COLUMNS.items()
    }
    unigram = None
    if UNIGRAM in shard.files:
        unigram = open_array(path / UNIGRAM, shape=(manifest.vocab_size,), dtype="<i8")
    sentences = None
    if traits_of(read_objective(manifest.objective)).sentences:
        parts = {"ptr": shard.documents + 1, "ends": None}
        ptr, ends = (
            open_array(path / SENTENCES / f"{name}.npy", shape=None if n is None else (n,), dtype="<i8")
            for name, n in parts.items()
        )
        sentences = Ragged(ptr.astype(np.int64), ends.astype(np.int64))
    return MappedShard(columns, segments, unigram, sentences)  # type: ignore[arg-type]
