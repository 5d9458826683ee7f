"""A dataset as a trainer sees it: rows by number, shuffled by epoch, straight from the mapped files.

Needs numpy, xxhash and pydantic; no Ray, no pyarrow, no torch. Works as a map-style dataset for
torch's DataLoader, whose default collation turns the arrays into tensors.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stages.errors import ConfigError, FormatError
from stages.loading.order import shuffled
from stages.loading.segments import dense_segments
from stages.objectives.rows import StoredRows
from stages.objectives.table import TRAITS, read_objective, training_columns
from stages.objectives.vocabulary import vocabulary_of
from stages.seeding import MAX_EPOCHS, shard_field
from stages.store.arrays import open_array
from stages.store.digests import xxh3_file
from stages.store.manifest import SEGMENT_COLUMNS, Manifest, Shard, read_manifest

MAX_OPEN_SHARDS = 64
"""Shards mapped at a time; each takes six file descriptors, of which many machines allow 1,024."""

Batch = dict[str, NDArray[np.int64]]


@dataclass(frozen=True)
class MappedShard:
    """The arrays of one shard."""

    input_ids: NDArray[np.integer]
    segments: dict[str, NDArray[np.integer]]


class ShardDataset(Sequence[Batch]):
    """The rows of one split in the order of one epoch; `open_dataset` makes it.

    An item is a dict of int64 arrays (L,): input_ids; labels, -100 where there is no loss;
    position_ids, from 0 in each document; segment_ids, -1 on padding. What a masked language model is
    shown differs from epoch to epoch, and depends on nothing but the seed, the epoch and the row.

    Args:
        folder: the split's folder.
        manifest: its manifest.
        epoch: the pass over the data, which decides the order and the masks.
        shuffle: False gives the rows as they are stored.
        check: "xxh3" hashes each file when its shard is first touched; "size" trusts its header.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        *,
        epoch: int = 0,
        shuffle: bool = True,
        check: Literal["xxh3", "size"] = "xxh3",
    ) -> None:
        self.folder = folder
        self.manifest = manifest
        self.epoch = _sound_epoch(epoch)
        self._shuffle = shuffle
        self._check = check
        self.objective = read_objective(manifest.objective)
        self._vocabulary = vocabulary_of(manifest.vocab_size, manifest.special_ids)
        self._row_ptr = np.cumsum([0, *(shard.rows for shard in manifest.shards)])
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

    def set_epoch(self, epoch: int) -> None:
        """Go to another epoch: another order of the same rows, and other masks."""
        self.epoch = _sound_epoch(epoch)

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
        shape = (len(rows), self.manifest.seq_len)
        batch = {name: np.empty(shape, np.int64) for name in _COLUMNS}
        for shard in np.unique(shards):
            chosen = np.flatnonzero(shards == shard)
            part = self._read(int(shard), rows[chosen] - self._row_ptr[shard])
            for name, column in part.items():
                batch[name][chosen] = column
        return batch

    def _read(self, number: int, rows: NDArray[np.int64]) -> Batch:
        shard = self._map(number)
        segment_ids, position_ids = dense_segments(
            np.asarray(shard.segments["row_ptr"], np.int64),
            shard.segments["start"],
            shard.segments["length"],
            rows=rows,
            row_length=self.manifest.seq_len,
        )
        stored = StoredRows(
            shard.input_ids[rows].astype(np.int64),
            segment_ids,
            rows,
            seed=self.manifest.seed,
            epoch=self.epoch,
            shard=shard_field(self.manifest.split, number),
        )
        return {
            **training_columns(stored, self.objective, self._vocabulary),
            "position_ids": position_ids.astype(np.int64),
            "segment_ids": segment_ids.astype(np.int64),
        }

    def _map(self, number: int) -> MappedShard:
        """Give a shard's arrays, mapping it if need be and unmapping the one least recently used."""
        if number in self._mapped:
            self._mapped.move_to_end(number)
            return self._mapped[number]
        shard = self.manifest.shards[number]
        if self._check == "xxh3" and number not in self._checked:
            check_digests(self.folder, shard)
            self._checked.add(number)
        self._mapped[number] = map_shard(self.folder, shard, self.manifest)
        if len(self._mapped) > MAX_OPEN_SHARDS:
            self._mapped.popitem(last=False)
        return self._mapped[number]


def _sound_epoch(epoch: int) -> int:
    if not 0 <= epoch < MAX_EPOCHS:
        raise ConfigError(f"epoch = {epoch}: must be at least 0 and below {MAX_EPOCHS:,}")
    return epoch


_COLUMNS = ("input_ids", "labels", "position_ids", "segment_ids")


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
    dataset = ShardDataset(folder, manifest, epoch=epoch, shuffle=shuffle, check=check)
    kind = dataset.objective.kind
    if manifest.label_convention != TRAITS[kind].label_convention:
        raise FormatError(
            f"{folder}: label_convention {manifest.label_convention!r}, but the labels of"
            f" {kind} are {TRAITS[kind].label_convention!r}"
        )
    for shard in manifest.shards:
        _check_sizes(folder, shard)
    return dataset


def map_shard(folder: Path, shard: Shard, manifest: Manifest) -> MappedShard:
    """Map the arrays of a shard, their headers checked against the manifest."""
    path = folder / shard.path
    column = manifest.columns["input_ids"]
    input_ids = open_array(path / "input_ids.npy", shape=(shard.rows, *column.shape), dtype=column.dtype)
    lengths = dict.fromkeys(SEGMENT_COLUMNS, shard.segments) | {"row_ptr": shard.rows + 1}
    segments = {
        name: open_array(path / "segments" / f"{name}.npy", shape=(lengths[name],), dtype=dtype)
        for name, dtype in SEGMENT_COLUMNS.items()
    }
    return MappedShard(input_ids, segments)  # type: ignore[arg-type]


def check_digests(folder: Path, shard: Shard) -> None:
    """Refuse a shard whose files are not the ones its manifest names."""
    _check_sizes(folder, shard)
    for name, digest in shard.files.items():
        path = folder / shard.path / name
        if xxh3_file(path) != digest.xxh3:
            raise FormatError(f"{path}: its bytes are not those of the manifest; it was changed")


def _check_sizes(folder: Path, shard: Shard) -> None:
    for name, digest in shard.files.items():
        path = folder / shard.path / name
        size = path.stat().st_size if path.exists() else -1
        if size != digest.bytes:
            found = f"{size:,} bytes" if size >= 0 else "missing"
            raise FormatError(f"{path}: {found}, but the manifest says {digest.bytes:,} bytes")
