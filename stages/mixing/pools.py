"""Pools of a mix: classes of documents that share an amount of tokens, and how often each is seen.

    sources with a share   each is a pool of share * total tokens
    sources with epochs    together are one pool: what the shares leave of the total
    in a pool              a class is seen min(max_epochs, factor * weight) times;
                           the factor is the one that gives the pool its tokens

Weights of documents act within their source alone (weights_in_source.py).

The weight of a class has three parts: the epochs of its source, the weight of its level relative to the
mean of its source, and what the temperature makes of its language. Fractions decide, not floats, so
every machine plans the same mix.

Axes: C classes.

What a mix asks of each source with epochs, and how far a draw of whole documents may be off.

Of a class that is seen 2.3 times on average, each bin is seen twice, and three times with a probability
of 0.3. So its tokens have the variance 0.3 * 0.7 * (tokens of the bin) ** 2, summed over its bins.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt

import numpy as np

from stages.config import Config
from stages.mixing.classes import NO_WEIGHT, ClassCounts, ClassKey, weight_of
from stages.mixing.config import DatasetMix, SourceMix

_ROUNDING = Fraction(1, 10**12)


@dataclass(frozen=True)
class ClassTokens:
    """The training tokens of a class."""

    key: ClassKey
    tokens: int

    @property
    def counts(self) -> bool:
        """Whether a mix can take any of them."""
        return self.tokens > 0 and self.key.level != NO_WEIGHT


@dataclass(frozen=True)
class Pool:
    """Classes that share an amount of tokens."""

    rows: tuple[int, ...]
    """Which of all classes these are."""
    classes: tuple[ClassTokens, ...]
    weights: tuple[Fraction, ...]
    """Of each class: how often it is seen, relative to the others."""
    most: tuple[Fraction, ...]
    """Of each class: how often it may be seen."""
    target: Fraction
    """Tokens."""
    least: Fraction = Fraction(0)
    """How often each of its classes is seen at least, if its most allows that."""

    @property
    def taken(self) -> list[int]:
        """Which of its classes can give tokens."""
        return [row for row, one in enumerate(self.classes) if one.counts and self.weights[row]]

    @property
    def available(self) -> int:
        """Tokens of the documents that can be taken, each once."""
        return sum(self.classes[row].tokens for row in self.taken)

    @property
    def possible(self) -> Fraction:
        """Tokens if every class that can be taken is seen as often as it may be."""
        return sum((self.classes[row].tokens * self.most[row] for row in self.taken), Fraction(0))


def share_of(mix: DatasetMix, name: str) -> Fraction | None:
    """Return the share of a source, as it is written; None if it has epochs."""
    share = mix.sources[name].share
    return None if share is None else Fraction(str(share))


def left_by_shares(mix: DatasetMix) -> Fraction:
    """Return the part of a dataset that its shares leave; raised shares may be off in their last bit."""
    shares = (share_of(mix, name) for name in mix.sources)
    left = 1 - sum((share for share in shares if share is not None), Fraction(0))
    return left if abs(left) > _ROUNDING else Fraction(0)


def epochs_asked(mix: DatasetMix) -> dict[str, Fraction]:
    """Return the epochs of the sources that have no share."""
    return {
        name: Fraction(str(source.whole_epochs))
        for name, source in mix.sources.items()
        if source.share is None
    }


def tokens_by_source(classes: Sequence[ClassTokens]) -> dict[str, int]:
    """Return how many tokens can be taken of each source; those of none are left out."""
    found: dict[str, int] = {}
    for one in classes:
        if one.counts:
            found[one.key.source] = found.get(one.key.source, 0) + one.tokens
    return found


def without_missing(classes: Sequence[ClassTokens], mix: DatasetMix) -> DatasetMix:
    """Return a mix without the sources that have no token; the shares of the others are raised.

    wiki 0.3, code 0.2 and nothing of wiki, web fills the rest  ->  code 0.2 / 0.7
    """
    there = tokens_by_source(classes)
    shares = {name: share_of(mix, name) or Fraction(0) for name in mix.sources if name in there}
    gone = sum(
        (share_of(mix, name) or Fraction(0) for name in mix.sources if name not in there), Fraction(0)
    )
    filled = any(times and name in there for name, times in epochs_asked(mix).items())
    whole = 1 - gone if filled else sum(shares.values(), Fraction(0))
    sources = {
        name: one.model_copy(update={"share": float(shares[name] / whole)})
        if one.share is not None and name in there and whole
        else one
        for name, one in mix.sources.items()
    }
    out = {name: SourceMix(epochs=0.0) for name in mix.sources if name not in there}
    return mix.model_copy(update={"sources": {**sources, **out}})


def total_of(classes: Sequence[ClassTokens], mix: DatasetMix) -> Fraction | None:
    """Return the tokens that a dataset is to have; None if there are none.

    Shares that leave nothing have as many tokens as can be without seeing a document twice.
    """
    if mix.total_tokens is not None:
        return Fraction(mix.total_tokens)
    there, left = tokens_by_source(classes), left_by_shares(mix)
    if left:
        filled = sum((there.get(name, 0) * e for name, e in epochs_asked(mix).items()), Fraction(0))
        return filled / left or None
    shares = ((name, share_of(mix, name)) for name in mix.sources)
    return min(Fraction(there.get(name, 0)) / share for name, share in shares if share) or None


def pools_of(classes: Sequence[ClassTokens], mix: DatasetMix, total: Fraction) -> dict[str, Pool]:
    """Return the pools, each source with a share by its name, those with epochs together by ""."""
    epochs, pools = epochs_asked(mix), dict[str, Pool]()
    for name in mix.sources:
        if (share := share_of(mix, name)) is not None:
            pools[name] = share_pool(classes, name, mix, share * total)
    pools[""] = epochs_pool(classes, epochs, mix, left_by_shares(mix) * total)
    return pools


def share_pool(
    classes: Sequence[ClassTokens],
    name: str,
    mix: DatasetMix,
    target: Fraction,
    *,
    least: Fraction = Fraction(0),
) -> Pool:
    """Return the pool of one source alone."""
    return replace(epochs_pool(classes, {name: Fraction(1)}, mix, target), least=least)


def epochs_pool(
    classes: Sequence[ClassTokens], epochs: Mapping[str, Fraction], mix: DatasetMix, target: Fraction
) -> Pool:
    """Return the pool of sources that are seen in the proportion of their epochs."""
    rows = [row for row, one in enumerate(classes) if one.key.source in epochs]
    own = tuple(classes[row] for row in rows)
    levels = {one.key.level: rounded(weight_of(one.key.level)) for one in own}
    scales = source_scales(own, levels)
    relative = [epochs[one.key.source] * scales[one.key.source] * levels[one.key.level] for one in own]
    languages: dict[str, Fraction] = {}
    for one, weight in zip(own, relative, strict=True):
        before = languages.get(one.key.language, Fraction(0))
        languages[one.key.language] = before + one.tokens * weight
    factors = language_factors(languages, mix.language_alpha)
    weights = (weight * factors[one.key.language] for one, weight in zip(own, relative, strict=True))
    most = {name: Fraction(str(mix.sources[name].most_epochs)) for name in epochs}
    return Pool(tuple(rows), own, tuple(weights), tuple(most[one.key.source] for one in own), target)


def source_scales(classes: Sequence[ClassTokens], levels: Mapping[int, Fraction]) -> dict[str, Fraction]:
    """Return, by source, what makes the mean weight of its tokens 1: weights act within a source."""
    plain, weighted = dict[str, int](), dict[str, Fraction]()
    for one in classes:
        name, tokens = one.key.source, one.tokens if one.counts else 0
        plain[name] = plain.get(name, 0) + tokens
        weighted[name] = weighted.get(name, Fraction(0)) + tokens * levels[one.key.level]
    return {name: plain[name] / own if own else Fraction(0) for name, own in weighted.items()}


def language_factors(tokens: Mapping[str, Fraction], alpha: float) -> dict[str, Fraction]:
    """Return by how much the temperature raises each language, relative to the largest."""
    most = max(tokens.values(), default=Fraction(0))
    if alpha == 1 or not most:
        return dict.fromkeys(tokens, Fraction(1))
    return {
        name: rounded(float(most / own) ** (1 - alpha)) if own else Fraction(0)
        for name, own in tokens.items()
    }


def rounded(value: float) -> Fraction:
    """Return a weight to 20 binary digits, so that the last bits of a power decide nothing."""
    if not value:
        return Fraction(0)
    scale = Fraction(2) ** (20 - int(np.frexp(value)[1]))
    return round(Fraction(value) * scale) / scale


def epochs_of(pool: Pool) -> list[Fraction]:
    """Return how often each class of a pool is seen, (C,): factor * weight, but least and most hold.

    Classes reach their most in the order of most / weight. So going through them in this order finds the
    factor.
    """
    if pool.least:
        return _bounded_epochs(pool)
    found = [Fraction(0)] * len(pool.classes)
    rows = pool.taken if pool.target else []
    rows.sort(key=lambda row: pool.most[row] / pool.weights[row])
    left = pool.target
    tokens = [one.tokens for one in pool.classes]
    spread = sum((tokens[row] * pool.weights[row] for row in rows), Fraction(0))
    for place, row in enumerate(rows):
        if left * pool.weights[row] <= pool.most[row] * spread:  # from here on none reaches its most
            factor = left / spread
            for free in rows[place:]:
                found[free] = factor * pool.weights[free]
            break
        found[row] = pool.most[row]
        left -= tokens[row] * pool.most[row]
        spread -= tokens[row] * pool.weights[row]
    return found


def _bounded_epochs(pool: Pool) -> list[Fraction]:
    """Return how often each class of a pool with a least is seen, (C,).

    The tokens of the pool grow with the factor along straight lines, which change where a class leaves
    its least or reaches its most. The line that has the target is found by halving.
    """
    found, rows = [Fraction(0)] * len(pool.classes), pool.taken

    def seen(row: int, factor: Fraction) -> Fraction:
        return min(pool.most[row], max(pool.least, factor * pool.weights[row]))

    def given(factor: Fraction) -> Fraction:
        return sum((pool.classes[row].tokens * seen(row, factor) for row in rows), Fraction(0))

    ends = sorted({bound / pool.weights[row] for row in rows for bound in (pool.least, pool.most[row])})
    low = bisect_left(ends, pool.target, key=given)  # the first end with enough
    factor = ends[min(low, len(ends) - 1)] if ends else Fraction(0)
    if 0 < low < len(ends):
        before, behind = ends[low - 1], ends[low]
        few, enough = given(before), given(behind)
        factor = before + (pool.target - few) / (enough - few) * (behind - before)
    for row in rows:
        found[row] = seen(row, factor)
    return found


SIGMAS = 4.0
"""Standard deviations by which the tokens of a source may be off."""


class DrawnSource(Config):
    """One source with epochs: what is asked of it, and how much chance lets it differ."""

    source: str
    available: int
    """Training tokens of a weight above 0, each once."""
    tokens: float
    """That are asked for."""
    sigma: float
    """Standard deviation of the tokens of a draw; 0 if each class is seen a whole number of times."""
    largest: int
    """Tokens of the largest bin of all sources with epochs: what one has too much, another has less."""

    @property
    def bound(self) -> float:
        """Return the tokens by which it may be off."""
        return max(SIGMAS * self.sigma, float(self.largest)) if self.sigma else 0.0


def drawn_sources(
    counts: Sequence[ClassCounts], mix: DatasetMix, epochs: Mapping[tuple[str, str, int], Fraction]
) -> tuple[DrawnSource, ...]:
    """Return what is asked of each source with epochs that has documents.

    Args:
        counts: all classes.
        mix: of the dataset.
        epochs: how often each class is to be seen.
    """
    asked = epochs_asked(mix)
    own = [one for one in counts if one.key.source in asked and one.key.level != NO_WEIGHT]
    available = dict.fromkeys(asked, 0)
    variance, taken = dict.fromkeys(asked, 0.0), dict.fromkeys(asked, Fraction(0))
    largest = 0
    for one in own:
        tokens, often = int(one.tokens.sum()), epochs.get(one.key.order, Fraction(0))
        available[one.key.source] += tokens
        taken[one.key.source] += tokens * often
        part = often - often.numerator // often.denominator
        if part:
            squares = float((one.tokens.astype(np.float64) ** 2).sum())
            variance[one.key.source] += float(part * (1 - part)) * squares
            largest = max(largest, int(one.tokens.max(initial=0)))
    wanted = taken if mix.language_alpha != 1 else _by_epochs(available, mix)
    return tuple(
        DrawnSource(
            source=name,
            available=available[name],
            tokens=float(wanted[name]),
            sigma=sqrt(variance[name]),
            largest=largest,
        )
        for name in asked
        if available[name]
    )


def _by_epochs(available: Mapping[str, int], mix: DatasetMix) -> dict[str, Fraction]:
    """Return the tokens that epochs give each source, in proportion if the total is set."""
    given = {name: available[name] * times for name, times in epochs_asked(mix).items()}
    filled = sum(given.values(), Fraction(0))
    if mix.total_tokens is None or not filled:
        return given
    factor = left_by_shares(mix) * mix.total_tokens / filled
    return {name: tokens * factor for name, tokens in given.items()}
