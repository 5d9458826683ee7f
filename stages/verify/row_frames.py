"""Frames and losses of rows: what stands at their ends, and which of their tokens have a loss.

Whether a row needs an end of its own follows from the lengths of documents in the token store, and not
from what the dataset says of it.

Loss masks: tokens have a loss where the sections of their documents say so, and nothing else has one.

    sections    p p p t t E        the token store's; the second has a loss
    wanted      0 0 0 1 1 1
    found       0 0 0 1 1 1        put together again from the mask of the rows

Documents are put together from the rows as their tokens are, so nothing here follows the code that laid
the mask out.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stages.findings import Finding
from stages.ragged import Ragged, batches
from stages.verify.mechanics import BLOCK_TOKENS, Reassembly, SegmentedRows


def check_row_frames(
    rows: SegmentedRows,
    added_end: NDArray[np.integer],
    *,
    lengths: NDArray[np.int64],
    frame: Mapping[str, int],
) -> list[Finding]:
    """Every row has its frame, once, at its ends; an end is added where a document goes on.

    Args:
        rows: with sound segments.
        added_end: (R,) 1 for rows whose last id is no document's.
        lengths: (D,) tokens of each document in the token store.
        frame: the ids around each row, by side.
    """
    ids, row_ptr = rows.input_ids, rows.segments["row_ptr"]
    if not len(ids):
        return []
    first, last = row_ptr[:-1], row_ptr[1:] - 1
    start, length, doc, offset = (
        rows.segments[name][last] for name in ("start", "length", "doc", "doc_offset")
    )
    end, begin = frame["end"], frame.get("begin")
    begins, single = int(begin is not None), first == last
    own = length - np.where(single, begins, 0)
    added = np.asarray(added_end, np.int64)
    empty = (own - added < 1) | (~single & (rows.segments["length"][first] - begins < 1))
    whole = offset + own == lengths[doc]
    closing = np.asarray(ids[np.arange(len(ids)), start + length - 1])
    found = [
        _finding("row_end", closing != end, f"do not end in the id {end}, which is to end each"),
        _finding(
            "added_end",
            added != ~whole,
            "are not as said: an id is added at the end of rows whose last document goes on, and of no"
            " others",
        ),
        _finding("row_frame", empty, "have a segment without a token of its document"),
    ]
    if begin is not None:
        what = f"do not begin with the id {begin}, which is to begin each, or have it elsewhere too"
        found.append(_finding("row_begin", ~_begun_once(ids, begin), what))
    return [finding for finding in found if finding is not None]


def _begun_once(ids: NDArray[np.integer], begin: int) -> NDArray[np.bool_]:
    """Say which rows have an id at their first place and nowhere else: (R,) bool."""
    once, step = np.empty(len(ids), np.bool_), max(1, BLOCK_TOKENS // ids.shape[1])
    for start in range(0, len(ids), step):
        there = np.asarray(ids[start : start + step]) == begin
        once[start : start + step] = there[:, 0] & (np.count_nonzero(there, axis=1) == 1)
    return once


def _finding(check: str, wrong: NDArray[np.bool_], what: str) -> Finding | None:
    """Return a finding for the rows that are wrong, if any are."""
    if not wrong.any():
        return None
    count = f"{np.count_nonzero(wrong):,} of {len(wrong):,} rows"
    return Finding(check, f"{count} {what}; the first is row {np.argmax(wrong)}")


_BATCH_TOKENS = 1 << 18
"""Tokens of documents that are compared together."""


def check_loss_mask(
    mask: SegmentedRows,
    *,
    lengths: NDArray[np.int64],
    sections: Ragged,
    learned: NDArray[np.bool_],
) -> list[Finding]:
    """Each document has the losses that its sections say, and no padding has one.

    Args:
        mask: the loss mask in the place of ids, with sound segments that hold each document whole.
        lengths: (D,) tokens of each document.
        sections: of each document, after how many of its tokens each ends, the last with its length.
        learned: (S,) of each section, whether it has a loss.
    """
    found = Reassembly(mask, lengths)
    wrong = documents = marked = 0
    example = -1
    for first, last in batches(lengths, _BATCH_TOKENS):
        low, high = sections.ptr[first], sections.ptr[last]
        inner = sections.ptr[first:last] - low
        sizes = np.diff(sections.values[low:high], prepend=0)
        sizes[inner] = sections.values[low:high][inner]
        flags = found.tokens(first, last)
        marked += int(np.count_nonzero(flags))
        differ = np.cumsum(flags != np.repeat(learned[low:high], sizes))
        counts = np.diff(np.concatenate([[0], differ])[np.cumsum(lengths[first:last])], prepend=0)
        if counts.any() and example < 0:
            example = first + int(np.argmax(counts > 0))
        wrong, documents = wrong + int(counts.sum()), documents + int(np.count_nonzero(counts))
    findings = []
    if wrong:
        message = (
            f"{wrong:,} tokens of {documents:,} documents have a loss and are to have none, or the other"
            f" way round; the first is in document {example}"
        )
        findings.append(Finding("loss_mask", message))
    outside = _count_marked(mask.input_ids) - marked
    if outside:
        findings.append(Finding("loss_mask", f"{outside:,} positions of padding have a loss"))
    return findings


def _count_marked(mask: NDArray[np.integer]) -> int:
    """Count the positions of a mask that are not 0, some rows at a time."""
    step = max(1, _BATCH_TOKENS // max(1, mask.shape[1]))
    return sum(int(np.count_nonzero(mask[n : n + step])) for n in range(0, len(mask), step))
