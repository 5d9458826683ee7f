"""An encoder for tests: how often a text has each letter."""

import numpy as np
from numpy.typing import NDArray

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def encode(texts: list[str]) -> NDArray[np.float64]:
    """Return the counts of letters of each text: (N, 26)."""
    counts = [[text.count(letter) for letter in LETTERS] for text in texts]
    return np.array(counts, np.float64).reshape(len(texts), len(LETTERS))
