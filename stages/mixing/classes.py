"""Classes of documents that a mix treats alike, and which copies of a document it takes.

Documents of one source, one language and one level of weight are a class. A hash puts each document into
one of 4,096 bins. A mix gives each class an interval [begin, end) on the line of all passes over it,
counted in bins:

    pass             0           1           2
    bins     0 ... 4095 | 0 ... 4095 | 0 ...
    [0, 6144)  ========== | =====          every document once, those of bins 0 to 2047 twice

Copy number k of a document in bin b stands at b + 4096 k, and is taken if that lies in the interval. So
which copies there are is a function of (seed, id, interval) alone.

Axes: D documents.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stages.config import Config
from stages.hashing import splitmix64

BINS = 4096
"""Bins of a pass over a class, of equal probability."""
_SHIFT = np.uint64(52)
"""Keeps the 12 leading bits."""
_SALT = np.uint64(0xA3EC4E93B1F0C2D7)
"""So that bins do not follow the order in which documents stand in a shard."""
NO_WEIGHT = -(1 << 15)
"""The level of documents whose weight is 0 or less: no mix takes them."""
_OCTAVE = 8
"""Levels of a factor of two."""
_STEPS = np.array(
    [
        1.0,
        1.0905077326652577,
        1.189207115002721,
        1.2968395546510096,
        1.4142135623730951,
        1.5422108254079407,
        1.681792830507429,
        1.8340080864093424,
    ]
)
"""2 ** (i / 8), written out: no library's logarithm decides a level."""
_BORDERS = np.array(
    [
        1.0442737824274138,
        1.1387886347566916,
        1.241857812073484,
        1.3542555469368927,
        1.4768261459394993,
        1.6104903319492543,
        1.7562521603732995,
        1.9152065613971474,
    ]
)
"""2 ** ((i + 0.5) / 8): where one level ends and the next begins."""
_MOST = 40 * _OCTAVE
"""Levels beyond 2 ** 40 and below 2 ** -40 are those."""


class ClassKey(Config):
    """Names a class of documents."""

    source: str
    language: str
    level: int = 0
    """Of its weight, 2 ** (level / 8); 0 where documents have no weights."""

    @property
    def order(self) -> tuple[str, str, int]:
        """What classes are sorted by."""
        return self.source, self.language, self.level


class MixClass(ClassKey):
    """What a mix takes of a class of documents."""

    begin: int = 0
    """In bins, on the line of all passes; 0 unless an earlier stage has taken some."""
    end: int
    available_documents: int
    available_tokens: int
    """Of the training documents of the class, each once."""
    documents: int
    """Copies that the mix has."""
    tokens: int
    """Of these copies, before packing: exactly what the shards receive."""

    @property
    def epochs(self) -> float:
        """How many times the documents of the class are seen, on average."""
        return (self.end - self.begin) / BINS


@dataclass(frozen=True)
class ClassCounts:
    """The training documents of a class, counted by bin; N bins have any."""

    key: ClassKey
    bins: NDArray[np.int64] = field(repr=False)
    """(N,), ascending. Classes of weighted documents are many, and most of their bins are empty."""
    documents: NDArray[np.int64] = field(repr=False)
    """(N,), none 0."""
    tokens: NDArray[np.int64] = field(repr=False)
    """(N,). Each document has at least the token that closes it."""


def bins_of(orders: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the bin of each document, (D,), from the hash of (seed, id) by which it is ordered.

    The hash is mixed once more by the finaliser of SplitMix64, so that the documents of a bin stand
    anywhere in a shard.
    """
    return (splitmix64(orders ^ _SALT) >> _SHIFT).astype(np.int64)


def copies_of(
    bins: NDArray[np.int64], begin: NDArray[np.int64] | int, end: NDArray[np.int64] | int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of the first copy of each document that is taken, and how many are, both (D,).

    Args:
        bins: (D,) of the documents.
        begin: of the interval of each, or of all.
        end: likewise.
    """
    first = -((bins - begin) // BINS)
    return first, -((bins - end) // BINS) - first


def levels_of(weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the level of each weight, (D,): the nearest of 8 to a factor of two, `NO_WEIGHT` of none.

    1.0 -> 0, 2.0 -> 8, 0.5 -> -8, 0.0 -> NO_WEIGHT. A weight is finite.
    """
    positive = weights > 0
    mantissas, exponents = np.frexp(np.where(positive, weights, 1.0))
    steps = np.searchsorted(_BORDERS, mantissas * 2, side="right")
    levels = (exponents.astype(np.int64) - 1) * _OCTAVE + steps
    return np.where(positive, np.clip(levels, -_MOST, _MOST), NO_WEIGHT)


def weight_of(level: int) -> float:
    """Return the weight of a level: 2 ** (level / 8), or 0."""
    if level == NO_WEIGHT:
        return 0.0
    octave, step = divmod(level, _OCTAVE)
    return float(np.ldexp(_STEPS[step], octave))


def intervals(classes: Iterable[MixClass]) -> dict[tuple[str, str, int], tuple[int, int]]:
    """Return the interval of each class by what names it."""
    return {one.order: (one.begin, one.end) for one in classes}
