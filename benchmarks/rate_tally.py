"""Tallies: what was drawn, beside what was to be expected of it.

    exact   rows, and how many of them are wrong: none may be
    drawn   n draws   found 1,498,702   expected 1,500,000   variance 1,275,000   -> -1.15 sigmas

With d = found - expected, sigmas are d / sqrt(variance + m |d| / 3), where no draw misses its
expectation by more than m. Then, by Bernstein's inequality, the chance to be off by z of them is at most
2 exp(-z^2 / 2), of however few or rare events; for many, m matters no more. Where draws of a group
depend on each other, as those of one document, each group is one number, and the variance is the sum of
the squares of what all groups miss.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

LIMIT = 5.0
"""Sigmas that pass: one law of a million fails without a reason, at the most."""


@dataclass
class Drawn:
    """Sums over the draws of one law."""

    n: int = 0
    found: float = 0.0
    expected: float = 0.0
    variance: float = 0.0
    miss: float = 0.0
    """By how much one draw can miss its expectation."""

    @property
    def sigmas(self) -> float:
        """Return how far off the sum is; without a variance, nothing may be."""
        off = self.found - self.expected
        if abs(off) <= 1e-9 * max(1.0, abs(self.expected)):
            return 0.0
        if self.variance <= 0.0:
            return math.copysign(math.inf, off)
        return off / math.sqrt(self.variance + self.miss * abs(off) / 3.0)


@dataclass(frozen=True)
class Line:
    """One law of one dataset."""

    law: str
    n: int
    """Draws, or rows of an exact law."""
    found: float
    """Mean of the draws, or rows that are wrong."""
    expected: float
    sigmas: float | None
    """None of an exact law."""

    @property
    def passed(self) -> bool:
        """Say whether the law holds."""
        return self.found == 0.0 if self.sigmas is None else abs(self.sigmas) <= LIMIT


@dataclass
class _Groups:
    """Sums by the groups of one shard."""

    n: NDArray[np.int64]
    missed: NDArray[np.float64]
    found: NDArray[np.float64]


@dataclass
class Tally:
    """The laws of one dataset, in the order in which they were met."""

    prefix: str = ""
    """Stands before the names of all laws."""
    _laws: dict[str, Drawn | list[int]] = field(default_factory=dict)
    _groups: dict[str, _Groups] = field(default_factory=dict)

    def within(self, prefix: str) -> "Tally":
        """Return the same tally for laws under another name."""
        return Tally(self.prefix + prefix, self._laws, self._groups)

    def exact(self, law: str, wrong: NDArray[np.bool_]) -> None:
        """Count rows that are wrong."""
        counts = self._laws.setdefault(self.prefix + law, [0, 0])
        assert isinstance(counts, list), law
        counts[0] += len(wrong)
        counts[1] += int(np.count_nonzero(wrong))

    def share(self, law: str, n: int, found: int, rate: float) -> None:
        """Count draws of which each happens at the same rate."""
        self._drawn(law).n += int(n)
        self._add(law, found, n * rate, n * rate * (1.0 - rate))

    def events(self, law: str, found: int, rates: NDArray[np.float64]) -> None:
        """Count draws of which each happens at a rate of its own, (S,), so many in all."""
        self._drawn(law).n += len(rates)
        self._add(law, found, float(rates.sum()), float((rates * (1.0 - rates)).sum()))

    def draws(
        self,
        law: str,
        found: NDArray[np.generic],
        expected: ArrayLike,
        variance: ArrayLike | None = None,
    ) -> None:
        """Count draws with expectations of their own, which none misses by more than 1.

        Args:
            law: its name.
            found: (S,) numbers or bool.
            expected: of each, or of all.
            variance: of each, or of all; None if they happen or not.
        """
        mean = np.broadcast_to(np.asarray(expected, np.float64), found.shape)
        spread = mean * (1.0 - mean) if variance is None else np.asarray(variance, np.float64)
        self._drawn(law).n += found.size
        total = np.broadcast_to(spread, found.shape).sum()
        self._add(law, float(found.sum(dtype=np.float64)), float(mean.sum()), float(total))

    def squares(self, law: str, found: NDArray[np.float64], expected: ArrayLike) -> None:
        """Count draws whose variance is taken from what they miss."""
        missed = found - np.asarray(expected, np.float64)
        self._drawn(law).n += found.size
        self._add(law, float(found.sum()), float((found - missed).sum()), float((missed**2).sum()), 0.0)

    def grouped(
        self,
        law: str,
        groups: NDArray[np.int64],
        found: NDArray[np.bool_],
        expected: NDArray[np.float64],
        *,
        number: int,
    ) -> None:
        """Count draws by the groups of a shard, each of which counts alike.

        Args:
            law: its name.
            groups: (S,) of the draws.
            found: (S,) what happened.
            expected: (S,) its rate.
            number: of the shard's groups.
        """
        name = self.prefix + law
        if name not in self._groups:
            self._groups[name] = _Groups(*(np.zeros(number, kind) for kind in (np.int64, float, float)))
        sums = self._groups[name]
        sums.n += np.bincount(groups, minlength=number)
        sums.found += np.bincount(groups, found, minlength=number)
        sums.missed += np.bincount(groups, found - expected, minlength=number)

    def close_shard(self) -> None:
        """Count the groups of a shard that is done."""
        for name, sums in self._groups.items():
            held = sums.n > 0
            found = sums.found[held] / sums.n[held]
            Tally("", self._laws).squares(name, found, found - sums.missed[held] / sums.n[held])
        self._groups.clear()

    def lines(self) -> list[Line]:
        """Return all laws of which anything was counted."""
        lines = []
        for name, counts in self._laws.items():
            if isinstance(counts, list):
                lines.append(Line(name, counts[0], counts[1], 0.0, None))
            elif counts.n:
                mean = counts.found / counts.n, counts.expected / counts.n
                lines.append(Line(name, counts.n, *mean, counts.sigmas))
        return [line for line in lines if line.n]

    def _drawn(self, law: str) -> Drawn:
        found = self._laws.setdefault(self.prefix + law, Drawn(miss=1.0))
        assert isinstance(found, Drawn), law
        return found

    def _add(self, law: str, found: float, expected: float, variance: float, miss: float = 1.0) -> None:
        """Add sums to those of a law."""
        sums = self._drawn(law)
        sums.found += float(found)
        sums.expected += float(expected)
        sums.variance += float(variance)
        sums.miss = miss
