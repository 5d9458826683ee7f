"""Search: the n-grams of evaluation sets in texts.

Each n-gram is found at most once in a document, at its first place. An n-gram is looked up by the hash
of its words' numbers, and its words are then compared one by one, so no hit is a collision of hashes.
`search_plainly` is the same in plain loops.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from stages.byte_kernels import EMPTY, first_slot, next_slot
from stages.decontamination.index import EvaluationIndex, Grams, gram_hash, same_words, word_hash
from stages.decontamination.words import ABSENT, FoldTables, FoundWords, fill_words
from stages.hashing import GOLDEN
from stages.kernels import lean_kernel

BLOCK_WORDS = 1 << 15
"""Words that are read together; those of the longest n-gram are read again with the next."""
DOCUMENT, GRAM, WORD, BEGIN, END = range(5)
"""Columns of hits: the document's number, the n-gram's, the number of its first word in the document,
and the bytes of the document where it begins and ends."""
_HITS = 1 << 12


class Searcher:
    """What searches texts one after the other.

    Args:
        folding: of characters.
        index: what is looked for.
    """

    def __init__(self, folding: FoldTables, index: EvaluationIndex) -> None:
        self.folding, self.index = folding, index
        room = BLOCK_WORDS + 64 + int(index.grams.sizes.max(initial=0))
        self._words: FoundWords = (
            np.empty(room, np.int32),
            np.empty(room, np.int64),
            np.empty(room, np.int64),
        )
        self._prefix = np.zeros(room + 1, np.uint64)
        self._word = np.empty(index.vocabulary.longest + 1, np.int32)
        self._seen = np.zeros(len(index.grams.at), np.int64)
        self._turn = 0

    def search(
        self, data: NDArray[np.uint8], ptr: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> Iterator[NDArray[np.int64]]:
        """Yield the hits in some texts, some at a time: (H, 5), by document, then by place.

        Args:
            data: (B,) the texts in UTF-8, end to end.
            ptr: (D + 1,) where each begins.
            rows: the texts that are searched, ascending.
        """
        tables = self.folding.single, self.folding.several, self.folding.kinds
        words, grams = self.index.vocabulary, self.index.grams
        found = grams.stream, grams.at, grams.lengths, grams.table, grams.sizes
        done, room = 0, _HITS
        while done < len(rows) and len(grams.at):
            hits = np.empty((room, 5), np.int64)
            before = done
            done, count = _search(
                data,
                ptr,
                rows,
                done,
                self._turn,
                tables,
                (words.codes, words.ptr, words.table),
                self._word,
                self._words,
                self._prefix,
                found,
                self._seen,
                hits,
            )
            self._turn += done - before + 1
            if done == before:  # its hits find no room
                room *= 2
            yield hits[:count]


@lean_kernel
def _search(  # noqa: PLR0913  # the tables of a kernel are arrays, not values
    data: NDArray[np.uint8],
    ptr: NDArray[np.int64],
    rows: NDArray[np.int64],
    done: int,
    turn: int,
    tables: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8]],
    known: tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]],
    word: NDArray[np.int32],
    words: tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]],
    prefix: NDArray[np.uint64],
    grams: tuple[
        NDArray[np.int32], NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]
    ],
    seen: NDArray[np.int64],
    hits: NDArray[np.int64],
) -> tuple[int, int]:
    """Search texts until all are done or the hits of one find no room; that one is not begun.

    Returns:
        How many texts are done, and how many hits there are.
    """
    ids, begins, ends = words
    carried = grams[4][len(grams[4]) - 1] - 1
    count = 0
    for turned in range(done, len(rows)):
        number = rows[turned]
        turn += 1
        before, first, filled = count, 0, 0
        position = ptr[number]
        while position < ptr[number + 1]:
            old = filled
            filled, position = fill_words(
                data, (position, ptr[number + 1]), tables, known, word, words, filled
            )
            count = _find_grams(
                ids,
                begins,
                ends,
                (old, filled),
                (number, first, ptr[number], turn),
                prefix,
                grams,
                seen,
                hits,
                count,
            )
            if count < 0:
                return turned, before
            left = min(filled, carried)
            for place in range(left):
                ids[place] = ids[filled - left + place]
                begins[place] = begins[filled - left + place]
            first += filled - left
            filled = left
    return len(rows), count


@lean_kernel
def _find_grams(  # noqa: PLR0913  # likewise
    ids: NDArray[np.int32],
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    span: tuple[int, int],
    origin: tuple[int, int, int, int],
    prefix: NDArray[np.uint64],
    grams: tuple[
        NDArray[np.int32], NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]
    ],
    seen: NDArray[np.int64],
    hits: NDArray[np.int64],
    count: int,
) -> int:
    """Find the n-grams that end in new words; return how many hits there are, or -1 without room.

    Args:
        ids: words; those before the new ones are known from the text before.
        begins: the byte where each begins.
        ends: the byte where each new word ends.
        span: where the new words begin and end.
        origin: the document's number, the number of the first word there, where the text begins, and
            what marks its n-grams as seen.
        prefix: scratch.
        grams: `stream`, `at`, `lengths`, `table`, `sizes` of `Grams`.
        seen: of each n-gram, the mark of the last document that it was found in.
        hits: filled from `count` on.
        count: hits that are there.
    """
    sizes = grams[4]
    document, first, start, turn = origin
    known = 0
    prefix[0] = 0
    for place in range(span[1]):
        if ids[place] == ABSENT:
            known = 0
            prefix[place + 1] = 0
            continue
        known += 1
        prefix[place + 1] = prefix[place] * GOLDEN + word_hash(ids[place])
        if place < span[0]:
            continue
        for size in sizes:
            if known < size:
                break
            low = place + 1 - size
            value = prefix[place + 1] - prefix[low] * _power(size)
            gram = _look_up(ids, low, size, value, grams)
            if gram != ABSENT and seen[gram] != turn:
                if count == len(hits):
                    return -1
                seen[gram] = turn
                hits[count, DOCUMENT], hits[count, GRAM], hits[count, WORD] = document, gram, first + low
                hits[count, BEGIN], hits[count, END] = begins[low] - start, ends[place] - start
                count += 1
    return count


@lean_kernel
def _power(size: int) -> np.uint64:
    """Return the base of the polynomial to a power."""
    power, base = np.uint64(1), GOLDEN
    while size > 0:
        if size & 1:
            power *= base
        base *= base
        size >>= 1
    return power


@lean_kernel
def _look_up(
    ids: NDArray[np.int32],
    low: int,
    size: int,
    value: np.uint64,
    grams: tuple[
        NDArray[np.int32], NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]
    ],
) -> int:
    """Return the number of the n-gram that some words are, or `ABSENT`; the words are compared."""
    stream, at, lengths, table, _ = grams
    slot = first_slot(gram_hash(value, size), table)
    while table[slot] != EMPTY:
        gram = table[slot]
        if lengths[gram] == size and same_words(ids, low, stream, at[gram], size):
            return int(gram)
        slot = next_slot(slot, table)
    return ABSENT


def search_plainly(words: list[str], grams: Grams, names: list[str]) -> dict[int, int]:
    """Return the n-grams in the words of a text, each with the number of its first word, in plain loops.

    Args:
        words: of the text.
        grams: what is looked for.
        names: the words of the vocabulary.
    """
    found: dict[int, int] = {}
    for gram, (at, size) in enumerate(zip(grams.at.tolist(), grams.lengths.tolist(), strict=True)):
        wanted = [names[number] for number in grams.stream[at : at + size].tolist()]
        places = [p for p in range(len(words) - size + 1) if words[p : p + size] == wanted]
        if places:
            found[gram] = places[0]
    return found
