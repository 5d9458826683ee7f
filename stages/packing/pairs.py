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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.kernels import kernel
from stages.packing.layout import Layout, layout_of
from stages.ragged import Ragged
from stages.seeding import Key, below, draw_u64, scale, threshold

_AT_ONCE = 1 << 16
"""Sentences whose draws are held at a time."""


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
    """Return the rows of documents with sentences.

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
        sizes = _sentence_sizes(lengths[first:last], part, longest=(row_length - 1) // 2)
        halves, room = _lay(sizes, lengths, first, budget=row_length - 1, rules=rules, key=key)
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
    """Yield ranges of documents of about `_AT_ONCE` sentences, or one longer document."""
    first = 0
    while first < len(ptr) - 1:
        last = int(np.searchsorted(ptr, ptr[first] + _AT_ONCE, side="right")) - 1
        yield first, max(last, first + 1)
        first = max(last, first + 1)


def _lay(
    sizes: Ragged,
    lengths: NDArray[np.int64],
    first: int,
    *,
    budget: int,
    rules: PairRules,
    key: Key,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return (row, start, length, doc, offset) of each half, (5, S), and the room of each row, (R,).

    Args:
        sizes: of some documents, the tokens of each sentence.
        lengths: of all documents.
        first: number of the first of these.
        budget: tokens of a row.
        rules: how chunks are made.
        key: of the draws.
    """
    short, target, borrows, cuts = _draws(sizes, key, first).T
    limits = np.where(below(short, threshold(rules.short_rate)), 2 + scale(target, budget - 1), budget)
    prepared = _SentenceSizes(
        sizes.ptr,
        sizes.values,
        limits,
        below(borrows, threshold(rules.borrow_rate)),
        np.ascontiguousarray(cuts),
    )
    some = lengths[first : first + len(sizes.ptr) - 1]
    halves, room = _cut(prepared, some, budget, 1 if rules.borrow_rate else 2)
    halves[:, 3] += first
    return halves.T.copy(), room


class _SentenceSizes(NamedTuple):
    """The sentences of some documents, and what is drawn for a chunk that begins with each."""

    ptr: NDArray[np.int64]
    sizes: NDArray[np.int64]
    """(S,) tokens."""
    limits: NDArray[np.int64]
    """(S,) tokens that the chunk aims at."""
    borrows: NDArray[np.bool_]
    cuts: NDArray[np.uint64]
    """(S,) draws of where it is cut."""


def _sentence_sizes(lengths: NDArray[np.int64], sentences: Ragged, *, longest: int) -> Ragged:
    """Return the tokens of each document's sentences, none longer than `longest`, its EOS left out.

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


def _draws(sizes: Ragged, key: Key, first: int) -> NDArray[np.uint64]:
    """Return four draws for each sentence of documents from number `first` on: (S, 4)."""
    counts = np.diff(sizes.ptr)
    documents = np.repeat(np.arange(first, first + len(counts)), counts).astype(np.uint64)
    within = np.arange(len(documents)) - np.repeat(sizes.ptr[:-1], counts)
    block = 2 * within.astype(np.uint64)
    even = draw_u64(key, documents, block=block)
    return np.hstack([even, draw_u64(key, documents, block=block + np.uint64(1))])


@kernel
def _cut(
    sentences: _SentenceSizes, lengths: NDArray[np.int64], budget: int, fewest: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return (row, start, length, doc, offset) of each half, (S, 5), and the room of each row, (R,).

    Args:
        sentences: of some documents.
        lengths: of these documents, EOS included.
        budget: tokens of a row.
        fewest: sentences that a chunk has if it can: 2 where nothing is ever borrowed, else 1.
    """
    ptr, sizes, at_least_two = sentences.ptr, sentences.sizes, fewest > 1
    halves = np.empty((len(sizes) + len(lengths), 5), np.int64)
    room = np.zeros(len(halves), np.int32)
    half = row = 0
    for doc in range(len(lengths)):
        first, end = ptr[doc], ptr[doc + 1]
        if first == end:
            halves[half] = row, 0, lengths[doc], doc, 0
            half, row = half + 1, row + 1
        offset = 0
        while first < end:
            last, total = first + 1, sizes[first]
            while last < end and total + sizes[last] <= sentences.limits[first]:
                total += sizes[last]
                last += 1
            if at_least_two:
                last = _at_least_two(sizes[first:end], last - first, budget) + first
            behind = first + 1 + _scaled(sentences.cuts[first], last - first - 1)
            whole = last - first > 1 and (at_least_two or not sentences.borrows[first])
            size = sizes[first:behind].sum()
            length = size if behind < end else lengths[doc] - offset  # the EOS goes with the last
            halves[half] = row, 0, length, doc, offset
            half += 1
            if whole:
                rest = sizes[behind:last].sum() if last < end else lengths[doc] - offset - size
                halves[half] = row, size, rest, doc, offset + size
                half += 1
                offset += size + rest
                first = last
            else:
                limit = sentences.limits[first]
                if not at_least_two:
                    room[row] = (limit if limit > size else budget) - size
                offset += length
                first = behind
            row += 1
    return halves[:half].copy(), room[:row].copy()


@kernel
def _at_least_two(sizes: NDArray[np.int64], last: int, budget: int) -> int:
    """Return how many sentences make a chunk of which each half needs one, as those behind it do."""
    count = len(sizes)
    last = max(last, min(2, count))
    if count - last != 1:
        return last
    if sizes.sum() <= budget:
        return count
    return last - 1 if last > 2 else last  # noqa: PLR2004  # two halves


@kernel
def _scaled(draw: np.uint64, size: int) -> int:
    """Return floor(draw * size / 2**64), as `seeding.scale` does; size is below 2**32."""
    factor, half = np.uint64(size), np.uint64(32)
    low = (draw & np.uint64(0xFFFFFFFF)) * factor >> half
    return np.int64(((draw >> half) * factor + low) >> half)  # type: ignore[return-value]
