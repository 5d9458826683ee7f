"""Merge: one group of the token store over all units, in the order of the documents' hashes.

Ids stay where they are, in the units' mapped files; what is held is a few numbers a document.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.steps.units import Unit, fixed_bytes
from pipeline.tasks import Workspace
from stages.identity import ID_BYTES
from stages.ragged import Ragged, joined
from stages.store.ranges import copy_ranges
from stages.store.token_store import TokenUnit, read_ends


@dataclass(frozen=True)
class MergedGroup:
    """D documents of one group."""

    stores: tuple[TokenUnit, ...]
    """The units."""
    unit: NDArray[np.int64]
    """(D,) which of them holds each document."""
    begin: NDArray[np.int64]
    """(D,) where its ids begin there."""
    lengths: NDArray[np.int64]
    """(D,) its tokens, EOS included."""
    table: pa.Table
    """columns.STORED_DOCUMENTS."""
    sentences: Ragged | None = None
    """Of each document, after how many of its tokens each ends; None if nobody asks."""
    sections: Ragged | None = None
    """The same of its sections."""

    def copy(
        self,
        target: NDArray[np.integer],
        documents: NDArray[np.integer],
        *,
        offsets: NDArray[np.int64],
        places: NDArray[np.int64],
        lengths: NDArray[np.integer],
    ) -> None:
        """Copy pieces of documents to places of `target`, (T,), unit by unit.

        Args:
            target: filled; may be a mapped file.
            documents: (N,) the document of each piece.
            offsets: (N,) its first token in the document.
            places: (N,) where it goes.
            lengths: (N,) its tokens.
        """
        owner = self.unit[documents]
        order = np.argsort(owner, kind="stable")
        ptr = np.searchsorted(owner[order], np.arange(len(self.stores) + 1))
        begins = self.begin[documents] + offsets
        for number, store in enumerate(self.stores):
            chosen = order[ptr[number] : ptr[number + 1]]
            if len(chosen):
                copy_ranges(
                    np.asarray(store.ids),
                    target,
                    begins[chosen],
                    places[chosen],
                    lengths[chosen].astype(np.int64),
                )

    def tokens(self, first: int, last: int) -> NDArray[np.integer]:
        """Give the ids of documents [first, last), end to end."""
        lengths = self.lengths[first:last]
        ends = np.cumsum(lengths)
        dtype = self.stores[0].ids.dtype if self.stores else np.dtype(np.int64)
        flat: NDArray[np.integer] = np.empty(int(ends[-1]) if len(ends) else 0, dtype)
        self.copy(
            flat,
            np.arange(first, last),
            offsets=np.zeros(last - first, np.int64),
            places=ends - lengths,
            lengths=lengths,
        )
        return flat

    def names(self, units: Sequence[str]) -> pa.Array:
        """Give for each document what `units` says of its unit: (D,) strings."""
        owners = pa.array(self.unit.astype(np.int32))
        return pa.DictionaryArray.from_arrays(owners, pa.array(units, pa.string())).cast(pa.string())

    def identities(self) -> NDArray[np.uint8]:
        """Give the documents' ids: (D, 16) uint8."""
        return fixed_bytes(self.table.column("id"), ID_BYTES)


def merge_group(
    workspace: Workspace,
    units: Sequence[Unit],
    group: int,
    *,
    with_sentences: bool = False,
    with_sections: bool = False,
) -> MergedGroup:
    """Find one group of every unit and merge; equal hashes go by id."""
    sentences: list[Ragged] = []
    sections: list[Ragged] = []
    stores, owners, begins, lengths, tables = [], [], [], [], []
    for number, unit in enumerate(units):
        store = TokenUnit.open(workspace.path(unit.tokens), groups=group + 1)
        first, last = store.group_ptr[group : group + 2]
        offsets = store.offsets[first : last + 1]
        stores.append(store)
        owners.append(np.full(last - first, number))
        begins.append(offsets[:-1])
        lengths.append(np.diff(offsets))
        tables.append(store.documents(group))
        if with_sentences:
            sentences.append(read_ends(workspace.path(unit.sentences), int(first), int(last)))
        if with_sections:
            sections.append(store.sections(group, count=unit.sections))
    table = pa.concat_tables(tables)
    halves = np.ascontiguousarray(fixed_bytes(table.column("id"), ID_BYTES)).view(">u8")
    order = np.lexsort((halves[:, 1], halves[:, 0], table.column("order").to_numpy()))
    return MergedGroup(
        tuple(stores),
        np.concatenate(owners)[order],
        np.concatenate(begins)[order],
        np.concatenate(lengths)[order],
        table.take(pa.array(order)).combine_chunks(),
        joined(sentences).take(order) if with_sentences else None,
        joined(sections).take(order) if with_sections else None,
    )
