"""Index: the n-grams of all items of the evaluation sets, and where each of them stands.

    items      each a row of an evaluation set: its fields
    passages   what n-grams are taken from: a field, or several short ones that follow each other
    stream     the words of all passages end to end, as numbers of the vocabulary
    grams      the distinct n-grams; a passage of fewer words than n, but `min_words`, is one as a whole

An n-gram that stands in more than `max_items` items of one set is the set's own form, such as its prompt
or a list of choices, and is no evidence: it is not searched. Items of a set with the same words count as
one there, because an item that is repeated is no form. Nor is one of which fewer than half of the
words are different words with a letter: numbers, tables, repeats.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import xxhash
from numpy.typing import NDArray

from stages.byte_kernels import EMPTY, first_slot, fmix64, free_slot, next_slot
from stages.decontamination.config import DecontaminationRule
from stages.decontamination.words import ABSENT, KnownWords, table_size, vocabulary_of, words_of
from stages.hashing import GOLDEN
from stages.kernels import lean_kernel


@dataclass(frozen=True, eq=False)
class Grams:
    """What is searched in texts: G n-grams."""

    stream: NDArray[np.int32]
    """(S,) words of all passages."""
    at: NDArray[np.int64]
    """(G,) a place in the stream where each begins."""
    lengths: NDArray[np.int64]
    """(G,) its words."""
    table: NDArray[np.int32]
    """(T,) hash table of their numbers."""
    sizes: NDArray[np.int64]
    """The lengths that there are, each once."""


@dataclass(frozen=True, eq=False)
class Passages:
    """Where n-grams stand in the items: P passages, U places."""

    ptr: NDArray[np.int64]
    """(P + 1,) where each begins in the stream."""
    item: NDArray[np.int64]
    """(P,) the item that each is of."""
    usable: NDArray[np.int64]
    """(P,) words that stand in an n-gram that is searched."""
    place_ptr: NDArray[np.int64]
    """(G + 1,) where the places of each n-gram begin."""
    places: NDArray[np.int64]
    """(U,) places in the stream, n-gram after n-gram."""


@dataclass(frozen=True, eq=False)
class EvaluationIndex:
    """The evaluation sets, ready to be searched for."""

    vocabulary: KnownWords
    grams: Grams
    passages: Passages


def passages_of(fields: Sequence[str], *, min_words: int) -> Iterator[list[str]]:
    """Yield the passages of an item as words.

    A field of fewer than `min_words` words goes on with the next one; one at the end continues what
    stands before it.

    ["Which is a prime?", "nine", "seven"] -> [which is a prime nine seven]
    """
    passages: list[list[str]] = []
    for field in fields:
        words = words_of(field)
        if passages and (len(words) < min_words or len(passages[-1]) < min_words):
            passages[-1] += words
        elif words:
            passages.append(words)
    yield from passages


class IndexBuilder:
    """The words of items as they come, as numbers."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._stream, self._lengths = array("i"), array("q")
        self._item, self._sets, self._same = array("q"), array("q"), array("q")
        self._firsts: dict[bytes, int] = {}

    def add(self, passages: Iterable[Sequence[str]], *, number_of_set: int) -> None:
        """Take the passages of one more item, each as words."""
        digest = xxhash.xxh3_128(f"{number_of_set}\n".encode())
        for words in passages:
            digest.update(f"{' '.join(words)}\n".encode())
            for word in words:
                self._stream.append(self._numbers.setdefault(word, len(self._numbers)))
            self._lengths.append(len(words))
            self._item.append(len(self._sets))
        self._same.append(self._firsts.setdefault(digest.digest(), len(self._sets)))
        self._sets.append(number_of_set)

    def build(self, rule: DecontaminationRule) -> EvaluationIndex:
        """Return the index of all items."""
        stream = np.array(self._stream, np.int32)
        lengths, item, sets, same = (
            np.array(one, np.int64) for one in (self._lengths, self._item, self._sets, self._same)
        )
        ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        sizes = _gram_sizes(lengths, len(stream), ngram=rule.ngram, min_words=rule.min_words)
        words = list(self._numbers)
        _drop_poor(stream, sizes, np.array([not word.isnumeric() for word in words], np.bool_))
        gram_of, at = _numbered(stream, sizes)
        owner = np.repeat(same[item], lengths)
        _drop_forms(gram_of, owner, sets, max_items=rule.max_items)
        at = _renumber(gram_of, at)
        places = np.flatnonzero(gram_of != ABSENT)
        places = places[np.argsort(gram_of[places], kind="stable")]
        counts = np.bincount(gram_of[places], minlength=len(at))
        table = np.full(table_size(len(at)), EMPTY, np.int32)
        _enter_grams(stream, at, sizes[at], table)
        place_ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return EvaluationIndex(
            vocabulary_of(words),
            Grams(stream, at, sizes[at], table, np.unique(sizes[at])),
            Passages(ptr, item, _covered(gram_of, sizes, ptr), place_ptr, places),
        )


def _numbered(
    stream: NDArray[np.int32], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the number of the n-gram at each place, and where each one stands first."""
    gram_of = np.full(len(stream), ABSENT, np.int32)
    at = np.empty(int(np.count_nonzero(sizes)), np.int64)
    table = np.full(table_size(len(at)), EMPTY, np.int32)
    return gram_of, at[: _number_grams(stream, sizes, table, gram_of, at)]


def _renumber(gram_of: NDArray[np.int32], at: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number anew the n-grams that are left; return where each one stands first."""
    there = gram_of != ABSENT
    used = np.zeros(len(at), np.bool_)
    used[gram_of[there]] = True
    gram_of[there] = (np.cumsum(used) - 1).astype(np.int32)[gram_of[there]]
    return at[used]


def _gram_sizes(
    lengths: NDArray[np.int64], total: int, *, ngram: int, min_words: int
) -> NDArray[np.int64]:
    """Return of each place of the stream the words of the n-gram that begins there; 0 if none does."""
    sizes = np.zeros(total, np.int64)
    begins = np.cumsum(lengths) - lengths
    whole = (lengths >= min_words) & (lengths < ngram)
    sizes[begins[whole]] = lengths[whole]
    left = np.repeat(begins + lengths, lengths) - np.arange(total)
    sizes[left >= ngram] = ngram
    return sizes


def _drop_forms(
    gram_of: NDArray[np.int32], owner: NDArray[np.int64], sets: NDArray[np.int64], *, max_items: int
) -> None:
    """Take out the n-grams that stand in too many items of one set."""
    places = np.flatnonzero(gram_of != ABSENT)
    count = max(len(sets), 1)
    pairs = np.unique(gram_of[places] * np.int64(count) + owner[places])
    groups = int(sets.max(initial=0)) + 1
    found, counts = np.unique(pairs // count * groups + sets[pairs % count], return_counts=True)
    forms = found[counts > max_items] // groups
    gram_of[np.isin(gram_of, forms)] = ABSENT


def _covered(
    gram_of: NDArray[np.int32], sizes: NDArray[np.int64], ptr: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return how many words of each passage stand in an n-gram."""
    places = np.flatnonzero(gram_of != ABSENT)
    steps = np.zeros(len(gram_of) + 1, np.int64)
    np.add.at(steps, places, 1)
    np.add.at(steps, places + sizes[places], -1)
    inside = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.cumsum(steps[:-1]) > 0)])
    found: NDArray[np.int64] = inside[ptr[1:]] - inside[ptr[:-1]]
    return found


@lean_kernel
def _drop_poor(stream: NDArray[np.int32], sizes: NDArray[np.int64], lettered: NDArray[np.bool_]) -> None:
    """Take out the n-grams of which fewer than half are different words with a letter."""
    for place in range(len(stream)):
        size, rich = sizes[place], 0
        for offset in range(size):
            word = stream[place + offset]
            new = lettered[word]
            for before in range(offset):
                new = new and stream[place + before] != word
            rich += new
        if 2 * rich < size:
            sizes[place] = 0


@lean_kernel
def word_hash(word: int) -> np.uint64:
    """Return the hash of a word's number."""
    return fmix64(np.uint64(word + 1) * GOLDEN)


@lean_kernel
def gram_hash(value: np.uint64, size: int) -> np.uint64:
    """Return the hash of an n-gram, given its polynomial and its words."""
    return fmix64(value ^ np.uint64(size))


@lean_kernel
def same_words(
    words: NDArray[np.int32], first: int, stream: NDArray[np.int32], at: int, size: int
) -> bool:
    """Say whether `size` words are the same from two places on."""
    for offset in range(size):  # noqa: SIM110  # numba compiles no generator
        if words[first + offset] != stream[at + offset]:
            return False
    return True


@lean_kernel
def _hash_at(stream: NDArray[np.int32], at: int, size: int) -> np.uint64:
    """Return the hash of the n-gram of so many words at a place."""
    value = np.uint64(0)
    for offset in range(size):
        value = value * GOLDEN + word_hash(stream[at + offset])
    return gram_hash(value, size)


@lean_kernel
def _number_grams(
    stream: NDArray[np.int32],
    sizes: NDArray[np.int64],
    table: NDArray[np.int32],
    gram_of: NDArray[np.int32],
    at: NDArray[np.int64],
) -> int:
    """Number the distinct n-grams in the order in which they come; return how many there are."""
    count = 0
    for place in range(len(stream)):
        size = sizes[place]
        if size == 0:
            continue
        slot = first_slot(_hash_at(stream, place, size), table)
        while True:
            known = table[slot]
            if known == EMPTY:
                table[slot], at[count], gram_of[place] = count, place, count
                count += 1
                break
            if sizes[at[known]] == size and same_words(stream, at[known], stream, place, size):
                gram_of[place] = known
                break
            slot = next_slot(slot, table)
    return count


@lean_kernel
def _enter_grams(
    stream: NDArray[np.int32], at: NDArray[np.int64], sizes: NDArray[np.int64], table: NDArray[np.int32]
) -> None:
    """Fill the table of distinct n-grams."""
    for gram in range(len(at)):
        table[free_slot(_hash_at(stream, at[gram], sizes[gram]), table)] = gram
