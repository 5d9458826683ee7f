"""Row frames: ids that begin and end each row, and that belong to no document.

    documents A A A A A E and B E, rows of 6, begin [, end E

    row             [ A A A A E | [ A E B E .      the first row's end is added; the second has its own
    segments        6             3 2               the ids of a frame lie in the segments beside them
    own parts       1..4          1..2 3..4         what of each segment its document has
    added_end       1             0

Every row ends in the end id: that of its last document, if the document ends there, else an added one.
So each chunk of a document takes one position behind its text, and a document that fits but for its own
end is not cut. No chunk is an end alone.

Source: Liu et al. 2019, "RoBERTa", section 4.2 (arXiv 1907.11692): rows of several documents begin and
end once, and a separator stands between documents; Devlin et al. 2019, "BERT", section 3.1 (arXiv
1810.04805), for a row of one.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stages.packing.layout import Layout, Packer
from stages.ragged import Ragged


def begins_of(frame: Mapping[str, int] | None) -> int:
    """Return how many ids a frame puts before each row: 0 or 1."""
    return int(frame is not None and "begin" in frame)


def pack_closed(
    pack: Packer, lengths: NDArray[np.int64], *, row_length: int, sentences: Ragged | None = None
) -> Layout:
    """Return the layout of documents in rows that have room for an end behind each chunk.

    lengths 6 2, rows of 5, concat:  A A A A . | A E B E .      the frame is added by `frame_rows`

    Args:
        pack: what lays documents out, with room of one token left behind each chunk.
        lengths: (D,) tokens of each document, its end included.
        row_length: tokens in a row, without what begins it.
        sentences: as `pack` takes them.
    """
    # The end of a document is the room behind its last chunk. One of an end alone counts as one of a
    # token, and takes a position too many.
    texts = np.maximum(lengths - 1, np.minimum(lengths, 1))
    laid = pack(texts, row_length=row_length, growth=1, sentences=sentences)
    closes = (laid.doc_offset + laid.length == texts[laid.doc]) & (lengths > 1)[laid.doc]
    return _with_lengths(laid, laid.length + closes, row_length=row_length)


def frame_rows(
    layout: Layout, lengths: NDArray[np.int64], *, row_length: int, begins: int
) -> tuple[Layout, NDArray[np.uint8]]:
    """Return a layout whose segments hold the frames of their rows, and which rows got an end: (R,).

    Args:
        layout: of documents alone, with room for the frames; a chunk that another row continues is the
            last of its row.
        lengths: (D,) tokens of each document, its end included.
        row_length: tokens in a row, with what begins it.
        begins: ids before each row, 0 or 1.
    """
    first, last = layout.row_ptr[:-1], layout.row_ptr[1:] - 1
    cut = layout.doc_offset + layout.length != lengths[layout.doc]
    added = cut[last]
    assert np.count_nonzero(cut) == np.count_nonzero(added), "only the last piece of a row may go on"
    framed = layout.length.astype(np.int64)
    framed[first] += begins
    framed[last] += added
    return _with_lengths(layout, framed, row_length=row_length), added.astype(np.uint8)


def _with_lengths(layout: Layout, length: NDArray[np.int64], *, row_length: int) -> Layout:
    """Return a layout of longer segments, those of a row one behind the other."""
    ends = np.cumsum(length, dtype=np.int64)
    start = ends - length
    if len(start):
        start -= np.repeat(start[layout.row_ptr[:-1]], np.diff(layout.row_ptr))
        assert (start + length).max() <= row_length, "a row has no room for its frame"
    return Layout(
        row_length=row_length,
        row_ptr=layout.row_ptr,
        start=start.astype(np.int32),
        length=length.astype(np.int32),
        doc=layout.doc,
        doc_offset=layout.doc_offset,
    )


def own_parts(
    segments: Mapping[str, NDArray[np.integer]], added_end: NDArray[np.integer], *, begins: int
) -> dict[str, NDArray[np.integer]]:
    """Return segments without the frames of their rows: what is a document's own.

    Args:
        segments: row_ptr (R + 1,), each row with a segment; start and length (S,); others are kept.
        added_end: (R,) 1 for rows whose last id is added.
        begins: ids before each row, 0 or 1.
    """
    row_ptr = np.asarray(segments["row_ptr"], np.int64)
    start, length = (np.array(segments[name], np.int64) for name in ("start", "length"))
    start[row_ptr[:-1]] += begins
    length[row_ptr[:-1]] -= begins
    length[row_ptr[1:] - 1] -= np.asarray(added_end, np.int64)
    return {**segments, "start": start, "length": length}


def own_layout(layout: Layout, added_end: NDArray[np.integer], *, begins: int) -> Layout:
    """Return a framed layout without its frames: rows no longer begin at their first place."""
    parts = {name: getattr(layout, name) for name in ("row_ptr", "start", "length")}
    own = own_parts(parts, added_end, begins=begins)
    return Layout(
        row_length=layout.row_length,
        row_ptr=layout.row_ptr,
        start=own["start"].astype(np.int32),
        length=own["length"].astype(np.int32),
        doc=layout.doc,
        doc_offset=layout.doc_offset,
    )


def framed_prompts(
    prompts: NDArray[np.int32], first: NDArray[np.int64], *, begins: int
) -> NDArray[np.int32]:
    """Return prompts that show what begins their row too: (S,) int32.

    Args:
        prompts: (S,) tokens of each segment before its document's target; 0 if it has none of its own.
        first: the segments that begin a row.
        begins: ids before each row, 0 or 1.
    """
    shown = prompts.copy()
    shown[first] += np.where(shown[first] > 0, begins, 0).astype(np.int32)
    return shown
