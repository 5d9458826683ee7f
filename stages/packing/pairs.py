"""Rows of sentences in two halves: what is learned from whether two pieces of text belong together.

    sentences of a document   s0 s1 s2 s3 s4 s5 s6
    rows                      [s0 s1 | s2]  [s3 | ...]  [s4 | s5]  [s6]
                              both halves   borrows     both       stands alone

Greedily a chunk takes sentences while they fit its target length; a cut behind any of them but the last
divides it. A row that borrows keeps the first half of its chunk and names how many tokens of another
document it has room for; the sentences behind its cut go into the next chunk, so no token of a document
is lost or repeated. Which rows borrow is laid out, like the cuts; from whom, is drawn in each epoch.

A sentence longer than half a row is cut into pieces of like length, which count as sentences. Draws are
keyed by the document's number in the shard and the number i of the chunk's first sentence: u64[0] and
u64[1] of block 2 i, then of block 2 i + 1:

    target    below T(short_rate): 2 + floor(u (T - 1) / 2**64) tokens, else all T of a row
    borrows   below T(borrow_rate), or if the chunk has a single sentence
    cut       behind sentence 1 + floor(u (m - 1) / 2**64) of m

Where nothing is ever borrowed, a chunk takes two sentences if it can, whatever its target; of a last one
that would be left alone it takes care: it takes that too if it fits, else leaves another with it.

Source: Devlin et al. 2019, "BERT", section 3.1 and appendix A.2, arXiv 1810.04805. We leave it in this:
a chunk is closed before it passes its target, so that no text has to be cut off.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.packing.layout import Layout, layout_of
from stages.ragged import Ragged
from stages.seeding import Key, draw_u64, threshold

_AT_ONCE = 1 << 16
"""Sentences whose draws are held at a time."""
_Half = tuple[int, int]
"""(first, last) sentence."""


@dataclass(frozen=True)
class PairRules:
    """How chunks are made."""

    short_rate: float
    """Share of the chunks with a target length of their own."""
    borrow_rate: float
    """Share of the chunks whose second half comes from another document; 0: none ever does."""


@dataclass(frozen=True, eq=False)
class PairLayout:
    """R rows of one or two segments, both of the same document.

    Args:
        layout: where the halves lie; documents keep their EOS, for which each row has one more place.
        room: (R,) int32, tokens that the borrowed second half may have; 0 where nothing is borrowed.
    """

    layout: Layout
    room: NDArray[np.int32]


def pack_pairs(
    lengths: NDArray[np.int64], sentences: Ragged, *, row_length: int, rules: PairRules, key: Key
) -> PairLayout:
    """Give the rows of documents with sentences.

    Args:
        lengths: (D,) tokens of each document, its EOS included.
        sentences: of each document, after how many of its tokens each ends; the last is all of them.
        row_length: tokens of a stored row, one of them for an EOS.
        rules: how chunks are made.
        key: of the draws.
    """
    laid, rooms, rows = [], [], 0
    for first, last in _ranges(sentences.ptr):
        part = sentences.take(np.arange(first, last))
        pieces = _pieces(lengths[first:last], part, longest=(row_length - 1) // 2)
        halves, room = _lay(pieces, lengths, first, budget=row_length - 1, rules=rules, key=key)
        halves[0] += rows
        rows += len(room)
        laid.append(halves)
        rooms.append(room)
    row, start, length, doc, offset = np.concatenate([np.empty((5, 0), np.int64), *laid], axis=1)
    layout = layout_of(
        row,
        row_length=row_length,
        num_rows=rows,
        start=start,
        length=length,
        doc=doc,
        doc_offset=offset,
    )
    return PairLayout(layout, np.concatenate([np.empty(0, np.int32), *rooms]))


def _ranges(ptr: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Give ranges of documents of about `_AT_ONCE` sentences, or one longer document."""
    first = 0
    while first < len(ptr) - 1:
        last = int(np.searchsorted(ptr, ptr[first] + _AT_ONCE, side="right")) - 1
        yield first, max(last, first + 1)
        first = max(last, first + 1)


def _lay(
    pieces: Ragged,
    lengths: NDArray[np.int64],
    first: int,
    *,
    budget: int,
    rules: PairRules,
    key: Key,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Give (row, start, length, doc, offset) of each half, (5, S), and the room of each row, (R,).

    Args:
        pieces: of some documents, the tokens of each sentence.
        lengths: of all documents.
        first: number of the first of these.
        budget: tokens of a row.
        rules: how chunks are made.
        key: of the draws.
    """
    draws = _draws(pieces, key, first)
    halves: list[tuple[int, int, int, int, int]] = []
    room: list[int] = []
    for number in range(len(pieces.ptr) - 1):
        sizes, total = pieces[number].tolist(), int(lengths[first + number])
        drawn = draws[pieces.ptr[number] : pieces.ptr[number + 1]].tolist()
        ends = np.cumsum([0, *sizes]).tolist()
        ends[-1] = total  # the EOS goes with the last sentence
        rows = _chunks(sizes, drawn, budget=budget, rules=rules)
        for row, spare in rows if sizes else [([(-1, 0)], 0)]:
            begin = ends[row[0][0]] if sizes else 0
            for half_first, half_last in row:
                offset = ends[half_first] if sizes else 0
                size = ends[half_last] - offset
                halves.append((len(room), offset - begin, size, first + number, offset))
            room.append(spare)
    laid = np.array(halves, np.int64).reshape(-1, 5).T.copy()
    return laid, np.array(room, np.int32)


def _pieces(lengths: NDArray[np.int64], sentences: Ragged, *, longest: int) -> Ragged:
    """Give the tokens of each document's sentences, none longer than `longest`, its EOS left out.

    [5 9 12] of 12 tokens, longest 3 -> [2 3 2 2 2]
    """
    values = sentences.values.copy()
    counts = np.diff(sentences.ptr)
    last = sentences.ptr[1:][counts > 0] - 1
    values[last] = lengths[counts > 0] - 1
    sizes = np.diff(values, prepend=0)
    sizes[sentences.ptr[:-1][counts > 0]] = values[sentences.ptr[:-1][counts > 0]]
    parts = np.maximum(-(-sizes // longest), 0)
    owner = np.repeat(np.arange(len(sizes)), parts)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(parts) - parts, parts)
    share = (within + 1) * sizes[owner] // parts[owner] - within * sizes[owner] // parts[owner]
    ptr = np.concatenate([[0], np.cumsum(parts)])[sentences.ptr]
    return Ragged(ptr, share)


def _draws(pieces: Ragged, key: Key, first: int) -> NDArray[np.uint64]:
    """Give four draws for each sentence of documents from number `first` on: (S, 4)."""
    counts = np.diff(pieces.ptr)
    documents = np.repeat(np.arange(first, first + len(counts)), counts).astype(np.uint64)
    within = np.arange(len(documents)) - np.repeat(pieces.ptr[:-1], counts)
    block = 2 * within.astype(np.uint64)
    even = draw_u64(key, documents, block=block)
    return np.hstack([even, draw_u64(key, documents, block=block + np.uint64(1))])


def _chunks(
    sizes: list[int], draws: list[list[int]], *, budget: int, rules: PairRules
) -> Iterator[tuple[list[_Half], int]]:
    """Give the halves of each row of a document, and the room that a borrowed half has."""
    short, borrow = threshold(rules.short_rate), threshold(rules.borrow_rate)
    first, count = 0, len(sizes)
    while first < count:
        is_short, target, borrows, cut = draws[first]
        limit = 2 + (target * (budget - 1) >> 64) if is_short < short else budget
        last, total = first + 1, sizes[first]
        while last < count and total + sizes[last] <= limit:
            total += sizes[last]
            last += 1
        if not rules.borrow_rate:
            last = _never_alone(sizes, first, last, budget=budget)
        behind = first + 1 + (cut * (last - first - 1) >> 64)
        if last - first > 1 and (borrows >= borrow or not rules.borrow_rate):
            yield [(first, behind), (behind, last)], 0
            first = last
        else:
            held = sum(sizes[first:behind])
            room = limit - held if limit > held else budget - held
            yield [(first, behind)], room if rules.borrow_rate else 0
            first = behind


def _never_alone(sizes: list[int], first: int, last: int, *, budget: int) -> int:
    """Give the end of a chunk of which each half needs a sentence, as those behind it do."""
    count = len(sizes)
    last = max(last, min(first + 2, count))
    if count - last != 1:
        return last
    if sum(sizes[first:]) <= budget:
        return count
    return last - 1 if last - first > 2 else last  # noqa: PLR2004  # two halves
