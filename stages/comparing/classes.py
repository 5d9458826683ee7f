"""Classes: documents by what is known of them, for a probe to tell apart. Free of torch.

Axes: D documents.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

_LEAST_OF_CLASS = 8
"""Fewest documents of a class that is told from others."""


@dataclass(frozen=True, eq=False)
class Classes:
    """Documents by class, half of them to learn from and half to be told.

    Args:
        places: (D',) of the documents of classes that are large enough.
        numbers: (D',) of their classes.
        names: of the classes.
    """

    places: NDArray[np.int64]
    numbers: NDArray[np.int64]
    names: tuple[str, ...]

    @cached_property
    def told(self) -> NDArray[np.bool_]:
        """Say which are to be told: every second of each class, (D',)."""
        told = np.zeros(len(self.numbers), np.bool_)
        for number in range(len(self.names)):
            told[np.flatnonzero(self.numbers == number)[1::2]] = True
        return told

    @property
    def majority(self) -> float:
        """Share of the documents to be told that are of the class that is most frequent in training."""
        most = np.bincount(self.numbers[~self.told]).argmax()
        return float(np.mean(self.numbers[self.told] == most))


def classes_of(labels: Sequence[str]) -> Classes | None:
    """Number the classes of documents, (D,); None without two that are large enough."""
    names, numbers, counts = np.unique(np.array(labels), return_inverse=True, return_counts=True)
    large = np.flatnonzero(counts >= _LEAST_OF_CLASS)
    if len(large) < 2:  # noqa: PLR2004  # there must be something to tell apart
        return None
    places = np.flatnonzero(np.isin(numbers, large))
    return Classes(
        places, np.searchsorted(large, numbers[places]), tuple(str(names[number]) for number in large)
    )
