"""Items of `contamination.py`: what is planted in documents, and what are common phrases of them.

kept documents, documents held out -> texts that no kept document has, texts that several have -> items
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import xxhash
from numpy.typing import NDArray

from stages.decontamination.words import words_of

N = 13
FEW_QUOTATIONS = 3
SHORTEST = 30
"""Words of the shortest text of an item that is planted."""
LONGEST = 25
"""Words of the longest phrase."""
OWN_WORDS = 20
"""Words of an item's own on each side of a phrase."""
PLANTED = 200
COPIES = {2: 100, 3: 100, 5: 100}
FORMS = ("whole", "part", "whole, changed", "part, changed")
BANDS = {"more than 10 documents": (11, 1 << 40, 600), "2 to 10 documents": (2, 10, 1_400)}
_BASE = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Item:
    """An item of the benchmark."""

    text: str
    kind: str
    """planted or phrase."""
    form: str
    copies: int = 1
    """Documents that it is planted in."""


class GramCounts:
    """In how many documents each 13-gram stands, counted here by sorting hashes.

    Args:
        texts: the documents.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        hashes = [np.unique(self.grams(words_of(text))) for text in texts]
        every = np.sort(np.concatenate([np.empty(0, np.uint64), *hashes]))
        self._grams, self._counts = np.unique(every, return_counts=True)

    @staticmethod
    def grams(words: list[str]) -> NDArray[np.uint64]:
        """Return the hashes of the n-grams of words."""
        own = np.array([xxhash.xxh3_64_intdigest(word.encode()) for word in words], np.uint64)
        count = max(len(own) - N + 1, 0)
        found = np.zeros(count, np.uint64)
        for place in range(N):
            found = found * _BASE + own[place : place + count]
        return found ^ (found >> np.uint64(29))

    def documents(self, words: list[str]) -> NDArray[np.int64]:
        """Return in how many documents each n-gram of words stands."""
        wanted = self.grams(words)
        places = np.minimum(np.searchsorted(self._grams, wanted), len(self._grams) - 1)
        return np.where(self._grams[places] == wanted, self._counts[places], 0).astype(np.int64)


class Material:
    """What items are made of.

    Args:
        kept: documents.
        held: documents that were held out.
        counts: of the kept ones.
        seed: of all draws.
        share: of the usual number of items.
    """

    def __init__(
        self, kept: list[str], held: list[str], counts: GramCounts, seed: int, *, share: float = 1.0
    ) -> None:
        self.kept, self.counts, self.share = kept, counts, share
        self.draw = np.random.default_rng(seed)
        self._own = self._own_texts(held)
        self._left: list[str] = []
        self._used: set[int] = set()

    def own(self, words: int) -> list[str]:
        """Return the next words that stand in no kept document, with their punctuation."""
        while len(self._left) < words:
            self._left = next(self._own, [])
            assert self._left, "the corpus has texts enough to hold out: raise --bytes"
        own, self._left = self._left[:words], self._left[words:]
        return own

    def _own_texts(self, held: list[str]) -> Iterator[list[str]]:
        """Yield texts of up to 120 words of documents held out, of which no n-gram is kept."""
        for number in self.draw.permutation(len(held)).tolist():
            words = held[number].split()
            for first in range(0, min(len(words), 1_000), 130):
                part = words[first : first + 120]
                spelled = words_of(" ".join(part))
                lettered = sum(word.isalpha() for word in spelled)
                if len(part) < SHORTEST or 2 * lettered < len(spelled):
                    continue
                if not self.counts.documents(spelled).any():
                    yield part

    def phrases(
        self, low: int, high: int, most: int, *, words: tuple[int, int] = (N, LONGEST)
    ) -> Iterator[str]:
        """Yield texts that stand in `low` to `high` kept documents, no n-gram in two of them.

        Args:
            low: documents.
            high: documents.
            most: texts.
            words: fewest and most of a text.
        """
        found = 0
        for number in self.draw.permutation(len(self.kept)).tolist():
            spelled = words_of(self.kept[number])
            counts = self.counts.documents(spelled)
            fit = np.flatnonzero((counts >= low) & (counts <= high))
            if not len(fit):
                continue
            first = int(self.draw.choice(fit))
            last = first + 1
            while last < len(counts) and low <= counts[last] <= high and last - first < words[1] - N + 1:
                last += 1
            text = spelled[first : last + N - 1]
            if len(text) < words[0]:
                continue
            grams = set(self.counts.grams(text).tolist())
            if grams & self._used or 2 * sum(word.isalpha() for word in set(text)) < len(text):
                continue
            self._used |= grams
            yield " ".join(text)
            found += 1
            if found >= most:
                return


def planted_items(material: Material) -> Iterator[Item]:
    """Yield the items that are planted."""
    for copies, count in {1: PLANTED, **COPIES}.items():
        for number in range(round(count * material.share)):
            words = material.own(int(material.draw.integers(30, 121)) if number % 3 else 30)
            yield Item(" ".join(words), "planted", FORMS[number % len(FORMS)], copies)


def planted_text(item: Item, draw: np.random.Generator) -> str:
    """Return an item as it stands in a document."""
    words = item.text.split()
    if item.form.startswith("part"):
        first = int(draw.integers(0, len(words) - N + 1))
        last = first + N
        while len(words_of(" ".join(words[first:last]))) < N and last < len(words):
            last += 1
        words = words[first:last]
    if not item.form.endswith("changed"):
        return " ".join(words)
    marks = [", ", " ", " -- ", "; ", " ", "\n"]
    cased = [word.upper() if draw.integers(2) else word.capitalize() for word in words]
    return "".join(f"{word}{marks[int(draw.integers(len(marks)))]}" for word in cased)


def phrase_items(material: Material, quotations: list[str]) -> Iterator[Item]:
    """Yield the items that are common phrases."""
    for name, (low, high, most) in BANDS.items():
        for number, text in enumerate(material.phrases(low, high, round(most * material.share))):
            if number % 2:
                yield Item(text, "phrase", f"{name}, alone")
                continue
            before, after = (" ".join(material.own(OWN_WORDS)) for _ in range(2))
            yield Item(f"{before} {text} {after}", "phrase", f"{name}, within an item")
    for number, text in enumerate(
        material.phrases(2, 10, round(200 * material.share), words=(LONGEST + 1, 100))
    ):
        form = "26 to 100 words in 2 to 10 documents"
        if number % 2:
            yield Item(text, "text", f"{form}, alone")
            continue
        before, after = (" ".join(material.own(OWN_WORDS)) for _ in range(2))
        yield Item(f"{before} {text} {after}", "text", f"{form}, within an item")
    for text in quotations:
        counts = material.counts.documents(words_of(text))
        if counts.any():
            rarest = int(counts[counts > 0].min())
            where = "one document" if rarest == 1 else "several documents"
            yield Item(text, "phrase" if rarest > 1 else "once", f"quotations in {where}")


def plant(material: Material, items: list[Item]) -> list[str]:
    """Return the kept documents with the planted items in them, each item in documents of its own."""
    texts = list(material.kept)
    order = iter(material.draw.permutation(len(texts)).tolist())
    for item in items:
        for _ in range(item.copies if item.kind == "planted" else 0):
            number = next(order)
            lines = texts[number].split("\n")
            place = int(material.draw.integers(len(lines) + 1))
            lines.insert(place, planted_text(item, material.draw))
            texts[number] = "\n".join(lines)
    return texts


def without_collections(texts: list[str], quotations: list[str]) -> list[str]:
    """Leave out documents that hold more than three of the quotations: collections of them."""
    grams = [GramCounts.grams(words_of(text)) for text in quotations]
    owner = np.repeat(np.arange(len(grams)), [len(one) for one in grams])
    known, first = np.unique(np.concatenate([np.empty(0, np.uint64), *grams]), return_index=True)
    if not len(known):
        return texts
    kept = []
    for text in texts:
        own = np.unique(GramCounts.grams(words_of(text)))
        places = np.minimum(np.searchsorted(known, own), len(known) - 1)
        if len(np.unique(owner[first[places[known[places] == own]]])) <= FEW_QUOTATIONS:
            kept.append(text)
    return kept
