"""Rows: how the documents of a shard are laid out, and in which order their rows stand.

    "shuffle"   all documents -> laid out -> framed -> rows shuffled
    "exact"     the documents of each source -> laid out -> framed -> rows shuffled -> interleaved

Within each of these, the documents of one component of a mixture are laid out together.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.steps.shard.merge import MergedGroup
from pipeline.steps.units import rows_of_bytes
from stages.mixing.placement import component_hash
from stages.objectives.kind import Documents, LaidOutRows
from stages.objectives.table import ResolvedObjective
from stages.objectives.traits import Objective
from stages.packing.interleave import class_counts, interleaved_order
from stages.packing.layout import Layout, PackingConfig, shuffle_rows, stack_layouts
from stages.packing.row_frames import begins_of, frame_rows, framed_prompts, own_layout, pack_closed
from stages.packing.sections import prompt_lengths
from stages.packing.single import pack_single
from stages.packing.strategies import PACKINGS
from stages.ragged import Ragged
from stages.seeding import Key, OrderTag, permutation
from stages.store.manifest import ADDED_END, OBJECTIVE_ID, PROMPT

Interleave = Literal["shuffle", "exact"]


@dataclass(frozen=True)
class RowSettings:
    """What a run says of the rows of a split."""

    objective: Objective
    packing: PackingConfig
    seed: int
    row_frame: Mapping[str, int] | None = None
    """The ids around each row, by side."""
    interleave: Interleave = "shuffle"
    """How sources lie in the order of rows."""


@dataclass(frozen=True)
class LaidRows:
    """The rows of a shard in their order."""

    layout: Layout
    columns: Mapping[str, NDArray[np.generic]]
    """What else is stored of each row, by name: (R,) each."""
    by_source: Mapping[str, tuple[int, ...]] | None
    """Of each source, how many rows it has by how full they are; None unless rows are interleaved."""
    begins: int
    """Ids of a frame before each row: 0 or 1."""

    @cached_property
    def own(self) -> Layout:
        """The layout without the frames of its rows, if they have any."""
        added = self.columns.get(ADDED_END)
        if added is None:
            return self.layout
        return own_layout(self.layout, added.astype(np.int64), begins=self.begins)

    def prompts(self, sections: Ragged) -> NDArray[np.int32]:
        """Return how many tokens of each segment stand before its document's target: (S,) int32.

        Args:
            sections: of each document, after how many of its tokens each ends.
        """
        prompts = prompt_lengths(self.own, sections)
        return framed_prompts(prompts, self.own.row_ptr[:-1], begins=self.begins)


def lay_out(group: MergedGroup, settings: RowSettings, known: ResolvedObjective) -> LaidRows:
    """Return the rows of a shard in their order, laid out as its objective has it."""
    begins, sources = begins_of(settings.row_frame), None
    if settings.interleave == "exact":
        names, sources = group.sources()
    laid = _Packer(settings, known, begins).rows_of(group, sources)
    if settings.row_frame is not None:
        laid = _framed(laid, group.lengths, begins=begins, row_length=known.widths.stored)
    order = permutation(Key(settings.seed, 0, group.number, OrderTag.ROWS), laid.layout.num_rows)
    by_source = None
    if sources is not None:
        classes, counts = class_counts(laid.layout, sources, num_sources=len(names))
        order = interleaved_order(order, classes, counts)
        of_names = zip(names, counts.tolist(), strict=True)
        by_source = {name: tuple(rows) for name, rows in of_names if any(rows)}
    columns = {name: column[order] for name, column in laid.columns.items()}
    return LaidRows(shuffle_rows(laid.layout, order), columns, by_source, begins)


@dataclass(frozen=True)
class _Packer:
    """Lays documents into rows that have room for their frames."""

    settings: RowSettings
    known: ResolvedObjective
    begins: int
    """Ids of a frame before each row."""

    def rows_of(self, group: MergedGroup, sources: NDArray[np.int64] | None) -> LaidOutRows:
        """Lay out the documents of a group: together, or those of each source in rows of their own.

        Args:
            group: the documents.
            sources: (D,) the source of each; None: together.
        """
        documents = Documents(
            group.lengths,
            group.sentences,
            group.sections,
            group.learned,
            self.settings.seed,
            group.number,
        )
        components = self._components(group)
        of = [] if sources is None else np.unique(sources).tolist()
        if len(of) < 2:  # noqa: PLR2004  # one source, or no document at all
            return self._laid(documents, components)
        members = [np.flatnonzero(sources == source) for source in of]
        parts = [self._laid(documents.take(some), components[some]) for some in members]
        layouts = [part.layout for part in parts]
        columns = {
            name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns
        }
        return LaidOutRows(stack_layouts(layouts, members, row_length=layouts[0].row_length), columns)

    def _components(self, group: MergedGroup) -> NDArray[np.int64]:
        """Return the component of each document, (D,): 0 if the objective is no mixture."""
        if not self.known.parts:
            return np.zeros(len(group.lengths), np.int64)
        hashes = (
            component_hash(row, self.settings.seed, copy=copy)
            for row, copy in zip(rows_of_bytes(group.id), group.copy_number.tolist(), strict=True)
        )
        return np.array([self.known.component(hashed) for hashed in hashes], np.int64)

    def _laid(self, documents: Documents, components: NDArray[np.int64]) -> LaidOutRows:
        """Lay documents into rows as the objective wants them; those of one component together."""
        known = self.known
        widths = replace(known.widths, stored=known.widths.stored - self.begins)
        if known.kind is not None:
            own = known.kind.lay_out(documents, known.config, widths)
            return own or LaidOutRows(self._packed(documents, widths.stored), {})
        members = [np.flatnonzero(components == number) for number in range(len(known.parts))]
        layouts = [
            self._packed(documents.take(some), part.widths.stored - self.begins)
            for some, part in zip(members, known.parts, strict=True)
        ]
        rows = [layout.num_rows for layout in layouts]
        layout = stack_layouts(layouts, members, row_length=widths.stored)
        return LaidOutRows(layout, {OBJECTIVE_ID: np.repeat(np.arange(len(rows), dtype=np.uint8), rows)})

    def _packed(self, documents: Documents, row_length: int) -> Layout:
        lengths, sentences, traits = documents.lengths, documents.sentences, self.known.traits
        if traits.single:
            return pack_single(lengths, row_length=row_length)
        pack = PACKINGS[self.settings.packing.strategy].packer()
        if self.settings.row_frame is not None:
            return pack_closed(pack, lengths, row_length=row_length, sentences=sentences)
        return pack(lengths, row_length=row_length, growth=traits.growth, sentences=sentences)


def _framed(
    laid: LaidOutRows, lengths: NDArray[np.int64], *, begins: int, row_length: int
) -> LaidOutRows:
    """Return rows with their frames, and what else is stored of each; prompts show what begins a row.

    Args:
        laid: documents, with room for the frames.
        lengths: (D,) tokens of each document.
        begins: ids before each row.
        row_length: tokens in a row.
    """
    rows, added = frame_rows(laid.layout, lengths, row_length=row_length, begins=begins)
    columns = {**laid.columns, ADDED_END: added}
    if PROMPT in columns:
        prompts = columns[PROMPT].astype(np.int32)
        columns[PROMPT] = framed_prompts(prompts, np.arange(len(prompts)), begins=begins)
    return LaidOutRows(rows, columns)
