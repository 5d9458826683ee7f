"""What is exported: one split of a dataset, as whole documents or as the rows that a trainer gets.

A format takes either. Documents come shard by shard, in the order of the shard's documents, each put
together again from its segments and closed by its EOS: any dataset has them, whatever its objective; the
frames of rows are left out. Rows come shard by shard in stored order, with the columns of
`stages.export.columns`. Both come in blocks, so memory follows the block and the longest
document, not the shard.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stages.errors import FormatError
from stages.export.columns import TOKENS, ColumnType, available_columns, exported_column
from stages.loading.dataset import open_dataset
from stages.loading.split_reader import SplitReader
from stages.objectives.rows import Columns
from stages.ragged import Ragged, batches
from stages.store.drawn import read_drawn
from stages.store.manifest import LOSS_MASK, Manifest
from stages.store.ranges import copy_ranges
from stages.tokenizer.framing import BEGIN

BLOCK_TOKENS = 1 << 20
"""Tokens of documents, or of rows, that are held together; a longer document is held whole."""


@dataclass(frozen=True, eq=False)
class StoredDocuments:
    """Some documents of a shard, one after the other.

    Args:
        tokens: (T,) their ids end to end, the last of each its EOS.
        lengths: (N,) int64, tokens of each.
        loss_mask: (T,) uint8, 1 where a token has a loss, else 0; None if all have one.
    """

    tokens: NDArray[np.integer]
    lengths: NDArray[np.int64]
    loss_mask: NDArray[np.uint8] | None = None


class ExportSource:
    """One split of a dataset, at one epoch.

    Args:
        reader: of the split.
        epoch: of the rows. Documents are the same in all.
        drawn: fingerprint of the epochs that stand on disk, empty if they follow from the dataset.
        chosen: names of the columns of rows; None are all but `tokens`.
    """

    def __init__(
        self,
        reader: SplitReader,
        epoch: int,
        drawn: str = "",
        chosen: tuple[str, ...] | None = None,
    ) -> None:
        self.reader = reader
        self.epoch = epoch
        self.drawn = drawn
        self._chosen = chosen

    def choose(self, names: Iterable[str]) -> "ExportSource":
        """Return the same split with these columns of its rows.

        Args:
            names: each one of `available`.
        """
        return ExportSource(self.reader, self.epoch, self.drawn, tuple(sorted(set(names))))

    @property
    def manifest(self) -> Manifest:
        """The split's manifest: name, split, vocab_size, special_ids, seq_len, totals, shards."""
        return self.reader.manifest

    @property
    def split(self) -> str:
        """Its name, `train` or `validation`."""
        return self.manifest.split

    @property
    def num_shards(self) -> int:
        """Shards, numbered from 0."""
        return len(self.manifest.shards)

    @property
    def id_dtype(self) -> np.dtype[np.generic]:
        """The dtype of ids on disk: <u2, or <i4 if the vocabulary is larger."""
        return np.dtype(self.manifest.columns["input_ids"].dtype)

    @property
    def eos(self) -> int:
        """The id that closes each document."""
        return self.manifest.special_ids["eos"]

    @property
    def begin(self) -> int | None:
        """The id that begins each document, if one does."""
        return self.manifest.special_ids.get(BEGIN)

    @property
    def frame(self) -> str:
        """Say what stands around each document, as a sentence without its full stop."""
        begins = "" if self.begin is None else f"begins with the id {self.begin} and "
        return f"A document {begins}ends in the id {self.eos}"

    @property
    def tokenizer(self) -> str:
        """The name of the tokenizer's file, a copy of which stands beside the export."""
        return Path(self.manifest.tokenizer.file).name

    def lengths(self, shard: int) -> NDArray[np.int64]:
        """Return the tokens of each document of a shard, its EOS included: (D,)."""
        return self.reader.whole_shard(shard).lengths

    @property
    def has_sentences(self) -> bool:
        """Whether the dataset says where sentences end."""
        return self.reader.traits.sentences

    @property
    def has_loss_mask(self) -> bool:
        """Whether the dataset says which tokens have a loss."""
        return self.reader.traits.loss_mask

    def sentences(self, shard: int) -> Ragged | None:
        """Return after how many of its tokens each sentence of each document ends, if that is known."""
        return self.reader.whole_shard(shard).sentences

    def blocks(self, shard: int) -> Iterator[StoredDocuments]:
        """Yield all documents of a shard in their order, about `BLOCK_TOKENS` at a time.

        Raises:
            FormatError: a document whose tokens are not all in the rows, or that has no EOS at its end.
        """
        whole = self.reader.whole_shard(shard)
        segments = {name: np.asarray(part, np.int64) for name, part in whole.segments.items()}
        order = np.lexsort((segments["doc_offset"], segments["doc"]))
        length = segments["length"][order]
        begins = (whole.segment_rows * whole.input_ids.shape[1] + segments["start"])[order]
        places = np.cumsum(length) - length
        self._require_whole(shard, segments["doc"][order], segments["doc_offset"][order], places)
        ends = np.cumsum(whole.lengths)
        losses = self.reader.mapped(shard).columns.get(LOSS_MASK)
        for first, last in batches(whole.lengths, BLOCK_TOKENS):
            start = int(ends[first - 1]) if first else 0
            low, high = np.searchsorted(places, [start, int(ends[last - 1])])
            size = int(ends[last - 1]) - start
            where = (begins[low:high], places[low:high] - start, length[low:high])
            tokens = _gathered(whole.input_ids, size, *where)
            lengths = np.diff(ends[first:last], prepend=start)
            self._require_eos(shard, tokens, lengths, first)
            mask = None if losses is None else _gathered(losses, size, *where).astype(np.uint8)
            yield StoredDocuments(tokens, lengths, mask)

    def documents(self, shard: int) -> Iterator[NDArray[np.integer]]:
        """Yield each document of a shard in its order: its ids, the last of them its EOS."""
        for block in self.blocks(shard):
            yield from np.split(block.tokens, np.cumsum(block.lengths)[:-1])

    def rows(self, shard: int, first: int = 0, last: int | None = None) -> Iterator[Columns]:
        """Yield the rows [first, last) of a shard in stored order, some at a time.

        They have the columns of `columns`, each (N, ...).

        Raises:
            FormatError: a value that the column's dtype does not hold.
        """
        end = self.manifest.shards[shard].rows if last is None else last
        width = sum(int(np.prod(column.shape, dtype=int)) for column in self.columns.values())
        step = max(1, BLOCK_TOKENS // max(1, width))
        for start in range(first, end, step):
            columns = self.reader.read(shard, np.arange(start, min(start + step, end)), self.epoch)
            yield {
                name: self._on_disk(
                    exported_column(name, columns), kind.dtype, f"{name} of shard {shard}"
                )
                for name, kind in self.columns.items()
            }

    @cached_property
    def columns(self) -> dict[str, ColumnType]:
        """The columns of the rows by name, sorted; a split without a row has none."""
        names = self.available.keys() - {TOKENS} if self._chosen is None else self._chosen
        return {name: kind for name, kind in self.available.items() if name in names}

    @cached_property
    def available(self) -> dict[str, ColumnType]:
        """All columns that the rows can have, by name, sorted; a split without a row has none."""
        return available_columns(self._native, self.manifest)

    @property
    def _native(self) -> Columns:
        """What the loader gives of a row; nothing of a split without one."""
        for shard, entry in enumerate(self.manifest.shards):
            if entry.rows:
                return self.reader.read(shard, np.arange(1), self.epoch)
        return {}

    def _on_disk(self, column: NDArray[np.integer], dtype: str, what: str) -> NDArray[np.integer]:
        """Return a column in its dtype on disk, of one run of memory."""
        found = np.ascontiguousarray(column, dtype)
        if not np.can_cast(column.dtype, dtype) and not np.array_equal(found, column):
            raise FormatError(
                f"{self.reader.folder}: {what} has values that {np.dtype(dtype).name} does not hold;"
                " `shardmill verify` names all that is wrong"
            )
        return found

    def _require_whole(
        self,
        shard: int,
        doc: NDArray[np.int64],
        offset: NDArray[np.int64],
        places: NDArray[np.int64],
    ) -> None:
        """Refuse documents of which the rows lack a token, or have one twice."""
        first = np.concatenate([[True], doc[1:] != doc[:-1]])[: len(doc)]
        begin = np.maximum.accumulate(np.where(first, places, 0)) if len(doc) else places
        wrong = np.flatnonzero(places - begin != offset)
        if len(wrong):
            raise FormatError(
                f"{self.place(shard)}: document {doc[wrong[0]]} is not whole in the rows, at its token"
                f" {offset[wrong[0]]}; `shardmill verify` names all that is wrong"
            )

    def _require_eos(
        self, shard: int, tokens: NDArray[np.integer], lengths: NDArray[np.int64], first: int
    ) -> None:
        """Refuse documents that are empty or end in anything but EOS: trainers cut the stream there."""
        closed = lengths > 0
        if closed.all():  # else there may be no token to look at
            closed = tokens[np.cumsum(lengths) - 1] == self.eos
        if not closed.all():
            raise FormatError(
                f"{self.place(shard)}: document {first + int(np.argmin(closed))} does not end in EOS"
                f" (id {self.eos}); `shardmill verify` names all that is wrong"
            )

    def place(self, shard: int) -> Path:
        """Return the folder of a shard, for messages."""
        return self.reader.folder / self.manifest.shards[shard].path


def open_source(path: Path, *, split: str, epoch: int = 0) -> ExportSource:
    """Open one split of a dataset, the folder `DIR/datasets/NAME`, to export it.

    Raises:
        ConfigError: no such split, or an epoch that can neither be drawn nor stands on disk.
        FormatError: the dataset is not whole, or was changed.
    """
    dataset = open_dataset(path, split=split, epoch=epoch, shuffle=False)
    drawn = read_drawn(dataset.folder, dataset=dataset.manifest.fingerprint)
    follow = drawn is None or not (drawn.generator or dataset.reader.traits.written_for)
    return ExportSource(dataset.reader, epoch, "" if drawn is None or follow else drawn.fingerprint)


def _gathered(
    rows: NDArray[np.integer],
    size: int,
    begins: NDArray[np.int64],
    places: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> NDArray[np.integer]:
    """Return runs of rows that are laid end to end, each at its place: (size,)."""
    found = np.empty(size, rows.dtype)
    copy_ranges(np.asarray(rows).reshape(-1), found, begins, places, lengths)
    return found
