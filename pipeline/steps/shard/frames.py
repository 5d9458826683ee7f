"""Frames of rows: what a shard's rows have before and behind their documents, if the run frames rows."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stages.objectives.kind import LaidOut
from stages.packing.layout import Layout
from stages.packing.row_frames import begins_of, frame_rows, framed_prompts, own_layout
from stages.packing.sections import prompt_lengths
from stages.ragged import Ragged
from stages.store.manifest import ADDED_END, PROMPT


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
