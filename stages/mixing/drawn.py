"""What a mix asks of each source with epochs, and how far a draw of whole documents may be off.

Of a class that is seen 2.3 times on average, each bin is seen twice, and three times with a probability
of 0.3. So its tokens have the variance 0.3 * 0.7 * (tokens of the bin) ** 2, summed over its bins.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import sqrt

import numpy as np

from stages.config import Config
from stages.mixing.classes import NO_WEIGHT, ClassCounts
from stages.mixing.config import DatasetMix
from stages.mixing.pools import epochs_asked, left_by_shares

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
