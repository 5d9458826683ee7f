"""Merging the symbols of a word: of all pairs that give a piece the best first, of equals the leftmost.

    " cat"    " " "c" "a" "t"   ->   " " "c" "at"   ->   " c" "at"   ->   " cat"

A short word is looked through for its best pair again and again; a long one keeps its pairs in a heap.
Both give the same.

Source: Kudo and Richardson 2018, SentencePiece, https://arxiv.org/abs/1808.06226; its `bpe_model.cc` for
the order of pairs of one score.

Merges: which two symbols become which, and which merge comes first.

    t h -> th     rank 0          symbols are numbers: ids, or characters without one
    th e -> the   rank 1

M merges, in P slots of a hash table.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.byte_kernels import first_slot, next_slot
from stages.hashing import GOLDEN
from stages.kernels import lean_kernel

MISSING = -1
_MIX = np.uint64(0xC2B2AE3D27D4EB4F)
_HALF = np.uint64(32)
_NO_PAIR = np.uint64(0xFFFFFFFFFFFFFFFF)


class Merges(NamedTuple):
    """Two symbols that merge, in each slot."""

    pairs: NDArray[np.uint64]
    """(P,) left << 32 | right; all bits set in an empty slot."""
    results: NDArray[np.int32]
    """(P, 2) rank of the merge, the best 0, and the id that it gives."""


def merges_of(pairs: NDArray[np.int32], ranks: NDArray[np.int32], ids: NDArray[np.int32]) -> Merges:
    """Return the table of merges.

    Args:
        pairs: (M, 2) symbols; no two alike.
        ranks: (M,) of each.
        ids: (M,) that each gives.
    """
    room = 1 << max(4, (2 * len(pairs)).bit_length())
    made = Merges(np.full(room, _NO_PAIR, np.uint64), np.empty((room, 2), np.int32))
    fill_merges(pairs, ranks, ids, made)
    return made


@lean_kernel
def hash_pair(left: int, right: int) -> np.uint64:
    """Return 64 bits of two symbols, of which the high ones depend on all."""
    bits = (np.uint64(left) << _HALF | np.uint64(right)) * GOLDEN
    return np.uint64((bits ^ bits >> _HALF) * _MIX)


@lean_kernel
def find_merge(left: int, right: int, merges: Merges) -> int:
    """Return the slot of two symbols that merge, or `MISSING`."""
    pairs, wanted = merges.pairs, np.uint64(left) << _HALF | np.uint64(right)
    slot = first_slot(hash_pair(left, right) >> _HALF, pairs)
    while True:
        if pairs[slot] == wanted:
            return np.int64(slot)  # type: ignore[return-value]
        if pairs[slot] == _NO_PAIR:
            return MISSING
        slot = next_slot(slot, pairs)


@lean_kernel
def fill_merges(
    pairs: NDArray[np.int32], ranks: NDArray[np.int32], ids: NDArray[np.int32], made: Merges
) -> None:
    """Put merges into their table, whose slots are empty."""
    for each in range(len(pairs)):
        slot = first_slot(hash_pair(pairs[each, 0], pairs[each, 1]) >> _HALF, made.pairs)
        while made.pairs[slot] != _NO_PAIR:
            slot = next_slot(slot, made.pairs)
        made.pairs[slot] = np.uint64(pairs[each, 0]) << _HALF | np.uint64(pairs[each, 1])
        made.results[slot, 0], made.results[slot, 1] = ranks[each], ids[each]


LONGEST_WORD = 1 << 16
"""Symbols of the longest word there is room for."""
_SHORT = 24
"""Symbols up to which a word counts as short."""
_NONE = np.int32(0x7FFFFFFF)
_RANK = np.int64(32)


class WordScratch(NamedTuple):
    """Room for the work on one word of at most n symbols."""

    symbols: NDArray[np.int32]
    begins: NDArray[np.int64]
    """(n + 1,) the byte at which each symbol begins, and the word ends."""
    before: NDArray[np.int32]
    after: NDArray[np.int32]
    """(n,) the symbols beside each, or -1."""
    ranks: NDArray[np.int32]
    """(n,) of the pair that each begins."""
    results: NDArray[np.int32]
    """(n,) what that pair gives."""
    heap: NDArray[np.int64]
    """(3 * n,) rank << 32 | symbol."""


def word_scratch(longest: int = LONGEST_WORD) -> WordScratch:
    """Return room for words of so many symbols."""
    symbols, before, after, ranks, results = np.empty((5, longest), np.int32)
    begins, heap = np.empty(longest + 1, np.int64), np.empty(3 * longest, np.int64)
    return WordScratch(symbols, begins, before, after, ranks, results, heap)


@lean_kernel
def merge_word(count: int, merges: Merges, scratch: WordScratch) -> int:
    """Merge the first `count` symbols; return how many are left, which then lie side by side."""
    if count <= _SHORT:
        return _merge_short(count, merges, scratch)
    return _merge_long(count, merges, scratch)


@lean_kernel
def _look_up(place: int, behind: int, merges: Merges, scratch: WordScratch) -> None:
    """Find what a symbol gives with the one behind it."""
    scratch.ranks[place] = _NONE
    slot = find_merge(scratch.symbols[place], scratch.symbols[behind], merges)
    if slot != MISSING:
        scratch.ranks[place], scratch.results[place] = merges.results[slot, 0], merges.results[slot, 1]


@lean_kernel
def _merge_short(count: int, merges: Merges, scratch: WordScratch) -> int:
    symbols, begins, ranks, results = scratch.symbols, scratch.begins, scratch.ranks, scratch.results
    for place in range(count - 1):
        _look_up(place, place + 1, merges, scratch)
    while count > 1:
        best, at = _NONE, -1
        for place in range(count - 1):
            if ranks[place] < best:
                best, at = ranks[place], place
        if at < 0:
            break
        symbols[at] = results[at]
        for place in range(at + 1, count - 1):
            symbols[place], begins[place] = symbols[place + 1], begins[place + 1]
            ranks[place], results[place] = ranks[place + 1], results[place + 1]
        begins[count - 1] = begins[count]
        count -= 1
        for place in range(max(0, at - 1), min(at + 1, count - 1)):
            _look_up(place, place + 1, merges, scratch)
    return count


@lean_kernel
def _merge_long(count: int, merges: Merges, scratch: WordScratch) -> int:
    symbols, begins, ranks = scratch.symbols, scratch.begins, scratch.ranks
    before, after, heap, size = scratch.before, scratch.after, scratch.heap, 0
    for place in range(count):
        before[place], after[place] = place - 1, place + 1
    after[count - 1] = -1
    ranks[count - 1] = _NONE
    for place in range(count - 1):
        _look_up(place, place + 1, merges, scratch)
        size = _push(place, size, ranks, heap)
    while size:
        top = heap[0]
        size = _pop(heap, size)
        place = top & 0xFFFFFFFF
        if ranks[place] != top >> _RANK:  # it was merged meanwhile, or begins another pair by now
            continue
        gone = after[place]
        symbols[place], after[place] = scratch.results[place], after[gone]
        ranks[gone] = ranks[place] = _NONE
        if after[gone] >= 0:
            before[after[gone]] = place
            _look_up(place, after[gone], merges, scratch)
            size = _push(place, size, ranks, heap)
        if before[place] >= 0:
            _look_up(before[place], place, merges, scratch)
            size = _push(before[place], size, ranks, heap)
    left, place, end = 0, 0, begins[count]
    while place >= 0:
        symbols[left], begins[left] = symbols[place], begins[place]
        left, place = left + 1, after[place]
    begins[left] = end
    return left


@lean_kernel
def _push(place: int, size: int, ranks: NDArray[np.int32], heap: NDArray[np.int64]) -> int:
    """Put the pair that a symbol begins on the heap, if it gives a piece; return the heap's size."""
    if ranks[place] == _NONE:
        return size
    value, at = np.int64(ranks[place]) << _RANK | np.int64(place), size
    while at > 0 and heap[(at - 1) >> 1] > value:
        heap[at] = heap[(at - 1) >> 1]
        at = (at - 1) >> 1
    heap[at] = value
    return size + 1


@lean_kernel
def _pop(heap: NDArray[np.int64], size: int) -> int:
    """Take the least off the heap; return the heap's size."""
    size -= 1
    value, at = heap[size], 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = value
    return size
