"""Pairs: which two symbols stand side by side in words, where, and how often in each language.

    words    t h e (5 times)    t h a t (2)
    pairs    t h  7    h e  5    h a  2    a t  2
    merged   th e (5)    th a t (2)                 new pairs: th e  5    th a  2

W words of N symbols together, L languages, P pairs, O places of pairs. A merge adds at most two places
for each two symbols that become one, so 3 N places are enough.

Source: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units"
(arXiv 1508.07909), whose counts are updated in place here, too.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.byte_kernels import EMPTY, first_slot, next_slot
from stages.kernels import lean_kernel
from stages.tokenizer.bpe.merging import hash_pair

NOTHING = -1
"""No symbol, no place."""
_HALF = np.uint64(32)
_PAIRS, _PLACES = 0, 1


class PairTable(NamedTuple):
    """Words, and the pairs in them."""

    symbols: NDArray[np.int32]
    """(N,) or `NOTHING` where one was merged into the one before it."""
    before: NDArray[np.int32]
    after: NDArray[np.int32]
    """(N,) the symbols beside each in its word, or `NOTHING`."""
    word_of: NDArray[np.int32]
    """(N,) the word of each."""
    weights: NDArray[np.int64]
    """(W, L) how often each word counts."""
    slots: NDArray[np.int32]
    """(S,) hash table of pairs."""
    pairs: NDArray[np.int32]
    """(P, 2) left and right symbol."""
    counts: NDArray[np.int64]
    """(P, L)."""
    heads: NDArray[np.int32]
    tails: NDArray[np.int32]
    """(P,) the first and the last place of each pair."""
    places: NDArray[np.int32]
    """(O,) where a pair begins; it may be there no more."""
    later: NDArray[np.int32]
    """(O,) the next place of the same pair, or `NOTHING`."""
    used: NDArray[np.int64]
    """(2,) pairs and places that are filled in."""


def pair_table(
    symbols: NDArray[np.int32], sizes: NDArray[np.int64], weights: NDArray[np.int64]
) -> PairTable:
    """Return the pairs of words.

    Args:
        symbols: (N,) of all words, end to end.
        sizes: (W,) how many each word has, at least one.
        weights: (W, L) how often each word counts in each language.
    """
    count, languages = len(symbols), weights.shape[1]
    ends = np.cumsum(sizes)
    before = np.arange(-1, count - 1, dtype=np.int32)
    after = np.arange(1, count + 1, dtype=np.int32)
    before[ends - sizes], after[ends - 1] = NOTHING, NOTHING
    word_of = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    most = max(1, 3 * count)
    heads, tails, places, later = np.empty((4, most), np.int32)
    slots = np.full(1 << max(4, (2 * count).bit_length()), EMPTY, np.int32)
    table = PairTable(
        symbols=symbols.astype(np.int32),
        before=before,
        after=after,
        word_of=word_of,
        weights=weights,
        slots=slots,
        pairs=np.empty((most, 2), np.int32),
        counts=np.zeros((most, languages), np.int64),
        heads=heads,
        tails=tails,
        places=places,
        later=later,
        used=np.zeros(2, np.int64),
    )
    add_pairs(table)
    return table


def merge_pair(pair: int, symbol: int, table: PairTable) -> tuple[PairTable, range]:
    """Put one symbol for a pair wherever it stands; return the table, and the pairs that are new."""
    first = int(table.used[_PAIRS])
    if 2 * (first + 2 * int(count_places(pair, table))) > len(table.slots):
        table = table._replace(slots=np.full(4 * len(table.slots), EMPTY, np.int32))
        fill_slots(table)
    merge_places(pair, symbol, table)
    return table, range(first, int(table.used[_PAIRS]))


@lean_kernel
def add_pairs(table: PairTable) -> None:
    """Add the pairs of all words."""
    for place in range(len(table.symbols)):
        if table.after[place] != NOTHING:
            _add(place, table)


@lean_kernel
def fill_slots(table: PairTable) -> None:
    """Put all pairs into the hash table, which is empty."""
    for pair in range(table.used[_PAIRS]):
        table.slots[_slot(table.pairs[pair, 0], table.pairs[pair, 1], table)] = pair


@lean_kernel
def count_places(pair: int, table: PairTable) -> int:
    """Return at how many places a pair stood."""
    count, entry = 0, table.heads[pair]
    while entry != NOTHING:
        entry = table.later[entry]
        count += 1
    return count


@lean_kernel
def merge_places(pair: int, symbol: int, table: PairTable) -> None:
    """Put one symbol for a pair at all of its places, from the first on."""
    left, right = table.pairs[pair, 0], table.pairs[pair, 1]
    symbols, before, after = table.symbols, table.before, table.after
    entry = table.heads[pair]
    while entry != NOTHING:
        place = table.places[entry]
        entry = table.later[entry]
        behind = after[place]
        if symbols[place] != left or behind == NOTHING or symbols[behind] != right:
            continue  # one of the two was merged meanwhile
        _remove(place, table)
        if before[place] != NOTHING:
            _remove(before[place], table)
        if after[behind] != NOTHING:
            _remove(behind, table)
        symbols[place], symbols[behind] = symbol, NOTHING
        after[place] = after[behind]
        if after[place] != NOTHING:
            before[after[place]] = place
            _add(place, table)
        if before[place] != NOTHING:
            _add(before[place], table)


@lean_kernel
def _slot(left: int, right: int, table: PairTable) -> np.uint64:
    """Return the slot of a pair, or the empty one to put it in."""
    slot = first_slot(hash_pair(left, right) >> _HALF, table.slots)
    while True:
        pair = table.slots[slot]
        if pair == EMPTY or (table.pairs[pair, 0] == left and table.pairs[pair, 1] == right):
            return slot
        slot = next_slot(slot, table.slots)


@lean_kernel
def _add(place: int, table: PairTable) -> None:
    """Count the pair that begins at a place."""
    left, right = table.symbols[place], table.symbols[table.after[place]]
    slot = _slot(left, right, table)
    pair, entry = table.slots[slot], table.used[_PLACES]
    if pair == EMPTY:
        pair = table.used[_PAIRS]
        table.used[_PAIRS] += 1
        table.slots[slot] = pair
        table.pairs[pair, 0], table.pairs[pair, 1] = left, right
        table.heads[pair] = entry
    else:
        table.later[table.tails[pair]] = entry
    table.tails[pair], table.places[entry], table.later[entry] = entry, place, NOTHING
    table.used[_PLACES] += 1
    for language in range(table.weights.shape[1]):
        table.counts[pair, language] += table.weights[table.word_of[place], language]


@lean_kernel
def _remove(place: int, table: PairTable) -> None:
    """Count the pair that begins at a place no more."""
    left, right = table.symbols[place], table.symbols[table.after[place]]
    pair = table.slots[_slot(left, right, table)]
    for language in range(table.weights.shape[1]):
        table.counts[pair, language] -= table.weights[table.word_of[place], language]
