"""Classes: documents by what is known of them, for a probe to tell apart. Free of torch.

Axes: D documents.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_LEAST_OF_CLASS = 10
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

    @property
    def majority(self) -> float:
        """Share of the documents to be told that are of the class that is most frequent in training."""
        learned, told = self.numbers[0::2], self.numbers[1::2]
        return float(np.mean(told == np.bincount(learned).argmax()))


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
