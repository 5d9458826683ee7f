"""Frames, losses and documents of rows: what stands beside their tokens.

Shard, the part of losses: which tokens of rows have one, as the sections of their documents say.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.steps.shard.merge import MergedGroup
from pipeline.steps.units import Unit, hex_strings, kept_of_all
from stages.columns import SHARD_DOCUMENTS, kept_names, with_kept
from stages.objectives.kind import LaidOut
from stages.packing.layout import Layout
from stages.packing.row_frames import begins_of, frame_rows, framed_prompts, own_layout
from stages.packing.sections import learned_runs, prompt_lengths
from stages.ragged import Ragged, batches, runs
from stages.store.manifest import ADDED_END, PROMPT
from stages.store.mapped import mapped_npy


class Framed(Protocol):
    """Work on rows that may be framed."""

    @property
    def row_frame(self) -> Mapping[str, int] | None:
        """The ids around each row, by side."""


def framed(
    layout: Layout,
    by_row: Mapping[str, NDArray[np.generic]],
    lengths: NDArray[np.int64],
    frame: Mapping[str, int],
    *,
    row_length: int,
) -> LaidOut:
    """Return rows with their frames, and what else is laid out of each; prompts show what begins a row.

    Args:
        layout: of the documents, with room for the frames.
        by_row: what else is laid out of each row, by name.
        lengths: (D,) tokens of each document.
        frame: the ids around each row, by side.
        row_length: tokens in a row.
    """
    begins = begins_of(frame)
    rows, added = frame_rows(layout, lengths, row_length=row_length, begins=begins)
    columns = {**by_row, ADDED_END: added}
    if PROMPT in by_row:
        prompts = by_row[PROMPT].astype(np.int32)
        columns[PROMPT] = framed_prompts(prompts, np.arange(len(prompts)), begins=begins)
    return LaidOut(rows, columns)


def own_of(layout: Layout, by_row: Mapping[str, NDArray[np.generic]], work: Framed) -> Layout:
    """Return a shard's layout without the frames of its rows, if they have any."""
    if work.row_frame is None:
        return layout
    added = by_row[ADDED_END].astype(np.int64)
    return own_layout(layout, added, begins=begins_of(work.row_frame))


def segment_prompts(own: Layout, sections: Ragged, work: Framed) -> NDArray[np.int32]:
    """Return how many tokens of each segment stand before its document's target: (S,) int32.

    Args:
        own: the layout without frames.
        sections: of each document, after how many of its tokens each ends.
        work: says whether rows are framed.
    """
    prompts = prompt_lengths(own, sections)
    return framed_prompts(prompts, own.row_ptr[:-1], begins=begins_of(work.row_frame))


def write_frames(
    path: Path, layout: Layout, added_end: NDArray[np.generic], frame: Mapping[str, int]
) -> None:
    """Write the frames into the rows of a shard, in which its documents stand already."""
    if not layout.num_rows:
        return
    rows = np.lib.format.open_memmap(path, "r+")
    if "begin" in frame:
        rows[:, 0] = frame["begin"]
    last = layout.row_ptr[1:] - 1
    places = layout.start[last] + layout.length[last] - 1
    cut = np.flatnonzero(added_end)
    rows[cut, places[cut]] = frame["end"]
    rows.flush()


_BLOCK = 1 << 20
"""Tokens that are marked together."""


def write_loss_mask(path: Path, layout: Layout, group: MergedGroup) -> None:
    """Write 1 for each token with a loss, 0 for all else: (rows, length) |u1, through a mapped file."""
    assert group.sections is not None
    assert group.learned is not None
    shape = (layout.num_rows, layout.row_length)
    places, counts = learned_runs(layout, group.sections, group.learned)
    flat = mapped_npy(path, "|u1", shape).reshape(-1)
    for first, last in batches(counts, _BLOCK):
        flat[runs(places[first:last], counts[first:last])] = 1


def documents_of(group: MergedGroup, units: Sequence[Unit], scratch: Path) -> Iterator[pa.Table]:
    """Return what a shard says of its documents, in tables whose names have some bytes together."""
    names, keep_columns = group.own_names(scratch, units), kept_of_all(units)
    sources = [unit.source for unit in units]
    of_unit = np.array([len(source.encode()) for source in sources], np.int64)
    first = 0
    for rows in names.blocks(group.row, beside=of_unit[group.unit]):
        part = slice(first, first + len(rows))
        first += len(rows)
        yield pa.table(
            {
                "doc": np.arange(part.start, part.stop, dtype=np.int32),
                "id": hex_strings(group.id[part]),
                "own_id": names.take("own_id", rows),
                "source": _of_units(group.unit[part], sources),
                "language": names.take("language", rows),
                "path": names.take("path", rows),
                "position": group.position[part],
                "copy": group.copy_number[part],
                "tokens": group.lengths[part],
                **{name: names.take(name, rows) for name in kept_names(keep_columns)},
            },
            schema=shard_schema(units),
        )


def shard_schema(units: Iterable[Unit]) -> pa.Schema:
    """Return the columns of a shard's list of documents: of all units' records what goes along."""
    return with_kept(SHARD_DOCUMENTS, kept_of_all(units))


def _of_units(numbers: NDArray[np.int64], values: Sequence[str]) -> pa.Array:
    """Return for each document what is said of its unit: (D,) strings."""
    owners = pa.array(numbers.astype(np.int32))
    return pa.DictionaryArray.from_arrays(owners, pa.array(values, pa.string())).cast(pa.string())
