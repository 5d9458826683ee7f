"""Whether two programs draw from one law: chi-square of counts, and a report that fails loudly.

A *category* is what one draw gave, as a number: a length, a count, a place. Draws must be independent:
one number of each row enters a comparison.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2_contingency

LEAST_EXPECTED = 10
"""Rarer categories are counted as one."""
LEAST_P = 1e-4
"""A comparison below this fails."""


def same_law(first: NDArray[np.integer], second: NDArray[np.integer]) -> tuple[float, int]:
    """Give p of two samples under one law, and the number of categories compared.

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

    def say(self, name: str, found: str, *, holds: bool) -> None:
        """Print one finding."""
        print(f"{'ok  ' if holds else 'FAIL'} {name}: {found}", flush=True)
        if not holds:
            self.failed.append(name)

    def status(self) -> int:
        """Give the exit status: 1 if anything failed."""
        print(f"{len(self.failed)} failed" + "".join(f"\n  {name}" for name in self.failed))
        return 1 if self.failed else 0
