"""A whole shard, for objectives that look beyond a row: its documents, put together again on demand."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stages.ragged import Ragged


@dataclass(frozen=True, eq=False)
class WholeShard:
    """R rows of L tokens in S segments, of D documents; the arrays may be mapped files.

    Args:
        input_ids: (R, L).
        segments: row_ptr (R + 1,); start, length, doc, doc_offset (S,).
        documents: D.
        sources: (D,) the source of each document; None if nobody asks.
        sentences: of each document, after how many of its tokens each ends; None if nobody asks.
    """

    input_ids: NDArray[np.integer]
    segments: Mapping[str, NDArray[np.integer]]
    documents: int
    sources: tuple[str, ...] | None = None
    sentences: Ragged | None = None

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each document, its EOS included: (D,) int64."""
        doc, length = self.segments["doc"], self.segments["length"]
        return np.bincount(doc, weights=length, minlength=self.documents).astype(np.int64)

    @cached_property
    def _by_document(self) -> Ragged:
        """The segments of each document in their order."""
        doc, offset = self.segments["doc"], self.segments["doc_offset"]
        order = np.lexsort((offset, doc)).astype(np.int64)
        return Ragged(np.searchsorted(doc[order], np.arange(self.documents + 1)), order)

    @cached_property
    def _offsets(self) -> NDArray[np.int64]:
        """The first token of each segment, in the order of `_by_document`."""
        return np.asarray(self.segments["doc_offset"], np.int64)[self._by_document.values]

    @cached_property
    def with_text(self) -> NDArray[np.int64]:
        """The documents that have more than an EOS, ascending."""
        return np.flatnonzero(self.lengths > 1)

    @cached_property
    def segment_rows(self) -> NDArray[np.int64]:
        """The row of each segment: (S,)."""
        row_ptr = np.asarray(self.segments["row_ptr"], np.int64)
        return np.repeat(np.arange(len(row_ptr) - 1), np.diff(row_ptr))

    @cached_property
    def ordinals(self) -> NDArray[np.int64]:
        """Which of its document's segments each one is, counted from 0: (S,)."""
        ptr, order = self._by_document.ptr, self._by_document.values
        ordinals = np.empty(len(order), np.int64)
        ordinals[order] = np.arange(len(order)) - np.repeat(ptr[:-1], np.diff(ptr))
        return ordinals

    @cached_property
    def segment_counts(self) -> NDArray[np.int64]:
        """Segments of each document: (D,)."""
        counts: NDArray[np.int64] = np.diff(self._by_document.ptr)
        return counts

    def segments_of(self, document: int) -> NDArray[np.int64]:
        """Give the numbers of a document's segments, in the order of its text."""
        return self._by_document[document]

    def segments_in(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the numbers of the segments in some rows, row after row: (S,)."""
        ptr = np.asarray(self.segments["row_ptr"], np.int64)
        counts = ptr[numbers + 1] - ptr[numbers]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        found: NDArray[np.int64] = np.repeat(ptr[numbers], counts) + within
        return found

    def segment(self, number: int) -> NDArray[np.integer]:
        """Give the tokens of one segment."""
        start, length = (int(self.segments[name][number]) for name in ("start", "length"))
        return np.asarray(self.input_ids[self.segment_rows[number], start : start + length])

    def tokens(self, document: int, first: int, count: int) -> NDArray[np.integer]:
        """Give some of a document's tokens, from the one numbered `first` on."""
        last = first + count
        offsets = self._offsets[slice(*self._by_document.ptr[document : document + 2])]
        begin = max(int(np.searchsorted(offsets, first, side="right")) - 1, 0)
        end = int(np.searchsorted(offsets, last))
        numbers = self.segments_of(document)[begin:end].tolist()
        parts = [
            self.segment(number)[max(first - offset, 0) : last - offset]
            for number, offset in zip(numbers, offsets[begin:end].tolist(), strict=True)
        ]
        return np.concatenate([np.empty(0, self.input_ids.dtype), *parts])
