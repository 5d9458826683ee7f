"""A whole shard, for objectives that look beyond a row: its documents, put together again on demand."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stages.ragged import Ragged, ranges_of


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
    def _stride(self) -> int:
        """More than any place in a document, so that document * stride + place ascends over both."""
        ends = np.asarray(self.segments["doc_offset"], np.int64) + self.segments["length"]
        most = int(ends.max(initial=0))
        if self.sentences is not None:
            most = max(most, int(self.sentences.values.max(initial=0)))
        return most + 1

    @cached_property
    def _segment_keys(self) -> NDArray[np.int64]:
        """Document and first token of each segment, in the order of `_by_document`: (S,)."""
        order = self._by_document.values
        doc, offset = self.segments["doc"][order], self.segments["doc_offset"][order]
        keys: NDArray[np.int64] = doc.astype(np.int64) * self._stride + offset
        return keys

    @cached_property
    def _sentence_keys(self) -> NDArray[np.int64]:
        """Document and end of each sentence."""
        assert self.sentences is not None, "packed for another objective"
        owner = np.repeat(np.arange(self.documents), np.diff(self.sentences.ptr))
        keys: NDArray[np.int64] = owner * self._stride + self.sentences.values
        return keys

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

    def segments_in(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of the segments in some rows, row after row: (S,)."""
        ptr = np.asarray(self.segments["row_ptr"], np.int64)
        return ranges_of(ptr[numbers], ptr[numbers + 1] - ptr[numbers])

    def owners(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the document of the first segment of some rows: (N,)."""
        first = self.segments["row_ptr"][numbers]
        owners: NDArray[np.int64] = self.segments["doc"][first].astype(np.int64)
        return owners

    def segment(self, number: int) -> NDArray[np.integer]:
        """Return the tokens of one segment."""
        start, length = (int(self.segments[name][number]) for name in ("start", "length"))
        return np.asarray(self.input_ids[self.segment_rows[number], start : start + length])

    def sentences_before(
        self, documents: NDArray[np.int64], places: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return how many sentences of a shard end before so many tokens of a document: (N,).

        Those of the documents before it count too: it is a place in `sentences.values`.

        Args:
            documents: (N,).
            places: (N,) from 0 to one more than the document's length.
        """
        before: NDArray[np.int64] = np.searchsorted(
            self._sentence_keys, documents * self._stride + places
        )
        return before

    def texts(
        self, documents: NDArray[np.int64], firsts: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
        """Return tokens of documents end to end, and how many each of them gave: fewer past its end.

        Args:
            documents: (N,).
            firsts: (N,) the first token that is wanted of each.
            counts: (N,) how many.
        """
        ptr, order = self._by_document.ptr, self._by_document.values
        keys, lasts = documents * self._stride, firsts + counts
        begin = np.searchsorted(self._segment_keys, keys + firsts, side="right") - 1
        end = np.searchsorted(self._segment_keys, keys + lasts)
        begin, end = np.maximum(begin, ptr[documents]), np.minimum(end, ptr[documents + 1])
        parts = np.maximum(end - begin, 0)
        owner, segment = np.repeat(np.arange(len(documents)), parts), order[ranges_of(begin, parts)]
        start, length, offset = (
            self.segments[name][segment].astype(np.int64) for name in ("start", "length", "doc_offset")
        )
        low = np.maximum(firsts[owner] - offset, 0)
        sizes = np.maximum(np.minimum(lasts[owner] - offset, length) - low, 0)
        places = self.segment_rows[segment] * self.input_ids.shape[1] + start + low
        given = np.bincount(owner, weights=sizes, minlength=len(documents)).astype(np.int64)
        return np.asarray(self.input_ids).reshape(-1)[ranges_of(places, sizes)], given
