"""Draws: what was drawn by lot, beside what was to be expected of it.

    exact   rows, and how many of them are wrong: none may be
    drawn   n draws   found 1,498,702   expected 1,500,000   variance 1,275,000   -> -1.15 sigmas

With d = found - expected, sigmas are d / sqrt(variance + m |d| / 3), where no draw misses its
expectation by more than m = 1. By Bernstein's inequality the chance to be off by z of them is at most
2 exp(-z^2 / 2), of however few or rare events; of many draws m matters no more. Variances are those of
the law, never measured: what is measured of few draws proves nothing. Where draws of a group depend on
each other, as those of one document, each group counts as one draw.

Source: Boucheron, Lugosi, Massart 2013, "Concentration inequalities", theorem 2.10.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
LIMIT = 5.0
"""Sigmas that pass: one law of a million fails without a reason, at the most."""


@dataclass
class DrawSums:
    """Sums over the draws of one law."""

    n: int = 0
    found: float = 0.0
    expected: float = 0.0
    variance: float = 0.0

    @property
    def sigmas(self) -> float:
        """Return how far off the sum is; without a variance, nothing may be."""
        off = self.found - self.expected
        if abs(off) <= 1e-9 * max(1.0, abs(self.expected)):
            return 0.0
        if self.variance <= 0.0:
            return math.copysign(math.inf, off)
        return off / math.sqrt(self.variance + abs(off) / 3.0)


@dataclass(frozen=True)
class LawResult:
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

    def __str__(self) -> str:
        """Say what was found, and what the law says."""
        if self.sigmas is None:
            return f"{self.law}: not so in {self.found:,.0f} of {self.n:,} rows"
        shares = f"{self.found:.6g} of {self.n:,}; the law says {self.expected:.6g}"
        return f"{self.law}: {shares}, which is {abs(self.sigmas):.1f} sigmas off, of at most {LIMIT:g}"


@dataclass
class _Groups:
    """Sums over the draws of each group of one shard."""

    chance: float
    """That any of a group can happen."""
    n: NDArray[np.int64]
    found: NDArray[np.float64]
    rates: NDArray[np.float64]
    variances: NDArray[np.float64]
    """Of draws of groups in which they can happen."""


@dataclass
class Draws:
    """The laws of one dataset, in the order in which they were met."""

    prefix: str = ""
    """Stands before the names of all laws."""
    _laws: dict[str, DrawSums | list[int]] = field(default_factory=dict)
    _groups: dict[str, _Groups] = field(default_factory=dict)

    def within(self, prefix: str) -> "Draws":
        """Return the same counts for laws under another name."""
        return Draws(self.prefix + prefix, self._laws, self._groups)

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

    def each(
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

    def grouped(
        self,
        law: str,
        groups: NDArray[np.int64],
        found: NDArray[np.bool_],
        rates: NDArray[np.float64],
        *,
        number: int,
        chance: float,
    ) -> None:
        """Count draws that can happen in some groups only, which are drawn too; each counts as one.

        Args:
            law: its name.
            groups: (S,) of the draws.
            found: (S,) what happened.
            rates: (S,) at which it happens in groups in which it can.
            number: of the shard's groups.
            chance: that it can happen in a group.
        """
        name = self.prefix + law
        if name not in self._groups:
            zeros = (np.zeros(number, dtype) for dtype in (np.int64, float, float, float))
            self._groups[name] = _Groups(chance, *zeros)
        sums = self._groups[name]
        sums.n += np.bincount(groups, minlength=number)
        sums.found += np.bincount(groups, found, minlength=number)
        sums.rates += np.bincount(groups, rates, minlength=number)
        sums.variances += np.bincount(groups, rates * (1.0 - rates), minlength=number)

    def close_shard(self) -> None:
        """Count the groups of a shard that is done."""
        for name, sums in self._groups.items():
            counted = sums.n > 0
            n, chance = sums.n[counted], sums.chance
            mean = chance * sums.rates[counted] / n
            square = chance * (sums.variances[counted] + sums.rates[counted] ** 2) / n**2
            Draws("", self._laws).each(name, sums.found[counted] / n, mean, square - mean**2)
        self._groups.clear()

    def lines(self) -> list[LawResult]:
        """Return all laws of which anything was counted."""
        lines = []
        for name, counts in self._laws.items():
            if isinstance(counts, list):
                lines.append(LawResult(name, counts[0], counts[1], 0.0, None))
            elif counts.n:
                mean = counts.found / counts.n, counts.expected / counts.n
                lines.append(LawResult(name, counts.n, *mean, counts.sigmas))
        return [line for line in lines if line.n]

    def _drawn(self, law: str) -> DrawSums:
        found = self._laws.setdefault(self.prefix + law, DrawSums())
        assert isinstance(found, DrawSums), law
        return found

    def _add(self, law: str, found: float, expected: float, variance: float) -> None:
        """Add sums to those of a law."""
        sums = self._drawn(law)
        sums.found += float(found)
        sums.expected += float(expected)
        sums.variance += float(variance)
