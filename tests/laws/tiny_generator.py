"""A generator for tests: logits that follow from the token before, the same anywhere."""

import numpy as np
from numpy.typing import NDArray

from stages.objectives.electra.generated import Generate
from stages.objectives.mlm.config import Positions
from stages.objectives.vocabulary import Vocabulary

_LEVELS = 11
"""Of the logits."""
SHARDMILL_GENERATORS = ["make_generator"]
"""What a run file may name as `objective.model`."""


class TinyGenerator:
    """A model that knows the token before.

    Args:
        size: of the vocabulary.
    """

    version = "tiny 1"

    def __init__(self, size: int) -> None:
        steps = np.arange(_LEVELS)[:, None]
        self._logits = ((steps + np.arange(size)) % _LEVELS).astype(np.float32)

    def __call__(
        self, seen: NDArray[np.int64], covered: NDArray[np.bool_], selected: Positions
    ) -> NDArray[np.floating]:
        """Return the logits of selected positions."""
        assert seen.shape == covered.shape
        row, position = selected
        before = seen[row, np.maximum(position - 1, 0)]
        return self._logits[before * 7 % _LEVELS]


def make_generator(vocabulary: Vocabulary) -> Generate:
    """Return a model of a vocabulary."""
    return TinyGenerator(vocabulary.size)
