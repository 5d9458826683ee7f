"""Rows: how the documents of a shard are laid out, and in which order their rows stand.

    "shuffle"   all documents -> laid out -> framed -> rows shuffled
    "exact"     the documents of each source -> laid out -> framed -> rows shuffled -> dealt by source

Within each of these, the documents of one component of a mixture are laid out together.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.steps.shard.frames import Framed, framed
from pipeline.steps.shard.merge import MergedGroup
from pipeline.steps.units import Unit, rows_of_bytes
from stages.mixing.placement import component_hash
from stages.objectives.kind import Documents, LaidOut
from stages.objectives.rows import Widths
from stages.objectives.table import (
    choose_component,
    component_widths,
    kind_of,
    traits_of,
    widths_of,
)
from stages.objectives.traits import Objective
from stages.packing.interleave import class_counts, dealt_order
from stages.packing.layout import Layout, PackingConfig, shuffle_rows, stack_layouts
from stages.packing.row_frames import begins_of, pack_closed
from stages.packing.single import pack_single
from stages.packing.strategies import PACKINGS
from stages.ragged import Ragged
from stages.seeding import Key, Tag, permutation
from stages.store.manifest import OBJECTIVE_ID

Interleave = Literal["shuffle", "exact"]


class Packed(Framed, Protocol):
    """Work on the rows of a shard."""

    @property
    def units(self) -> Sequence[Unit]:
        """Of the token store."""

    @property
    def group(self) -> int:
        """The shard's group there."""

    @property
    def objective(self) -> Objective:
        """Says how documents are laid out."""

    @property
    def packing(self) -> PackingConfig:
        """Likewise."""

    @property
    def seed(self) -> int:
        """Of the run."""

    @property
    def interleave(self) -> Interleave:
        """How sources lie in the order of rows."""


def lay_out(group: MergedGroup, work: Packed) -> tuple[Layout, dict[str, NDArray[np.generic]]]:
    """Return the layout of a shard in its order, and what else is laid out of each row, by name."""
    names, sources = sources_of(group, work.units)
    exact = work.interleave == "exact"
    layout, by_row = _by_source(group, work, sources) if exact else _all(group, work)
    if work.row_frame is not None:
        stored = widths_of(work.objective, work.packing.seq_len).stored
        layout, by_row = framed(layout, by_row, group.lengths, work.row_frame, row_length=stored)
    order = permutation(Key(work.seed, 0, work.group, Tag.ROW_ORDER), layout.num_rows)
    if exact:
        order = dealt_order(order, *class_counts(layout, sources, num_sources=len(names)))
    return shuffle_rows(layout, order), {name: column[order] for name, column in by_row.items()}


def sources_of(group: MergedGroup, units: Sequence[Unit]) -> tuple[list[str], NDArray[np.int64]]:
    """Return the names of sources, ascending, and which of them each document is of: (D,)."""
    names = sorted({unit.source for unit in units})
    of_units = np.array([names.index(unit.source) for unit in units], np.int64)
    return names, of_units[group.unit]


def source_rows(layout: Layout, group: MergedGroup, units: Sequence[Unit]) -> dict[str, tuple[int, ...]]:
    """Return how many rows each source has, by how full they are, as the manifest says it."""
    names, sources = sources_of(group, units)
    _, counts = class_counts(layout, sources, num_sources=len(names))
    return {name: tuple(rows) for name, rows in zip(names, counts.tolist(), strict=True) if any(rows)}


def _all(group: MergedGroup, work: Packed) -> LaidOut:
    """Lay out all documents together."""
    documents = Documents(
        group.lengths, group.sentences, group.sections, group.learned, work.seed, work.group
    )
    return _layout(documents, _components(group, work), work)


def _by_source(group: MergedGroup, work: Packed, sources: NDArray[np.int64]) -> LaidOut:
    """Lay out the documents of each source in rows of their own, one source after the other."""
    components = _components(group, work)
    members = [np.flatnonzero(sources == source) for source in np.unique(sources).tolist()]
    if len(members) < 2:  # noqa: PLR2004  # one source, or no document at all
        return _all(group, work)
    parts = [_layout(_some(group, some, work), components[some], work) for some in members]
    layouts = [part.layout for part in parts]
    columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns}
    return LaidOut(stack_layouts(layouts, members, row_length=layouts[0].row_length), columns)


def _some(group: MergedGroup, members: NDArray[np.int64], work: Packed) -> Documents:
    """Return some documents of a group."""
    learned = None
    if group.sections is not None and group.learned is not None:
        flags = Ragged(group.sections.ptr, group.learned.astype(np.int64))
        learned = flags.take(members).values.astype(np.bool_)
    return Documents(
        group.lengths[members],
        None if group.sentences is None else group.sentences.take(members),
        None if group.sections is None else group.sections.take(members),
        learned,
        work.seed,
        work.group,
    )


def _components(group: MergedGroup, work: Packed) -> NDArray[np.int64]:
    """Return the component of each document, (D,): 0 if the objective is no mixture."""
    if not component_widths(work.objective, work.packing.seq_len):
        return np.zeros(len(group.lengths), np.int64)
    chosen = [
        choose_component(component_hash(row, work.seed, copy=copy), work.objective)
        for row, copy in zip(rows_of_bytes(group.id), group.copy_number.tolist(), strict=True)
    ]
    return np.array(chosen, np.int64)


def _layout(documents: Documents, components: NDArray[np.int64], work: Packed) -> LaidOut:
    """Lay documents into rows as the objective wants them; give what else is laid out of each row.

    The documents of one component of a mixture are packed together.
    """
    begins = begins_of(work.row_frame)
    widths, *parts = (
        replace(each, stored=each.stored - begins)
        for each in (
            widths_of(work.objective, work.packing.seq_len),
            *component_widths(work.objective, work.packing.seq_len),
        )
    )
    lengths, sentences = documents.lengths, documents.sentences
    if not parts:
        own = kind_of(work.objective).lay_out(documents, work.objective, widths)
        return own or LaidOut(_pack(lengths, sentences, work, widths.stored), {})
    return _by_component(documents, components, work, widths, parts)


def _by_component(
    documents: Documents,
    components: NDArray[np.int64],
    work: Packed,
    widths: Widths,
    parts: Sequence[Widths],
) -> LaidOut:
    lengths, sentences = documents.lengths, documents.sentences
    members = [np.flatnonzero(components == number) for number in range(len(parts))]
    layouts = [
        _pack(lengths[some], None if sentences is None else sentences.take(some), work, part.stored)
        for some, part in zip(members, parts, strict=True)
    ]
    rows = [layout.num_rows for layout in layouts]
    layout = stack_layouts(layouts, members, row_length=widths.stored)
    return LaidOut(layout, {OBJECTIVE_ID: np.repeat(np.arange(len(parts), dtype=np.uint8), rows)})


def _pack(lengths: NDArray[np.int64], sentences: Ragged | None, work: Packed, row_length: int) -> Layout:
    traits = traits_of(work.objective)
    if traits.single:
        return pack_single(lengths, row_length=row_length)
    pack = PACKINGS[work.packing.strategy].packer()
    if work.row_frame is not None:
        return pack_closed(pack, lengths, row_length=row_length, sentences=sentences)
    return pack(lengths, row_length=row_length, growth=traits.growth, sentences=sentences)
