"""The folder of a shard: the one place that knows which file holds what of its rows.

    merged group, rows laid out  ->  arrays by row, segments, ids through a mapped file, documents

Of the tokens nothing is held: they go from the files of the units to their rows, and so do the marks of
those that have a loss.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.steps.shard.merge import MergedGroup
from pipeline.steps.shard.rows import LaidRows
from pipeline.steps.units import from_hex
from stages.ledger import IdSum
from stages.objectives.traits import Traits
from stages.packing.sections import learned_ranges
from stages.ragged import Ragged, batches, ranges_of
from stages.store.arrays import id_dtype, write_array
from stages.store.manifest import (
    ADDED_END,
    LOSS_MASK,
    SEGMENT_COLUMNS,
    SEGMENT_PROMPT,
    SENTENCES,
    UNIGRAM,
)
from stages.store.mapped import mapped_npy
from stages.store.token_store import write_tables

_TOGETHER = 1 << 20
"""Tokens that are counted, or marked, together."""


@dataclass(frozen=True)
class ShardFolder:
    """Writes the files of one shard."""

    path: Path
    vocab_size: int
    special: Mapping[str, int]
    """Ids by name."""
    frame: Mapping[str, int] | None
    """The ids around each row, by side."""

    def write(self, group: MergedGroup, rows: LaidRows, traits: Traits, scratch: Path) -> IdSum:
        """Write all that a shard has of an objective with these traits; return the documents listed.

        Args:
            group: the documents.
            rows: in which they lie.
            traits: say what else drawing needs to know of them.
            scratch: a folder for files that are gone before.
        """
        for name, column in rows.columns.items():
            self._put(f"{name}.npy", column)
        for name, dtype in SEGMENT_COLUMNS.items():
            self._put(f"segments/{name}.npy", getattr(rows.layout, name).astype(dtype))
        sections = group.sections
        if traits.loss_mask:
            assert sections is not None
            assert group.learned is not None
            self._put_losses(rows, sections, group.learned)
        if traits.segment_prompts:
            assert sections is not None
            self._put(SEGMENT_PROMPT, rows.prompts(sections).astype("<i4"))
        self._put_ids(group, rows)
        if traits.sentences:
            assert group.sentences is not None
            self._put(f"{SENTENCES}/ptr.npy", group.sentences.ptr.astype("<i8"))
            self._put(f"{SENTENCES}/ends.npy", group.sentences.values.astype("<i8"))
        if traits.unigram:
            self._put(UNIGRAM, self._counted(group))
        return self._put_documents(group, scratch)

    def _put(self, name: str, array: NDArray[np.generic]) -> None:
        write_array(self.path / name, array)

    def _put_losses(self, rows: LaidRows, sections: Ragged, learned: NDArray[np.bool_]) -> None:
        """Write 1 for each token with a loss, 0 for all else: (rows, length) |u1."""
        own = rows.own
        places, counts = learned_ranges(own, sections, learned)
        mask = mapped_npy(self.path / f"{LOSS_MASK}.npy", "|u1", (own.num_rows, own.row_length))
        flat = mask.reshape(-1)
        for first, last in batches(counts, _TOGETHER):
            flat[ranges_of(places[first:last], counts[first:last])] = 1

    def _put_ids(self, group: MergedGroup, rows: LaidRows) -> None:
        """Write the rows: documents, what frames them, and padding where nothing lies."""
        own = rows.own
        shape = own.num_rows, own.row_length
        ids: NDArray[Any] = mapped_npy(self.path / "input_ids.npy", id_dtype(self.vocab_size), shape)
        ids[:] = self.special["pad"]
        group.copy(
            ids.reshape(-1),
            own.doc,
            offsets=own.doc_offset,
            places=own.segment_rows() * own.row_length + own.start,
            lengths=own.length,
        )
        if self.frame is None or not own.num_rows:
            return
        if "begin" in self.frame:
            ids[:, 0] = self.frame["begin"]
        layout = rows.layout
        last = layout.row_ptr[1:] - 1
        places = layout.start[last] + layout.length[last] - 1
        cut = np.flatnonzero(rows.columns[ADDED_END])
        ids[cut, places[cut]] = self.frame["end"]

    def _counted(self, group: MergedGroup) -> NDArray[np.int64]:
        """Count the shard's ordinary tokens up by id: (vocab_size,) int64."""
        counts = np.zeros(self.vocab_size, np.int64)
        for first, last in batches(group.lengths, _TOGETHER):
            counts += np.bincount(group.tokens(first, last), minlength=self.vocab_size)
        counts[list(self.special.values())] = 0
        return np.cumsum(counts)

    def _put_documents(self, group: MergedGroup, scratch: Path) -> IdSum:
        listed = IdSum()

        def documents() -> Iterator[pa.Table]:
            for table in group.documents(scratch):
                listed.add_all(from_hex(table.column("id")), table.column("copy").to_numpy())
                yield table

        write_tables(self.path / "documents.parquet", group.schema, documents())
        return listed
