"""Documents of several sections in rows: a prompt with its target, a text with others that belong to it.

    document     p p p t t E          E is the EOS; sections end after 3 and 6 tokens
    prompts      3                    the prompt is all sections but the last
    learned      - +                  the target alone, unless the source flags its sections itself
    side by side [p p p][t t E]       one row, a segment for each section

A document of one section has nothing to tell apart: its prompt is 0, and its rows have one segment each.
"""

import numpy as np
from numpy.typing import NDArray

from stages.packing.layout import Layout, layout_of, stack_layouts
from stages.packing.single import pack_single
from stages.ragged import Ragged, ranges_of


def learned_sections(sections: Ragged) -> NDArray[np.bool_]:
    """Return which sections have a loss where no source says so: the last of each document, (S,).

    ends [3 6] [4] -> [False True] [True]

    Args:
        sections: of each document, after how many of its tokens each ends.
    """
    learned = np.zeros(len(sections.values), np.bool_)
    learned[sections.ptr[1:][np.diff(sections.ptr) > 0] - 1] = True
    return learned


def learned_ranges(
    layout: Layout, sections: Ragged, learned: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where runs of tokens with a loss begin in the rows, end to end, and how long each is: (N,).

    document      p p p t t E           sections end after 3 and 6 tokens, the second has a loss
    rows of 5     p p p t t  E . . . .
    runs          places 3 and 5, of 2 tokens and 1

    Args:
        layout: any.
        sections: of each document, after how many of its tokens each ends, the last with its length.
        learned: (S,) of each section, whether it has a loss.
    """
    counts = np.diff(sections.ptr)
    lengths = np.zeros(len(counts), np.int64)
    lengths[counts > 0] = sections.values[sections.ptr[1:][counts > 0] - 1]
    base = np.cumsum(lengths) - lengths  # documents end to end, so that sections are too
    ends = np.repeat(base, counts) + sections.values
    begins = np.concatenate([np.zeros(1, np.int64), ends])[:-1]
    begins, ends = begins[learned], ends[learned]
    head = base[layout.doc] + layout.doc_offset
    tail = head + layout.length
    first = np.searchsorted(ends, head, side="right")
    found = np.maximum(np.searchsorted(begins, tail) - first, 0)
    segment, section = np.repeat(np.arange(len(head)), found), ranges_of(first, found)
    low = np.maximum(begins[section], head[segment])
    high = np.minimum(ends[section], tail[segment])
    places = layout.segment_rows() * layout.row_length + layout.start - head
    return places[segment] + low, high - low


def prompt_lengths(layout: Layout, sections: Ragged) -> NDArray[np.int32]:
    """Return how many tokens of each segment stand before its document's target: (S,) int32.

    A chunk that begins behind the prompt shows its first token as one, so that it has something to go
    on; a chunk that lies within the prompt is prompt alone. 0: the document has no target of its own.

    Args:
        layout: any.
        sections: of each document, after how many of its tokens each ends.
    """
    counts = np.diff(sections.ptr)
    prompts = np.zeros(len(counts), np.int64)
    several = counts > 1
    prompts[several] = sections.values[sections.ptr[1:][several] - 2]
    behind = prompts[layout.doc] - layout.doc_offset
    lengths = np.clip(behind, 1, np.maximum(layout.length, 1))
    return np.where(several[layout.doc], lengths, 0).astype(np.int32)


def pack_side_by_side(
    lengths: NDArray[np.int64], sections: Ragged, *, count: int, row_length: int, stored: int
) -> Layout:
    """Return the layout of rows of one document each, with a segment for each of its sections.

    A document that has not `count` sections, or one that is empty or too long for a row of one text, is
    laid out as a text without sections is: in as few chunks as such rows hold, none of them cut off.

    Args:
        lengths: (D,) tokens of each document, its EOS included.
        sections: of each document, after how many of its tokens each ends.
        count: sections of a row.
        row_length: tokens of one text and its EOS.
        stored: tokens of a row that holds `count` such texts, and one EOS.
    """
    ends, owner = sections.values, np.repeat(np.arange(len(lengths)), np.diff(sections.ptr))
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    starts[sections.ptr[:-1][np.diff(sections.ptr) > 0]] = 0
    sizes = ends - starts
    is_last = np.zeros(len(ends), np.bool_)
    is_last[sections.ptr[1:][np.diff(sections.ptr) > 0] - 1] = True
    unfit = (sizes - is_last >= row_length) | (sizes - is_last < 1)
    whole = np.diff(sections.ptr) == count
    whole &= np.bincount(owner[unfit], minlength=len(lengths)) == 0
    singles = pack_single(lengths[~whole], row_length=row_length)
    inside = whole[owner]
    rows = np.cumsum(whole) - 1
    laid = layout_of(
        rows[owner[inside]],
        row_length=stored,
        num_rows=int(np.count_nonzero(whole)),
        start=starts[inside],
        length=sizes[inside],
        doc=rows[owner[inside]],
        doc_offset=starts[inside],
    )
    members = [np.flatnonzero(~whole), np.flatnonzero(whole)]
    return stack_layouts([singles, laid], members, row_length=stored)
