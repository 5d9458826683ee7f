"""Merge: one group of the token store over all units, in the order of the documents' hashes.

Ids stay where they are, in the units' mapped files; what is held is a few numbers a document. A mix
says how many copies of each document there are; all copies are of the document's own group. What a shard
lists of its documents is theirs too, however they are laid out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.mix.intervals import Intervals
from pipeline.steps.names import COLUMNS, Names, read_rows
from pipeline.steps.token_groups import open_group
from pipeline.steps.units import (
    Unit,
    fixed_bytes,
    hex_strings,
    kept_of_all,
    rows_of_bytes,
)
from stages.columns import SHARD_DOCUMENTS, kept_names, with_kept
from stages.identity import ID_BYTES
from stages.ledger import Tally, tally_of
from stages.mixing.placement import order_of
from stages.objectives.table import needs_sentences
from stages.objectives.traits import Traits
from stages.packing.layout import PackingConfig
from stages.packing.sections import learned_sections
from stages.ragged import Ragged, joined, ranges_of
from stages.store.ranges import copy_ranges
from stages.store.token_store import TokenUnit, read_ends

_FIXED = ("id", "order", "position")
_NAMES = (*COLUMNS, "path")


@dataclass(frozen=True)
class Copies:
    """Says which copies of each document a dataset with a mix has."""

    dataset: str
    weights: Mapping[str, str]
    """The field of each source that holds the weight of its documents."""
    seed: int
    """Of the run, which orders them."""


@dataclass(frozen=True)
class MixFlow:
    """What a mix takes of the documents of a group, for the ledger."""

    received: Tally
    """The group's documents in the token store."""
    left_out: Tally
    """First copies that the mix does not have."""
    copies: Tally
    """Copies that it has beside the first ones."""


@dataclass(frozen=True)
class MergedGroup:
    """D documents of one group; of a mix, D copies of documents."""

    number: int
    """Of the group."""
    units: tuple[Unit, ...]
    stores: tuple[TokenUnit, ...]
    """Theirs."""
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
    copy_number: NDArray[np.int32]
    """(D,) which copy of its document each is; 0 without a mix."""
    mixed: MixFlow
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

    def sources(self) -> tuple[list[str], NDArray[np.int64]]:
        """Return the names of sources, ascending, and which of them each document is of: (D,)."""
        names = sorted({unit.source for unit in self.units})
        of_units = np.array([names.index(unit.source) for unit in self.units], np.int64)
        return names, of_units[self.unit]

    @property
    def schema(self) -> pa.Schema:
        """The columns of a shard's list of documents: of all units' records what goes along."""
        return with_kept(SHARD_DOCUMENTS, kept_of_all(self.units))

    def documents(self, scratch: Path) -> Iterator[pa.Table]:
        """Return what a shard says of its documents, in tables whose names have some bytes together.

        Args:
            scratch: where own ids, languages, paths and values of records lie meanwhile.
        """
        kept = kept_names(kept_of_all(self.units))
        names = self._names(scratch, kept)
        sources = [unit.source for unit in self.units]
        of_unit = np.array([len(source.encode()) for source in sources], np.int64)
        first = 0
        for rows in names.blocks(self.row, beside=of_unit[self.unit]):
            part = slice(first, first + len(rows))
            first += len(rows)
            yield pa.table(
                {
                    "doc": np.arange(part.start, part.stop, dtype=np.int32),
                    "id": hex_strings(self.id[part]),
                    "source": _of_units(self.unit[part], sources),
                    "position": self.position[part],
                    "copy": self.copy_number[part],
                    "tokens": self.lengths[part],
                    **{name: names.take(name, rows) for name in (*_NAMES, *kept)},
                },
                schema=self.schema,
            )

    def _names(self, folder: Path, kept: Sequence[str]) -> Names:
        """Return the names of the documents, by `row`; of other units, values of records are null."""
        names = Names(folder, (*_NAMES, *kept))
        for unit, store, (first, last) in zip(self.units, self.stores, self.ranges, strict=True):
            columns = (*_NAMES, *kept_names(unit.keep_columns))
            for table in read_rows(store.folder / "documents.parquet", columns, first, last):
                names.add(_with_nulls(table, kept))
        names.finish()
        return names


def _of_units(numbers: NDArray[np.int64], values: Sequence[str]) -> pa.Array:
    """Return for each document what is said of its unit: (D,) strings."""
    owners = pa.array(numbers.astype(np.int32))
    return pa.DictionaryArray.from_arrays(owners, pa.array(values, pa.string())).cast(pa.string())


def _with_nulls(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return a table with all columns of some names; those that it lacks are null."""
    for name in names:
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(table.num_rows, pa.string()))
    return table


@dataclass
class _Columns:
    """What is held of the documents of all units."""

    stores: list[TokenUnit] = field(default_factory=list)
    ranges: list[tuple[int, int]] = field(default_factory=list)
    owners: list[NDArray[np.int64]] = field(default_factory=list)
    begins: list[NDArray[np.int64]] = field(default_factory=list)
    lengths: list[NDArray[np.int64]] = field(default_factory=list)
    identities: list[NDArray[np.uint8]] = field(
        default_factory=lambda: [np.empty((0, ID_BYTES), np.uint8)]
    )
    orders: list[NDArray[np.uint64]] = field(default_factory=lambda: [np.empty(0, np.uint64)])
    positions: list[NDArray[np.int64]] = field(default_factory=lambda: [np.empty(0, np.int64)])
    first_copies: list[NDArray[np.int64]] = field(default_factory=lambda: [np.empty(0, np.int64)])
    counts: list[NDArray[np.int64]] = field(default_factory=lambda: [np.empty(0, np.int64)])
    """How many copies of each document there are."""
    sentences: list[Ragged] = field(default_factory=list)
    sections: list[Ragged] = field(default_factory=list)
    learned: list[Ragged] = field(default_factory=list)

    def add(self, store: TokenUnit, unit: Unit, group: int, intervals: Intervals | None) -> None:
        """Add what is held of the documents of a unit."""
        first, last = store.group_ptr[group : group + 2].tolist()
        self.owners.append(np.full(last - first, len(self.stores)))
        self.stores.append(store)
        self.begins.append(store.places[first:last, 0] - store.begin)
        self.lengths.append(store.lengths[first:last])
        self.ranges.append((first, last))
        columns = _FIXED if intervals is None else (*_FIXED, *intervals.columns(unit.source))
        for table in read_rows(
            store.folder / "documents.parquet", tuple(dict.fromkeys(columns)), first, last
        ):
            self.identities.append(fixed_bytes(table.column("id"), ID_BYTES))
            self.positions.append(table.column("position").to_numpy())
            self.orders.append(table.column("order").to_numpy())
            if intervals is not None:
                first_copy, count = intervals.copies(table, unit.source)
                self.first_copies.append(first_copy)
                self.counts.append(count)

    def add_sections(self, unit: Unit, group: int) -> None:
        """Add the sections of the documents of the unit that was added last."""
        store = self.stores[-1]
        self.sections.append(store.sections(group, count=unit.sections))
        flags = store.learned(group) if unit.dialogues else learned_sections(self.sections[-1])
        self.learned.append(Ragged(self.sections[-1].ptr, flags.astype(np.int64)))


def merge_group(
    workspace: Workspace,
    units: Sequence[Unit],
    group: int,
    *,
    traits: Traits,
    packing: PackingConfig,
    copies: Copies | None,
    dtype: np.dtype[np.generic],
) -> MergedGroup:
    """Find one group of every unit and merge; equal hashes go by id.

    Where sentences and sections end is read if rows are made by that.

    Args:
        workspace: where the units are.
        units: of the token store.
        group: the number of the group.
        traits: of the objective of the rows.
        packing: of the rows.
        copies: which copies of each document there are; None: each document once.
        dtype: of ids.
    """
    columns, intervals = _Columns(), None
    with_sentences, with_sections = needs_sentences(traits, packing), bool(traits.sections)
    if copies is not None:
        intervals = Intervals.read(workspace, copies.dataset, copies.weights)
    for unit, store in zip(units, open_group(workspace, units, group, dtype=dtype), strict=True):
        columns.add(store, unit, group, intervals)
        if with_sentences:
            first, last = columns.ranges[-1]
            columns.sentences.append(read_ends(workspace.path(unit.sentences), first, last))
        if with_sections:
            columns.add_sections(unit, group)
    identities = np.concatenate(columns.identities)
    rows, numbers, orders, flow = _copies(columns, identities, copies)
    halves = np.ascontiguousarray(identities[rows]).view(">u8").reshape(-1, 2)
    order = np.lexsort((numbers, halves[:, 1], halves[:, 0], orders))
    rows = rows[order]
    return MergedGroup(
        group,
        tuple(units),
        tuple(columns.stores),
        np.concatenate(columns.owners)[rows],
        np.concatenate(columns.begins)[rows],
        np.concatenate(columns.lengths)[rows],
        identities[rows],
        np.concatenate(columns.positions)[rows],
        rows,
        numbers[order].astype(np.int32),
        flow,
        tuple(columns.ranges),
        joined(columns.sentences).take(rows) if with_sentences else None,
        joined(columns.sections).take(rows) if with_sections else None,
        joined(columns.learned).take(rows).values.astype(np.bool_) if with_sections else None,
    )


def _copies(
    columns: _Columns, identities: NDArray[np.uint8], copies: Copies | None
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint64], MixFlow]:
    """Return of each copy the document's place, which copy it is and its order, and what is mixed."""
    orders, lengths = (
        np.concatenate(columns.orders),
        np.concatenate([*columns.lengths, np.empty(0, np.int64)]),
    )
    rows, numbers = np.arange(len(identities)), np.zeros(len(identities), np.int64)
    received = tally_of(identities, tokens=int(lengths.sum()))
    if copies is None:
        return rows, numbers, orders, MixFlow(received, Tally(tokens=0), Tally(tokens=0))
    first, counts = np.concatenate(columns.first_copies), np.concatenate(columns.counts)
    out = (first > 0) | (counts == 0)
    rows, numbers = np.repeat(rows, counts), ranges_of(first, counts)
    further = np.flatnonzero(numbers)
    orders = orders[rows]
    orders[further] = np.fromiter(
        (
            order_of(name, copies.seed, copy=number)
            for name, number in zip(
                rows_of_bytes(identities[rows[further]]), numbers[further].tolist(), strict=True
            )
        ),
        np.uint64,
        len(further),
    )
    flow = MixFlow(
        received,
        tally_of(identities[out], tokens=int(lengths[out].sum())),
        tally_of(
            identities[rows[further]],
            copy=numbers[further],
            tokens=int(lengths[rows[further]].sum()),
        ),
    )
    return rows, numbers, orders, flow
