"""Learning: pieces for new text, by merging on from the symbols that a tokenizer has already.

    old pieces   _the  e  r      text   _the er er    ->   new piece  er  (what stands side by side most)

Each language in turn takes the pair that stands side by side most often in its text, so languages with
little text get as many pieces as others. A character without a piece is a symbol, too, that merges with
nothing before it has a piece. Its piece saves all but one of its bytes wherever it stands, so it comes
before any pair that it is in.

Source: Sennrich et al. 2016 (arXiv 1508.07909), begun at the merges of the old vocabulary.

Own words: those that hold a character which old text has hardly ever.

Korean text about software is full of English names. Pieces for them would change English text, and help
Korean little. So where most words of a language have characters of their own, pieces are learned from
these words alone, and from these without the letters that others have.

    ko    한국어 9  Office 5  Office에서 3     most have a character of their own:   한국어 9  에서 3
    fi    talo 9  yö 1                       few have:                             all of them
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.tokenizer.extension.pairs import NOTHING, merge_pair, pair_table

LONGEST = 16
"""Characters of the longest new piece, as in SentencePiece's default."""
_LEAST = 2
"""Times that something stands in the text of a language before it is a piece."""
_CONTINUES, _CONTINUATION = 0xC0, 0x80


@dataclass(frozen=True)
class SymbolWords:
    """W words of symbols, end to end."""

    symbols: NDArray[np.int32]
    """(N,) ids, or from the vocabulary's size on characters without a piece."""
    sizes: NDArray[np.int64]
    """(W,) symbols of each."""
    weights: NDArray[np.int64]
    """(W, L + 1) how often each stands in the text of each language, and in old text."""


@dataclass(frozen=True)
class OldPieces:
    """What new pieces are put together from."""

    spelled: Sequence[bytes]
    """Of each id what it spells; nothing if texts never give it."""
    characters: Sequence[bytes]
    """Without a piece: their symbols are numbered from the vocabulary's size on."""
    taken: AbstractSet[bytes]
    """What no new piece may be."""
    joins: bool
    """Whether any two symbols that spell a piece merge to it, as in SentencePiece."""
    in_bytes: bool = True
    """Whether characters without a piece are written in bytes; if not, they are unknown."""


@dataclass(frozen=True)
class PieceLimits:
    """What every new piece is held to."""

    longest: int = LONGEST
    """Characters."""
    max_drift: float = 1.0
    """Share of the tokens of old text that may change.

    A piece that saves a share s of the tokens of its language's text may change s * `max_drift` of the
    tokens of old text. All pieces together save less than all tokens, so they change less than
    `max_drift` of the old text for each language.
    """


class NewPiece(NamedTuple):
    """A piece, and the two symbols that it is merged from; `NOTHING` twice if it is a character."""

    content: bytes
    left: int
    right: int
    symbol: int
    language: int
    times: int
    """How often it stood in the text of that language when it was learned."""

    @property
    def is_character(self) -> bool:
        """Whether it is a character that had no piece."""
        return self.left == NOTHING


class PieceLearner:
    """Learns pieces, each of which may be merged from those before it.

    Args:
        old: the pieces that are there.
        words: to learn from.
        limits: of every piece.
    """

    def __init__(self, old: OldPieces, words: SymbolWords, limits: PieceLimits) -> None:
        self._old, self._limits = old, limits
        self._spelled = [*old.spelled, *old.characters]
        self._symbols = {content: n for n, content in enumerate(old.spelled) if content}
        self._first = len(old.spelled)
        self._waiting = set(range(self._first, len(self._spelled)))
        """Characters that have no piece yet."""
        self._table = pair_table(words.symbols, words.sizes, words.weights)
        languages = words.weights.shape[1] - 1
        self._tokens = (words.weights * words.sizes[:, None]).sum(axis=0).tolist()
        self._counts = self._character_counts(words)
        self._heaps: list[list[tuple[int, int]]] = [[] for _ in range(languages)]
        self._pieces = [0] * languages
        self._offer(range(int(self._table.used[0])))
        for number in self._waiting:
            saved = max(0 if old.in_bytes else 1, len(self._spelled[number]) - 1)
            *counts, _ = self._counts[number - self._first].tolist()
            for heap, count in zip(self._heaps, counts, strict=True):
                heap.extend([(-count * saved, -number)] if count * saved else [])
        for heap in self._heaps:
            heapify(heap)

    def learn(self, wanted: int) -> list[NewPiece]:
        """Return further pieces, fewer if no more can be learned."""
        found: list[NewPiece] = []
        open_ = set(range(len(self._heaps)))
        while open_ and len(found) < wanted:
            language = min(open_, key=lambda one: (self._pieces[one], one))
            piece = self._next(language)
            if piece is None:
                open_.remove(language)
                continue
            self._pieces[language] += 1
            found.append(piece)
        return found

    def _next(self, language: int) -> NewPiece | None:
        """Return the piece that a language gains most by; None if there is none."""
        heap = self._heaps[language]
        while heap:
            gain, number = heappop(heap)
            if number < 0:
                if -number not in self._waiting:
                    continue  # another language took it
                content = self._spelled[-number]
                counts = self._counts[-number - self._first].tolist()
                if content in self._old.taken or self._drifts(counts, language):
                    continue
                self._waiting.remove(-number)
                self._symbols[content] = -number
                return NewPiece(content, NOTHING, NOTHING, -number, language, counts[language])
            now = int(self._table.counts[number, language])
            if now != -gain:
                if now >= _LEAST:
                    heappush(heap, (-now, number))
                continue
            piece = self._merged(number, language)
            if piece is not None:
                return piece
        return None

    def _merged(self, pair: int, language: int) -> NewPiece | None:
        """Merge a pair; return the piece that it gives if that is a new one."""
        left, right = self._table.pairs[pair].tolist()
        if self._waiting & {left, right}:
            return None
        content = self._spelled[left] + self._spelled[right]
        if not content or content in self._old.taken or _characters(content) > self._limits.longest:
            return None
        known = self._symbols.get(content)
        if known is None and self._drifts(self._table.counts[pair].tolist(), language):
            return None
        if known is not None and not self._old.joins:
            return None
        symbol = len(self._spelled) if known is None else known
        if known is None:
            self._spelled.append(content)
            self._symbols[content] = symbol
        count = int(self._table.counts[pair, language])
        self._table, new = merge_pair(pair, symbol, self._table)
        self._offer(new, push=True)
        return None if known is not None else NewPiece(content, left, right, symbol, language, count)

    def _drifts(self, counts: list[int], language: int) -> bool:
        """Say whether a piece changes too many tokens of old text for those that it saves."""
        *_, old = counts
        changed, saved = 2 * old * self._tokens[language], counts[language] * self._tokens[-1]
        return bool(changed > self._limits.max_drift * saved)

    def _offer(self, pairs: range, *, push: bool = False) -> None:
        """Let languages choose pairs."""
        counts = self._table.counts[pairs.start : pairs.stop]
        for language, heap in enumerate(self._heaps):
            own = counts[:, language]
            chosen = np.flatnonzero(own >= _LEAST)
            entries = zip((-own[chosen]).tolist(), (chosen + pairs.start).tolist(), strict=True)
            if push:
                for entry in entries:
                    heappush(heap, entry)
            else:
                heap.extend(entries)

    def _character_counts(self, words: SymbolWords) -> NDArray[np.int64]:
        """Return how often each character without a piece stands in each language: (C, L)."""
        counts = np.zeros((len(self._old.characters), words.weights.shape[1]), np.int64)
        places = np.flatnonzero(words.symbols >= self._first)
        word_of = np.repeat(np.arange(len(words.sizes)), words.sizes)[places]
        np.add.at(counts, words.symbols[places] - self._first, words.weights[word_of])
        return np.where(counts >= _LEAST, counts, 0)


def _characters(content: bytes) -> int:
    """Return how many characters begin in some bytes."""
    return sum(byte & _CONTINUES != _CONTINUATION for byte in content)


def needed_pieces(pieces: Sequence[NewPiece], used: Iterable[int]) -> set[int]:
    """Return the symbols of the pieces that are used, and of those that they are merged from."""
    parts = {piece.symbol: (piece.left, piece.right) for piece in pieces}
    needed, open_ = set[int](), list(used)
    while open_:
        symbol = open_.pop()
        if symbol in parts and symbol not in needed:
            needed.add(symbol)
            open_ += parts[symbol]
    return needed


_RARE = 0.01
"""A character is a language's own if its share in old text is at most this part of its share there."""
_MOST = 0.5
"""The share of words with a character of their own above which they alone are learned from."""


def own_words(words: Mapping[str, int], old: Mapping[str, int]) -> Mapping[str, int]:
    """Return the words of a language's text to learn from, with their counts.

    Args:
        words: of the text.
        old: words of old text.
    """
    counts, others = _character_counts(words), _character_counts(old)
    bound, total = _RARE * sum(others.values()), sum(counts.values())
    own = {one for one, count in counts.items() if others[one] * total <= bound * count}
    chosen = {word: count for word, count in words.items() if not own.isdisjoint(word)}
    if sum(chosen.values()) <= _MOST * sum(words.values()):
        return words
    letters = sorted(one for one in counts.keys() - own if one.isalpha())
    cut = re.compile(f"[{''.join(map(re.escape, letters))}]+" if letters else r"(?!)")
    found = Counter[str]()
    for word, count in chosen.items():
        for part in cut.split(word):
            found[part] += 0 if own.isdisjoint(part) else count
    return +found


def _character_counts(words: Mapping[str, int]) -> Counter[str]:
    found = Counter[str]()
    for word, count in words.items():
        for character in word:
            found[character] += count
    return found
