"""Merge: one group of the token store over all units, in the order of the documents' hashes.

Ids stay where they are, in the units' mapped files; what is held is a few numbers a document.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.names import COLUMNS, Names, read_rows
from pipeline.steps.units import Unit, fixed_bytes, kept_of_all, open_unit
from stages.columns import kept_names
from stages.identity import ID_BYTES
from stages.packing.sections import learned_sections
from stages.ragged import Ragged, joined
from stages.store.ranges import copy_ranges
from stages.store.token_store import TokenUnit, read_ends

_FIXED = ("id", "order", "position")
_NAMES = (*COLUMNS, "path")


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
    id: NDArray[np.uint8]
    """(D, 16)."""
    position: NDArray[np.int64]
    """(D,) where each stands in its file."""
    row: NDArray[np.int64]
    """(D,) its place among the documents of the group, unit by unit."""
    ranges: tuple[tuple[int, int], ...]
    """Of each unit, the documents that are of the group."""
    sentences: Ragged | None = None
    """Of each document, after how many of its tokens each ends; None if nobody asks."""
    sections: Ragged | None = None
    """The same of its sections."""
    learned: NDArray[np.bool_] | None = None
    """(S,) of each section, whether it has a loss where an objective asks."""

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
        """Return the ids of documents [first, last), end to end."""
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

    def own_names(self, folder: Path, units: Sequence[Unit]) -> Names:
        """Return own ids, languages, paths and values of the records of the documents, by `row`.

        Args:
            folder: where they lie.
            units: the stores'; each may have values of other fields, which are null in the rest.
        """
        every = kept_names(kept_of_all(units))
        names = Names(folder, (*_NAMES, *every))
        for unit, store, (first, last) in zip(units, self.stores, self.ranges, strict=True):
            columns = (*_NAMES, *kept_names(unit.keep_columns))
            for table in read_rows(store.folder / "documents.parquet", columns, first, last):
                names.add(_with_nulls(table, every))
        names.finish()
        return names


def _with_nulls(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return a table with all columns of some names; those that it lacks are null."""
    for name in names:
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(table.num_rows, pa.string()))
    return table


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
    learned: list[Ragged] = []
    stores, owners, begins, lengths = [], [], [], []
    identities, others = [np.empty((0, ID_BYTES), np.uint8)], [np.empty((0, 2), np.uint64)]
    ranges: list[tuple[int, int]] = []
    for number, unit in enumerate(units):
        store = open_unit(workspace.root, unit, groups=group + 1)
        first, last = store.group_ptr[group : group + 2]
        stores.append(store)
        owners.append(np.full(last - first, number))
        begins.append(store.places[first:last, 0])
        lengths.append(store.lengths[first:last])
        ranges.append((int(first), int(last)))
        for table in read_rows(store.folder / "documents.parquet", _FIXED, int(first), int(last)):
            identities.append(fixed_bytes(table.column("id"), ID_BYTES))
            positions = table.column("position").to_numpy().view(np.uint64)
            others.append(np.column_stack([table.column("order").to_numpy(), positions]))
        if with_sentences:
            sentences.append(read_ends(workspace.path(unit.sentences), int(first), int(last)))
        if with_sections:
            sections.append(store.sections(group, count=unit.sections))
            flags = store.learned(group) if unit.dialogues else learned_sections(sections[-1])
            learned.append(Ragged(sections[-1].ptr, flags.astype(np.int64)))
    names, numbers = np.concatenate(identities), np.concatenate(others)
    halves = names.view(">u8")
    order = np.lexsort((halves[:, 1], halves[:, 0], numbers[:, 0]))
    return MergedGroup(
        tuple(stores),
        np.concatenate(owners)[order],
        np.concatenate(begins)[order],
        np.concatenate(lengths)[order],
        names[order],
        np.ascontiguousarray(numbers[order, 1]).view(np.int64),
        order,
        tuple(ranges),
        joined(sentences).take(order) if with_sentences else None,
        joined(sections).take(order) if with_sections else None,
        joined(learned).take(order).values.astype(np.bool_) if with_sections else None,
    )
