"""A generator for runs that are to be damaged: logits that follow from the token before, no model."""

import numpy as np
from numpy.typing import NDArray

from stages.objectives.generated import Generate
from stages.objectives.mlm import Positions
from stages.objectives.vocabulary import Vocabulary

_STRIDE, _LEVELS = 7, 11
"""Of the logits, which are to differ from token to token and from id to id."""

SHARDMILL_GENERATORS = ["make_generator"]
"""What a run file may name as `objective.model`."""


class PlainGenerator:
    """What looks like a model: it knows the token before.

    Args:
        size: of the vocabulary.
    """

    version = "plain 1"

    def __init__(self, size: int) -> None:
        steps = np.arange(_LEVELS)[:, None]
        self._logits = ((steps + np.arange(size)) % _LEVELS).astype(np.float32)

    def __call__(
        self, seen: NDArray[np.int64], covered: NDArray[np.bool_], selected: Positions
    ) -> NDArray[np.floating]:
        """Return the logits of selected positions: (S, V)."""
        del covered
        row, position = selected
        before = seen[row, np.maximum(position - 1, 0)]
        return self._logits[before * _STRIDE % _LEVELS]


def make_generator(vocabulary: Vocabulary) -> Generate:
    """Return a generator for a vocabulary."""
    return PlainGenerator(vocabulary.size)
