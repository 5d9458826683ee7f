"""Removed share: from the duplicates in a sample, what share of all documents are duplicates.

    all documents      A A A A  B B  C  D  E  F        4 of 10 go: 10 documents, 6 different ones
    a share p of them  A     A  B       D              1 of 4 goes

A sample of a share p holds a pair with probability p^2, so the share that goes in it is too small, and
dividing it by p is wrong too: it depends on how often each text stands there. This is the problem of
unseen species. A group is a kept document and all that go for it. A group of s documents shows j of them
with probability Binomial(j; s, p). So the numbers of groups by what is seen of them are Poisson, with
means that are linear in q, the share of documents that stand in groups of each size:

    mean_j = N * sum_s q_s / s * Binomial(j; s, p)        removed = sum_s q_s * (1 - 1/s)

The estimate is that of maximum likelihood, by expectation and maximisation over a grid of sizes. Many q
fit almost as well and give other removed shares. So the interval holds all removed shares that some q
gives whose log-likelihood is at most `_DROP` below the best.

Source: Norris and Pollock 1998, "Non-parametric MLE for Poisson species abundance models", for the
estimate; Murphy and van der Vaart 2000, "On profile likelihood", for the interval. Efron and Thisted
1976: a sample says little of what is much rarer than one in it, and then the interval is wide.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.kernels import kernel

_DROP = 1.92
"""Half of the 95% point of the chi-squared distribution with one degree of freedom."""
_STEPS = 400
_TILTS = 18
"""Strengths of the pull to more or to fewer duplicates that are tried, each 2.5 times the one before."""
_FACTOR, _WEAKEST = 2.5, 1e-3
_EVERY = 12
"""Sizes of groups up to here all stand in the grid; larger ones are a tenth apart."""
_NEWTON = 30
_EXACT = 1e-10
_REMEMBERED = 64
"""Estimates, of up to a quarter of a second each."""


@dataclass(frozen=True)
class RemovedShare:
    """What share of documents goes as duplicates."""

    likely: float
    low: float
    high: float
    """With `low`, the ends of an interval of 95%."""


def removed_share(groups: Mapping[int, int], *, share: float) -> RemovedShare:
    """Return what share of all documents goes, from the groups of duplicates in a sample.

    {1: 900, 2: 50} at a share of 0.5 -> about 0.10, between 0.08 and 0.13

    Args:
        groups: numbers of groups by how many of their documents are in the sample; a document without a
            duplicate is a group of 1.
        share: of the documents that are in the sample, in (0, 1], each by chance.
    """
    return _removed_share(tuple(sorted(groups.items())), share)


@functools.lru_cache(maxsize=_REMEMBERED)
def _removed_share(counted: tuple[tuple[int, int], ...], share: float) -> RemovedShare:
    """Return it, once for the same groups: those of the only source are those of all documents."""
    groups = dict(counted)
    seen = sum(size * count for size, count in counted)
    if not seen:
        return RemovedShare(0.0, 0.0, 1.0)
    if share >= 1:
        known = 1 - sum(groups.values()) / seen
        return RemovedShare(known, known, known)
    model = _Model.of(groups, share)
    start = np.full(len(model.sizes), 1 / len(model.sizes))
    best = model.fit(start, pull=0.0, steps=4 * _STEPS)
    likely = model.removed(best)
    low, high = (model.end(best, sign=sign) for sign in (1.0, -1.0))
    return RemovedShare(likely, min(low, likely), max(high, likely))


@dataclass(frozen=True)
class _Model:
    """The likelihood of what was seen: J numbers of documents seen of a group, S sizes of groups."""

    sizes: NDArray[np.float64]
    """(S,)"""
    counts: NDArray[np.float64]
    """(J,) groups by how many of their documents were seen."""
    means: NDArray[np.float64]
    """(J, S) how many such groups are seen if all documents stand in groups of one size."""
    visible: NDArray[np.float64]
    """(S,) how many groups are seen at all in that case."""
    goes: NDArray[np.float64]
    """(S,) share of documents that goes of groups of one size."""

    @classmethod
    def of(cls, groups: Mapping[int, int], share: float) -> "_Model":
        """Return the model of a sample."""
        seen = np.array(sorted(size for size, count in groups.items() if count))
        counts = np.array([groups[int(size)] for size in seen], np.float64)
        total = float((seen * counts).sum()) / share
        sizes = _grid(seen, share, total)
        chances = np.exp(_log_binomial(seen.astype(np.float64)[:, None], sizes[None], share))
        groups_of = total / sizes
        return cls(
            sizes=sizes,
            counts=counts,
            means=chances * groups_of,
            visible=-np.expm1(sizes * np.log1p(-share)) * groups_of,
            goes=1 - 1 / sizes,
        )

    def removed(self, shares: NDArray[np.float64]) -> float:
        """Return the share of documents that goes."""
        return float(shares @ self.goes)

    def log_likelihood(self, shares: NDArray[np.float64]) -> float:
        """Return it up to a constant."""
        expected = np.maximum(self.means @ shares, 1e-300)
        return float(self.counts @ np.log(expected) - self.visible @ shares)

    def fit(
        self, shares: NDArray[np.float64], *, pull: float, steps: int = _STEPS
    ) -> NDArray[np.float64]:
        """Return the shares that are most likely, less a pull times the share that goes."""
        return _fitted(self.means, self.counts, self.visible + pull * self.goes, shares, steps)

    def end(self, best: NDArray[np.float64], *, sign: float) -> float:
        """Return the least (sign 1) or the largest (-1) share that goes and is likely enough."""
        top, shares, last = self.log_likelihood(best), best, self.removed(best)
        drop = 0.0
        scale = float(np.sqrt(self.counts.sum()))
        for number in range(_TILTS):
            # a mixture with all sizes lets the fit reach what the last one had given up
            shares = 0.999 * shares + 0.001 / len(shares)
            shares = self.fit(shares, pull=sign * scale * _WEAKEST * _FACTOR**number)
            now, fell = self.removed(shares), max(0.0, top - self.log_likelihood(shares))
            if fell >= _DROP:
                part = (np.sqrt(_DROP) - np.sqrt(drop)) / max(np.sqrt(fell) - np.sqrt(drop), 1e-12)
                return last + float(part) * (now - last)
            last, drop = (min, max)[sign < 0](last, now), max(drop, fell)
        return last


def _grid(seen: NDArray[np.int64], share: float, total: float) -> NDArray[np.float64]:
    """Return sizes that groups may have, (S,): those seen, and others up to all documents."""
    most = max(total, float(seen[-1]) / share)
    spread = [float(size) for size in range(1, _EVERY + 1)]
    while spread[-1] < most:
        spread.append(float(np.ceil(spread[-1] * 1.1)))
    likely = np.round(seen / share)
    return np.unique(np.concatenate([spread, likely[likely >= seen], seen.astype(np.float64)]))


def _log_binomial(
    seen: NDArray[np.float64], sizes: NDArray[np.float64], share: float
) -> NDArray[np.float64]:
    """Return the logarithms of Binomial(seen; size, share)."""
    possible = seen <= sizes
    apart = np.where(possible, sizes - seen, 0.0)
    ways = _log_factorial(sizes) - _log_factorial(seen) - _log_factorial(apart)
    found = ways + seen * np.log(share) + apart * np.log1p(-share)
    result: NDArray[np.float64] = np.where(possible, found, -np.inf)
    return result


def _log_factorial(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log(n!), by Stirling's series from 10 on, which is right to 1e-10."""
    least = np.maximum(values, 10.0)
    series = (
        least * np.log(least)
        - least
        + 0.5 * np.log(2 * np.pi * least)
        + 1 / (12 * least)
        - 1 / (360 * least**3)
        + 1 / (1260 * least**5)
    )
    table = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1.0, 11.0)))])
    result: NDArray[np.float64] = np.where(
        values < least, table[np.minimum(values, 10).astype(np.int64)], series
    )
    return result


@kernel
def _fitted(
    means: NDArray[np.float64],
    counts: NDArray[np.float64],
    cost: NDArray[np.float64],
    shares: NDArray[np.float64],
    steps: int,
) -> NDArray[np.float64]:
    """Return q after some steps from q = shares, each of which makes it more likely, less its cost."""
    found, weights, parts = shares.copy(), np.empty_like(shares), np.empty_like(shares)
    for _ in range(steps):
        weights[:] = 0.0
        for seen in range(len(counts)):
            expected = 0.0
            for size in range(len(found)):
                expected += means[seen, size] * found[size]
            rate = counts[seen] / max(expected, 1e-300)
            for size in range(len(found)):
                weights[size] += rate * means[seen, size]
        weights *= found
        _to_simplex(weights, cost, parts, found)
    return found


@kernel
def _to_simplex(
    weights: NDArray[np.float64],
    cost: NDArray[np.float64],
    parts: NDArray[np.float64],
    found: NDArray[np.float64],
) -> None:
    """Make found the q that maximises sum(weights * log q - cost * q), where q sums to 1; use parts."""
    least = 1e-12 * weights.max()
    # 1 / sum is convex in the multiplier, so Newton's steps from the left end do not pass the root
    shift = -np.inf
    for size in range(len(weights)):
        if weights[size] > least:
            shift = max(shift, weights[size] - cost[size])
    for _ in range(_NEWTON):
        total = slope = 0.0
        for size in range(len(weights)):
            parts[size] = weights[size] / (cost[size] + shift) if weights[size] > least else 0.0
            total += parts[size]
            slope += parts[size] / (cost[size] + shift)
        if abs(total - 1.0) < _EXACT:
            break
        shift += (total - 1.0) / slope
    total = 0.0
    for size in range(len(weights)):
        found[size] = weights[size] / (cost[size] + shift) if weights[size] > least else 0.0
        total += found[size]
    found /= total
