"""Parts of a dataset: rows of a shard as they are stored, and as a trainer gets them in each epoch."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stages.errors import ConfigError
from stages.loading.dataset import Batch, ShardDataset
from stages.objectives.rows import StoredRows, lengths_without_eos
from stages.objectives.vocabulary import Vocabulary
from stages.objectives.whole_shard import WholeShard
from stages.tokenizer.encode import Tokenizer

TOKENS = 1 << 20
"""Positions that are held at a time, in each of two epochs."""
EPOCHS = 2


@dataclass(frozen=True, eq=False)
class ShardOf:
    """One shard of a dataset, and what laws ask of all of it."""

    dataset: ShardDataset
    number: int

    @cached_property
    def whole(self) -> WholeShard:
        """Its documents."""
        return self.dataset.reader.whole_shard(self.number)

    @cached_property
    def folder(self) -> Path:
        """Where it stands."""
        return self.dataset.folder / self.dataset.manifest.shards[self.number].path

    @cached_property
    def sources(self) -> NDArray[np.object_]:
        """The source of each document: (D,)."""
        table = pq.read_table(self.folder / "documents.parquet", columns=["source"])
        return np.array(table.column("source").to_pylist(), object)

    @cached_property
    def frequencies(self) -> NDArray[np.float64]:
        """The share of each id among the shard's ordinary tokens: (V,)."""
        vocabulary, counts = self.dataset.vocabulary, np.zeros(self.dataset.vocabulary.size, np.int64)
        ids = self.whole.input_ids
        step = max(1, TOKENS // ids.shape[1])
        for begin in range(0, len(ids), step):
            counts += np.bincount(ids[begin : begin + step].ravel(), minlength=len(counts))
        counts[vocabulary.is_special] = 0
        shares: NDArray[np.float64] = counts / max(1, counts.sum())
        return shares

    @cached_property
    def components(self) -> NDArray[np.int64]:
        """The component of each of a mixture's documents, -1 of one without a row: (D,)."""
        found = np.full(self.whole.documents, -1, np.int64)
        found[self.whole.segments["doc"]] = self.component_of_segments
        return found

    @cached_property
    def component_of_segments(self) -> NDArray[np.int64]:
        """The component of the row of each segment: (S,)."""
        of_rows = np.load(self.folder / "objective_id.npy", mmap_mode="r")
        return np.asarray(of_rows[self.whole.segment_rows], np.int64)


@dataclass(frozen=True, eq=False)
class Part:
    """N rows of one shard."""

    stored: StoredRows
    shown: tuple[Batch, ...]
    """What a trainer gets in each epoch that can be opened, of the first two."""
    shard: ShardOf

    @property
    def vocabulary(self) -> Vocabulary:
        """Of the tokenizer."""
        return self.shard.dataset.vocabulary

    @cached_property
    def lengths_without_eos(self) -> NDArray[np.int64]:
        """Tokens of each row, less an EOS at its end: (N,)."""
        return lengths_without_eos(self.stored, self.vocabulary.named("eos"))

    @cached_property
    def documents(self) -> NDArray[np.int64]:
        """The document of each segment of the rows: (S,)."""
        found: NDArray[np.int64] = np.asarray(self.shard.whole.segments["doc"], np.int64)[
            self.shard.whole.segments_in(self.stored.numbers)
        ]
        return found

    def take(self, chosen: NDArray[np.int64]) -> "Part":
        """Return some of the rows."""
        shown = tuple({name: column[chosen] for name, column in batch.items()} for batch in self.shown)
        return replace(self, stored=self.stored.take(chosen), shown=shown)


def parts_of(dataset: ShardDataset, limit: int | None = None) -> Iterator[Part]:
    """Yield the rows shard by shard, all or about so many, spread evenly over each shard.

    Args:
        dataset: opened with shuffle=False.
        limit: rows at the most, but one of each shard at least.
    """
    epochs, first = _epochs(dataset), 0
    step = max(1, TOKENS // dataset.widths.stored)
    for number, shard in enumerate(dataset.manifest.shards):
        count = shard.rows
        if limit is not None and shard.rows:
            count = min(count, max(1, limit * shard.rows // len(dataset)))
        chosen = np.arange(count) * shard.rows // max(1, count)
        of = ShardOf(dataset, number)
        for begin in range(0, count, step):
            rows = chosen[begin : begin + step]
            shown = []
            for epoch in range(epochs):
                dataset.set_epoch(epoch)
                shown.append(dataset.batch(first + rows))
            yield Part(dataset.reader.stored(number, rows, dataset.epoch), tuple(shown), of)
        first += shard.rows


def _epochs(dataset: ShardDataset) -> int:
    """Return how many epochs can be opened: two, or those on disk."""
    for epoch in range(EPOCHS):
        try:
            dataset.set_epoch(epoch)
        except ConfigError:
            return epoch
    return EPOCHS


def piece_bytes(dataset: ShardDataset) -> list[bytes]:
    """Return what each id decodes to."""
    return Tokenizer.load(dataset.folder / dataset.manifest.tokenizer.file).piece_bytes()
