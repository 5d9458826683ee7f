"""Shards mapped into memory, and which of them the rows of a batch stand in."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.objectives.table import read_objective, traits_of
from stages.ragged import Ragged
from stages.store.arrays import open_array
from stages.store.manifest import SEGMENT_COLUMNS, SENTENCES, UNIGRAM, Manifest, Shard


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

    @property
    def packed(self) -> tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.integer]]:
        """Rows and where documents lie in them: input_ids, row_ptr, length."""
        return self.columns["input_ids"], self.segments["row_ptr"], self.segments["length"]


class Part(NamedTuple):
    """The rows of a batch that stand in one shard."""

    shard: int
    places: NDArray[np.int64]
    """(n,): where they stand in the batch."""
    rows: NDArray[np.int64]
    """(n,): their numbers in the shard."""


def map_shard(
    folder: Path, shard: Shard, manifest: Manifest, *, segments: Collection[str] = SEGMENT_COLUMNS
) -> MappedShard:
    """Map the arrays of a shard, their headers checked against the manifest."""
    path = folder / shard.path
    columns = {
        name: open_array(path / f"{name}.npy", shape=(shard.rows, *column.shape), dtype=column.dtype)
        for name, column in manifest.columns.items()
    }
    lengths = dict.fromkeys(SEGMENT_COLUMNS, shard.segments) | {"row_ptr": shard.rows + 1}
    mapped = {
        name: open_array(
            path / "segments" / f"{name}.npy", shape=(lengths[name],), dtype=SEGMENT_COLUMNS[name]
        )
        for name in segments
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
    return MappedShard(columns, mapped, unigram, sentences)  # type: ignore[arg-type]


def by_shard(shards: NDArray[np.int64], rows: NDArray[np.int64]) -> list[Part]:
    """Give the parts of a batch, whose rows stand in these shards at these numbers: (N,) each."""
    order = shards.argsort(kind="stable")
    ordered, rows = shards[order], rows[order]
    ends = [*((ordered[1:] != ordered[:-1]).nonzero()[0] + 1).tolist(), len(shards)]
    begins = [0, *ends[:-1]] if len(shards) else []
    return [
        Part(int(ordered[begin]), order[begin:end], rows[begin:end])
        for begin, end in zip(begins, ends, strict=False)
    ]


def num_rows(parts: Sequence[Part]) -> int:
    """Give how many rows a batch of these parts has."""
    return sum(len(part.rows) for part in parts)
