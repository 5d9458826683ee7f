"""Whether two programs draw from one law: chi-square of counts, and a report that fails loudly.

A *category* is what one draw gave, as a number: a length, a count, a place; `numbered` gives the numbers
of anything else. Draws must be independent: one number of each row enters a comparison.
"""

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2_contingency

LEAST_EXPECTED = 10
"""Rarer categories are counted as one."""
LEAST_P = 1e-4
"""A comparison below this fails."""
MOST_SIGMAS = 5
"""A mean farther from what is expected fails."""


def numbered(
    first: Iterable[Hashable], second: Iterable[Hashable]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the categories of two programs' draws, whatever they are: one number for each that differs.

    "ab" "b" "ab", "c" "b" -> 0 1 0, 2 1
    """
    names: dict[Hashable, int] = {}
    a, b = (
        np.array([names.setdefault(each, len(names)) for each in part], np.int64)
        for part in (first, second)
    )
    return a, b


def same_law(first: NDArray[np.integer], second: NDArray[np.integer]) -> tuple[float, int]:
    """Return p of two samples under one law, and the number of categories compared.

    Args:
        first: (N,) categories of one program's draws.
        second: (M,) of the other's.
    """
    names, places = np.unique(np.concatenate([first, second]), return_inverse=True)
    counts = np.stack(
        [
            np.bincount(places[: len(first)], minlength=len(names)),
            np.bincount(places[len(first) :], minlength=len(names)),
        ]
    )
    smaller = min(len(first), len(second)) / (len(first) + len(second))
    often = counts.sum(axis=0) * smaller >= LEAST_EXPECTED
    table = np.concatenate([counts[:, often], counts[:, ~often].sum(axis=1, keepdims=True)], axis=1)
    table = table[:, table.sum(axis=0) > 0]
    if table.shape[1] == 1:
        return 1.0, 1
    return float(chi2_contingency(table, correction=False).pvalue), table.shape[1]


@dataclass
class Report:
    """Findings as they come, a line each."""

    failed: list[str] = field(default_factory=list)

    def compare(self, name: str, first: NDArray[np.integer], second: NDArray[np.integer]) -> None:
        """Print p of two samples; below 1e-4 it fails."""
        p, categories = same_law(first, second)
        drawn = f"n = {len(first):,} and {len(second):,}, {categories} categories"
        self.say(name, f"p = {p:.4f}, {drawn}", holds=p >= LEAST_P)

    def mean(self, name: str, drawn: NDArray[np.generic], *, expected: float) -> None:
        """Print how far a mean is from what is expected; beyond 5 standard errors it fails."""
        values = drawn.astype(np.float64)
        found, error = float(values.mean()), float(values.std()) / math.sqrt(len(values))
        off = abs(found - expected) / max(error, np.finfo(float).tiny)
        self.say(
            name,
            f"{found:.5f}, expected {expected:.5f}, {off:.1f} sigma, n = {len(values):,}",
            holds=off <= MOST_SIGMAS,
        )

    def say(self, name: str, found: str, *, holds: bool) -> None:
        """Print one finding."""
        print(f"{'ok  ' if holds else 'FAIL'} {name}: {found}", flush=True)
        if not holds:
            self.failed.append(name)

    def status(self) -> int:
        """Return the exit status: 1 if anything failed."""
        print(f"{len(self.failed)} failed" + "".join(f"\n  {name}" for name in self.failed))
        return 1 if self.failed else 0
