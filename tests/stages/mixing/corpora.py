"""Small made-up corpora for tests of mixes: documents one by one, and the counts of their classes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from stages.mixing.classes import BINS, NO_WEIGHT, ClassCounts, ClassKey
from stages.mixing.config import DatasetMix, SourceMix

SOURCES = ("code", "news", "wiki")
LANGUAGES = ("de", "en")
LEVELS = (NO_WEIGHT, -8, 0, 3)


@dataclass(frozen=True)
class Document:
    """A training document."""

    source: str
    language: str
    level: int
    bin: int
    tokens: int

    @property
    def order(self) -> tuple[str, str, int]:
        """The class that it is of."""
        return self.source, self.language, self.level


def counts_of(documents: Sequence[Document]) -> list[ClassCounts]:
    """Return the counts of each class, as the tasks of a run would."""
    found: dict[tuple[str, str, int], dict[int, list[int]]] = {}
    for one in documents:
        cell = found.setdefault(one.order, {}).setdefault(one.bin, [0, 0])
        cell[0] += 1
        cell[1] += one.tokens
    counts = []
    for (source, language, level), cells in found.items():
        rows = np.array([(place, *cells[place]) for place in sorted(cells)], np.int64)
        counts.append(ClassCounts(ClassKey(source=source, language=language, level=level), *rows.T))
    return counts


@st.composite
def corpora(draw: st.DrawFn, levels: Sequence[int] = LEVELS) -> list[Document]:
    """Return up to a few hundred documents of a token or more; some classes have one."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    longest = draw(st.sampled_from([1, 5, 1000]))
    documents = []
    for source in SOURCES[: draw(st.integers(1, 3))]:
        for language in LANGUAGES:
            for level in levels:
                for _ in range(int(rng.choice([0, 1, 2, 30]))):
                    place = int(rng.integers(BINS)) if rng.random() < 0.7 else int(rng.integers(4))
                    length = int(rng.integers(1, longest + 1))
                    documents.append(Document(source, language, level, place, length))
    return documents


@st.composite
def mixes(draw: st.DrawFn) -> DatasetMix:
    """Return a mix that a run file may have, of all sources; it may ask for more than there is."""
    shares = draw(st.lists(st.sampled_from([0.0, 0.05, 0.15, 0.3, 0.333]), min_size=3, max_size=3))
    sources = {}
    for name, share in zip(SOURCES, shares, strict=True):
        most = draw(st.sampled_from([None, 0.5, 1.5, 4.0, 7.0]))
        if draw(st.booleans()):
            sources[name] = SourceMix(share=share, max_epochs=most)
        else:
            epochs = draw(st.sampled_from([0.0, 0.3, 1.0, 2.0, 6.5]))
            limit = None if most is None else max(most, epochs)
            sources[name] = SourceMix(epochs=epochs, max_epochs=limit)
    if not any(one.share is None and one.whole_epochs for one in sources.values()):
        sources[SOURCES[0]] = SourceMix(max_epochs=draw(st.sampled_from([None, 1.5])))
    return DatasetMix(
        sources=sources,
        total_tokens=draw(st.sampled_from([None, None, 1, 500, 20_000])),
        language_alpha=draw(st.sampled_from([0.0, 0.3, 1.0])),
        tolerance=1.0,
    )
