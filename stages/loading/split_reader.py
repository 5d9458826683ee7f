"""The stored rows of one split, shard by shard, and what its objective makes of them.

Knows neither order nor columns that are wanted: a trainer's dataset adds these; verification and exports
read through this alone. Needs numpy, xxhash and pydantic; no Ray, no pyarrow, no torch.

Segments as trainers want them: which document each position belongs to, and where it stands in it.

row            A A E B E . .
segment_ids    0 0 0 1 1 -1 -1
position_ids   0 1 2 0 1 0 0
cu_seqlens     0 3 5
"""

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from stages.loading.arguments import one_of
from stages.loading.drawn import DrawnEpochs, KeptFolders, check_digests, check_sizes, kept_folders
from stages.loading.lru_cache import LruCache, affordable
from stages.loading.mapped import (
    SPLITTING,
    MappedShard,
    ShardRows,
    check_segments,
    gather_rows,
    map_shard,
    row_files,
    vocabulary_for,
)
from stages.objectives.drawing import draw_columns
from stages.objectives.rows import Columns, StoredRows
from stages.objectives.table import read_objective, resolve
from stages.objectives.traits import PAIRS, TARGETS
from stages.objectives.whole_shard import WholeShard
from stages.seeding import shard_field
from stages.store.drawn import DrawnManifest
from stages.store.manifest import Manifest, Shard
from stages.stores.cache import NodeCache
from stages.stores.mounts import files_at, stored_at
from stages.stores.pins import Hold


def dense_segments(
    segment_ptr: NDArray[np.int64], segment_length: NDArray[np.int64], *, row_length: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (segment_ids, position_ids), each (N, L) int64; -1 and 0 on padding.

    Args:
        segment_ptr: (N + 1,) the segments of row n are segment_ptr[n] .. segment_ptr[n + 1].
        segment_length: (S,) tokens of each; a row's segments follow each other from position 0.
        row_length: L.
    """
    rows, segments = len(segment_ptr) - 1, len(segment_length)
    row = np.repeat(np.arange(rows), segment_ptr[1:] - segment_ptr[:-1])
    ends = np.zeros(segments + 1, np.int64)
    np.cumsum(segment_length, out=ends[1:])
    row_begin = ends[segment_ptr]
    # each segment is taken to reach to the next one, over the padding, which is overwritten below
    begin = np.zeros(segments + 2, np.int64)
    begin[1:-1] = ends[:-1] + (np.arange(rows) * row_length - row_begin[:-1])[row]
    begin[-1] = rows * row_length
    reach = begin[1:] - begin[:-1]
    number = np.zeros(segments + 1, np.int64)
    number[1:] = np.arange(segments) - segment_ptr[row]
    segment_ids = np.repeat(number, reach).reshape(rows, row_length)
    position_ids = np.repeat(begin[:-1], reach).reshape(rows, row_length)
    np.subtract(np.arange(begin[-1]).reshape(rows, row_length), position_ids, out=position_ids)
    filled = row_begin[1:] - row_begin[:-1]
    for padded in np.flatnonzero(filled < row_length).tolist():
        segment_ids[padded, filled[padded] :] = -1
        position_ids[padded, filled[padded] :] = 0
    return segment_ids, position_ids


MAX_OPEN_SHARDS = 128
"""Shards mapped at a time; each takes three file descriptors, of which many machines allow 1,024, and of
objectives that need more beside the rows up to six. Fewer where `ulimit -n` is low."""
_FILES_OF_SHARD = 6

FileCheck = Literal["xxh3", "size"]


class SplitReader:
    """One split, its shards mapped as they are touched.

    Args:
        folder: the split's folder. A relative path is made absolute here, without following links, so
            that the process may change its folder later.
        manifest: its manifest.
        check: "xxh3" hashes each file when its shard is first touched; "size" trusts it if it is as
            long as it must be.
        drawn: the epochs that stand on disk; all others are drawn, and so are these without it.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        *,
        check: FileCheck = "xxh3",
        drawn: DrawnManifest | None = None,
    ) -> None:
        self._given = folder
        self.folder = folder.absolute()
        self.manifest = manifest
        known = resolve(read_objective(manifest.objective), manifest.seq_len)
        self.objective, self.traits, self.widths = known.config, known.traits, known.widths
        self._stored = stored_at(self.folder)
        self._most_shards = MAX_OPEN_SHARDS
        if self._stored is not None:  # the tables beside the manifest
            hold = self._stored.bring_files(files_at(self._stored, self.folder, manifest.tables))
            weakref.finalize(self, hold.end)
        self.vocabulary = vocabulary_for(folder, manifest)
        of_shards = [shard.rows for shard in manifest.shards]
        self.first_rows: NDArray[np.int64] = np.cumsum([0, *of_shards])
        """The number of each shard's first row in stored order, and that of all rows: (shards + 1,)."""
        self._check = one_of("check", check, get_args(FileCheck))
        self._drawn = None
        if drawn is not None:
            self._drawn = DrawnEpochs(
                self.folder, drawn, rows=of_shards, check=check == "xxh3", stored=self._stored
            )
        self._part = 0
        self._mapped: LruCache[tuple[int, int], MappedShard] = LruCache(
            affordable(MAX_OPEN_SHARDS, files=_FILES_OF_SHARD)
        )
        self._folders = kept_folders()
        self.keep_in(self.kept, 0)
        self._checked: set[int] = set()

    def __setstate__(self, state: dict[str, object]) -> None:
        """Take what a copy is made of; of a moved folder, look where the relative path leads now."""
        self.__dict__.update(state)
        here = self._given.absolute()
        if not self.folder.is_dir() and here.is_dir():
            self.folder = here
            self._checked = set()  # other files may be there
            if self._drawn is not None:
                self._drawn.move(here)

    @property
    def epochs_on_disk(self) -> int:
        """How many epochs stand there, from the first on."""
        return 0 if self._drawn is None else self._drawn.epochs

    @property
    def adds_segments(self) -> bool:
        """Whether rows get `segment_ids` and `position_ids` unless the objective makes its own."""
        return self.traits.label_convention not in (TARGETS, PAIRS)

    def stored(self, number: int, rows: NDArray[np.int64], epoch: int) -> StoredRows:
        """Return rows of a shard as they are stored, with what keys their draws in an epoch."""
        parts = [ShardRows(number, np.arange(len(rows)), rows)]
        return self._keyed(self.gathered(parts, epoch), number)

    def gathered(self, parts: Sequence[ShardRows], epoch: int) -> StoredRows:
        """Return rows of any shards as they are stored; what is a shard's own is missing."""
        return gather_rows(parts, self.mapped, self.manifest, epoch=epoch)

    def whole_shard(self, number: int, *, sources: tuple[str, ...] | None = None) -> WholeShard:
        """Return a shard for objectives that look beyond a row, with its documents' sources if given."""
        self.mapped(number)
        if self._stored is not None:
            listed = self.manifest.shards[number]
            files = files_at(self._stored, self.folder / listed.path, listed.files)
            hold = self._stored.bring_files(files)
        shard = map_shard(self.folder, self.manifest.shards[number], self.manifest)
        documents = self.manifest.shards[number].documents
        ids = shard.columns["input_ids"]
        if self._stored is not None:
            weakref.finalize(shard, hold.end)
        return WholeShard(ids, shard.own_segments, documents, sources, shard.sentences)

    def draw(self, number: int, rows: NDArray[np.int64], epoch: int) -> Columns:
        """Return what the objective makes of rows of a shard, in the dtypes of the disk."""
        return self.drawn_of(self.stored(number, rows, epoch))

    def drawn_of(self, stored: StoredRows) -> Columns:
        """Return what the objective makes of stored rows."""
        return draw_columns(stored, self.objective, self.vocabulary, self.widths)

    def read(self, number: int, rows: NDArray[np.int64], epoch: int) -> Columns:
        """Return rows of a shard as a trainer gets them, but in the dtypes of the disk."""
        if self._drawn is not None and epoch < self._drawn.epochs:
            drawn = self._drawn.read(epoch, number, rows)
        else:
            drawn = self.draw(number, rows, epoch)
        if not self.adds_segments or "segment_ids" in drawn:
            return drawn
        stored = self.stored(number, rows, epoch)
        segment_ids, position_ids = dense_segments(
            stored.segment_ptr, stored.segment_length, row_length=self.widths.stored
        )
        return {**drawn, "position_ids": position_ids, "segment_ids": segment_ids}

    def drawn_parts(self, parts: Sequence[ShardRows], epoch: int) -> Iterator[tuple[ShardRows, Columns]]:
        """Yield the columns of each shard's part of a batch: from the disk, or drawn of stored rows."""
        if self._drawn is not None and epoch < self._drawn.epochs:
            for part in parts:
                yield part, self._drawn.read(epoch, part.shard, part.rows)
            return
        stored = self.gathered(parts, epoch)
        for part in parts:
            some = stored if len(parts) == 1 else stored.take(part.places)
            yield part, self.drawn_of(self._keyed(some, part.shard))

    def mapped(self, number: int) -> MappedShard:
        """Return a shard's arrays, mapping it if need be and unmapping the one least recently used."""
        return self._mapped.get((self._part, number), self._newly_mapped)

    @property
    def is_stored(self) -> bool:
        """Whether the split lies in a store, from which files come when they are asked for."""
        return self._stored is not None

    @property
    def cache(self) -> NodeCache | None:
        """Of this machine, if the split lies in a store."""
        return None if self._stored is None else self._stored.cache

    @property
    def place(self) -> str:
        """The folder of the dataset, or its URL, for messages."""
        if self._stored is None:
            return str(self.folder.parent)
        within = self.folder.parent.relative_to(self._stored.root).as_posix()
        return f"{self._stored.store.place}/{within}".removesuffix("/.")

    @property
    def shard_bytes(self) -> list[int]:
        """Bytes of each shard: of its rows, and of the epoch on disk that has most of it."""
        drawn = [0] * len(self.manifest.shards) if self._drawn is None else self._drawn.shard_bytes
        rows = (sum(file.bytes for file in row_files(one).values()) for one in self.manifest.shards)
        return [sum(sizes) for sizes in zip(rows, drawn, strict=True)]

    @property
    def table_bytes(self) -> int:
        """Bytes of the tables beside the manifest."""
        return sum(file.bytes for file in self.manifest.tables.values())

    def hold_shards(self, shards: int) -> None:
        """Map at most so many shards at a time, and folders of epochs on disk."""
        self._most_shards = shards
        self._mapped.bound = max(1, min(self._mapped.bound, shards))
        if self._drawn is not None:
            self._drawn.hold_folders(shards)

    @property
    def kept(self) -> tuple[LruCache[tuple[int, int], MappedShard], KeptFolders]:
        """What is mapped: shards, and folders of epochs on disk."""
        return self._mapped, self._folders

    def keep_in(
        self, kept: tuple[LruCache[tuple[int, int], MappedShard], KeptFolders], part: int
    ) -> None:
        """Keep what is mapped among that of other readers, so that one bound holds for all.

        Args:
            kept: of another reader.
            part: the number of this one among them.
        """
        self._part, (self._mapped, self._folders) = part, kept
        if self._drawn is not None:
            self._drawn.keep_in(self._folders, part)

    def share_descriptors(self, datasets: int) -> None:
        """Map so many times fewer files at a time, for as many datasets are read in this process."""
        bound = affordable(MAX_OPEN_SHARDS, files=_FILES_OF_SHARD) // datasets
        self._mapped.bound = max(1, min(bound, self._most_shards))
        if self._drawn is not None:
            self._drawn.share_descriptors(datasets)

    def release(self) -> None:
        """Unmap all files; they are mapped again when rows are read."""
        self._mapped.clear()
        if self._drawn is not None:
            self._drawn.release()

    def _keyed(self, stored: StoredRows, number: int) -> StoredRows:
        """Return stored rows of one shard with what of it their draws depend on."""
        field, unigram = shard_field(self.manifest.split, number), self.mapped(number).unigram
        return replace(stored, shard=field, unigram=unigram)

    def _newly_mapped(self, key: tuple[int, int]) -> MappedShard:
        _, number = key
        shard = self.manifest.shards[number]
        first = number not in self._checked
        hold = self._brought(shard, first=first)
        if first and hold is None:
            check = check_digests if self._check == "xxh3" else check_sizes
            check(self.folder / shard.path, shard.files)
        mapped = map_shard(self.folder, shard, self.manifest, segments=SPLITTING)
        if first:
            check_segments(mapped, self.folder / shard.path)
            self._checked.add(number)
        if hold is not None:
            weakref.finalize(mapped, hold.end)
        return mapped

    def _brought(self, shard: Shard, *, first: bool) -> Hold | None:
        """Bring the files of a shard's rows, if they lie in a store.

        What the cache has is hashed once, as the files of a folder are, and brought again if it was
        changed there.
        """
        if self._stored is None:
            return None
        place, own = self.folder / shard.path, row_files(shard)
        return self._stored.bring_sound(place, own, check=first and self._check == "xxh3")
