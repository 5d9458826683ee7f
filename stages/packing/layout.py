"""Layouts: where each chunk of each document lies in the rows of a shard.

A layout names no token, so the same one lays out any column. It never depends on the epoch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import ByteSize, Field

from stages.config import Config
from stages.ragged import Ragged


class Strategy(StrEnum):
    """How documents become rows."""

    BEST_FIT = "best_fit"
    CONCAT = "concat"
    DOCUMENT = "document"
    FULL = "full"


class PackingConfig(Config):
    """Rows: their length, and how documents are laid into them."""

    seq_len: int = Field(512, ge=2, le=1 << 20)
    """Tokens in a row."""
    strategy: Strategy = Strategy.BEST_FIT
    """`best_fit` cuts only documents that are longer than a row. `concat` cuts wherever a row ends.
    `document` gives each document its own rows, of which the last may be short. `full` puts complete
    sentences one after the other, so rows end where sentences end."""
    shard_size: ByteSize = Field(ByteSize(512 << 20), ge=1 << 16, validate_default=True)
    """Text that a shard is made from; its token file is about half as large."""
    shards: int | None = Field(None, ge=1, le=1 << 24)
    """Number of training shards, instead of `shard_size`."""


@dataclass(frozen=True)
class Layout:
    """S segments in R rows of L tokens, ascending by (row, start).

    rows of 4       A A E B | B E . .
    segments        (row 0, start 0, length 3, doc A, offset 0)
                    (row 0, start 3, length 1, doc B, offset 0)
                    (row 1, start 0, length 2, doc B, offset 1)
    """

    row_length: int
    """L."""
    row_ptr: NDArray[np.int64]
    """(R + 1,) the segments of row r are row_ptr[r] .. row_ptr[r + 1]."""
    start: NDArray[np.int32]
    """(S,) first position in the row."""
    length: NDArray[np.int32]
    """(S,) tokens."""
    doc: NDArray[np.int32]
    """(S,) document, as its number in the shard."""
    doc_offset: NDArray[np.int64]
    """(S,) which token of the document comes first."""

    @property
    def num_rows(self) -> int:
        """R."""
        return len(self.row_ptr) - 1

    def segment_rows(self) -> NDArray[np.int64]:
        """Return the row of each segment: (S,)."""
        return np.repeat(np.arange(self.num_rows), np.diff(self.row_ptr))


class Packer(Protocol):
    """A way to lay documents into rows."""

    def __call__(
        self,
        lengths: NDArray[np.int64],
        *,
        row_length: int,
        growth: int = 0,
        sentences: Ragged | None = None,
    ) -> Layout:
        """Return the layout of documents of these lengths, with sentences that end there."""


def layout_of(
    row: NDArray[np.int64],
    *,
    row_length: int,
    num_rows: int,
    start: NDArray[np.int64],
    length: NDArray[np.int64],
    doc: NDArray[np.int64],
    doc_offset: NDArray[np.int64],
) -> Layout:
    """Return the layout of segments listed in any order."""
    order = np.lexsort((start, row))
    return Layout(
        row_length=row_length,
        row_ptr=np.concatenate([[0], np.cumsum(np.bincount(row, minlength=num_rows))]),
        start=start[order].astype(np.int32),
        length=length[order].astype(np.int32),
        doc=doc[order].astype(np.int32),
        doc_offset=doc_offset[order].astype(np.int64),
    )


def layout_of_table(segments: NDArray[np.int64], *, row_length: int, num_rows: int) -> Layout:
    """Return the layout of segments in a table, (S, 5): row, start, length, doc, doc_offset of each."""
    row, start, length, doc, doc_offset = segments.T
    return layout_of(
        row,
        row_length=row_length,
        num_rows=num_rows,
        start=start,
        length=length,
        doc=doc,
        doc_offset=doc_offset,
    )


def stack_layouts(
    layouts: Sequence[Layout], members: Sequence[NDArray[np.int64]], *, row_length: int
) -> Layout:
    """Return one layout of several, their rows one after the other.

    Args:
        layouts: each of documents of its own, numbered from 0.
        members: for each, the numbers (D,) of its documents among all.
        row_length: of the longest rows.
    """
    firsts = np.cumsum([0, *(len(layout.start) for layout in layouts)])
    ptrs = [layout.row_ptr[1:] + first for layout, first in zip(layouts, firsts, strict=False)]
    docs = [numbers[part.doc] for part, numbers in zip(layouts, members, strict=True)]
    return Layout(
        row_length=row_length,
        row_ptr=np.concatenate([[0], *ptrs]),
        start=np.concatenate([layout.start for layout in layouts]),
        length=np.concatenate([layout.length for layout in layouts]),
        doc=np.concatenate(docs).astype(np.int32),
        doc_offset=np.concatenate([layout.doc_offset for layout in layouts]),
    )


def shuffle_rows(layout: Layout, source: NDArray[np.int64]) -> Layout:
    """Return the layout with its rows in another order; the segments of a row stay together.

    Args:
        layout: any.
        source: (R,) which row comes first, second and so on.
    """
    counts = np.diff(layout.row_ptr)[source]
    row_ptr = np.concatenate([[0], np.cumsum(counts)])
    within = np.arange(row_ptr[-1]) - np.repeat(row_ptr[:-1], counts)
    order = np.repeat(layout.row_ptr[:-1][source], counts) + within
    return Layout(
        row_length=layout.row_length,
        row_ptr=row_ptr,
        start=layout.start[order],
        length=layout.length[order],
        doc=layout.doc[order],
        doc_offset=layout.doc_offset[order],
    )
