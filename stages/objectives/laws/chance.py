"""Chance: how far a count of what is drawn by lot may lie from its mean."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_LAMBDA = 12.5
"""Bernstein's exponent at 5 sigma: half of 5 squared."""


@dataclass(frozen=True, eq=False)
class Lot:
    """What is drawn by lot in some rows."""

    what: str
    happened: NDArray[np.bool_]
    """Where it happened."""
    could: NDArray[np.bool_]
    """Where it could have."""
    probability: float


def binomial(number: int, probability: float) -> tuple[float, float]:
    """Return mean and variance."""
    inside = min(max(probability, 0.0), 1.0)  # shares are floats: their rest may be -1e-17
    return number * inside, number * inside * (1 - inside)


def deviation(variance: float) -> float:
    """Return how far a count may lie from its mean: 5 sigma, and more where counts are few.

    Bernstein's inequality gives no law 5 sigma at small counts: a single draw of probability 0.001 is
    31 sigma off when it comes true.

    0 -> 8.3; 100 -> 54.3; 10,000 -> 504.2

    Source: Boucheron, Lugosi, Massart 2013, "Concentration inequalities", theorem 2.10.
    """
    return _LAMBDA / 3 + math.sqrt((_LAMBDA / 3) ** 2 + 2 * _LAMBDA * variance)
