"""Later generations: what they have of sources with a share, so that all together come near the shares.

    P_s   tokens of source s in the mixes of the earlier generations
    t_s   its new training tokens, each once
    m_s   how often a document may be seen
    q_s   its share; all sources with epochs are one source with the share that is left

With "keep", x_s tokens of s are taken, t_s <= x_s <= m_s t_s. Those of sources with epochs are given:
their epochs say how many. Over all generations there are T = sum(P_s + x_s) tokens. Of all choices it is
the one with the smallest total variation,

    1/2 sum over s of | (P_s + x_s) / T - q_s |

and of these the one with the fewest tokens. It is the least T with T = sum(P_s + x_s(T)), where
x_s(T) is q_s T - P_s, raised to t_s or lowered to m_s t_s. With a larger T, sources that are at their
most fall further behind. With a smaller T, sources that are at their least are further ahead.

A replayed source has no new document: its least is 0.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from stages.config import Config
from stages.mixing.classes import BINS, NO_WEIGHT, MixClass
from stages.mixing.config import DatasetMix, SourceMix
from stages.mixing.pools import (
    ClassTokens,
    Pool,
    epochs_asked,
    left_by_shares,
    share_of,
    share_pool,
    tokens_by_source,
)


@dataclass(frozen=True)
class LaterGeneration:
    """What a later generation of a dataset comes after."""

    earlier: Mapping[str, int] = field(default_factory=dict)
    """Tokens of each source in the mixes of all earlier generations."""
    replays: frozenset[str] = frozenset()
    """Sources that are earlier runs: none of their documents is new."""


class LaterShare(Config):
    """One source in a later generation."""

    source: str
    share_asked: float | None
    """As the run file has it; None of a source with epochs."""
    share: float
    """Of the tokens that this generation takes."""
    share_all: float
    """Of those that all generations up to this one take."""
    left_out: int
    """New documents of a weight above 0 without a copy here."""


@dataclass(frozen=True)
class _Bounds:
    """Tokens of a source over all generations: what it has at least, at most, and its share."""

    least: Fraction
    most: Fraction
    share: Fraction

    def at(self, total: Fraction) -> Fraction:
        """Return its tokens in so many of all sources."""
        return min(self.most, max(self.least, self.share * total))


def keeps_earlier(mix: DatasetMix, later: LaterGeneration | None) -> bool:
    """Say whether a generation keeps each new document of its sources with a share."""
    shares = any(one.share for one in mix.sources.values())
    return later is not None and mix.later == "keep" and shares


def without_empty(classes: Sequence[ClassTokens], mix: DatasetMix) -> DatasetMix:
    """Return a mix that takes nothing of the sources without a token; shares stay as they are."""
    there = tokens_by_source(classes)
    return mix.model_copy(
        update={
            "sources": {
                name: one if name in there else SourceMix(epochs=0.0)
                for name, one in mix.sources.items()
            }
        }
    )


def later_pools(
    classes: Sequence[ClassTokens], mix: DatasetMix, later: LaterGeneration
) -> dict[str, Pool]:
    """Return the pools of the sources with a share in a generation that keeps their documents.

    Args:
        classes: of this generation.
        mix: of the dataset, as the run file has it.
        later: what the generation comes after.
    """
    there = tokens_by_source(classes)
    tokens = _tokens_of(there, mix, later)
    found = {}
    for name, source in mix.sources.items():
        if source.share is not None and name in there:
            least = Fraction(0) if name in later.replays or not source.share else Fraction(1)
            found[name] = share_pool(classes, name, mix, tokens[name], least=least)
    return found


def _tokens_of(there: Mapping[str, int], mix: DatasetMix, later: LaterGeneration) -> dict[str, Fraction]:
    """Return the tokens that this generation takes of each source with a share."""
    bounds = {"": _filling(there, mix, later)}
    for name in mix.sources:
        share = share_of(mix, name)
        if share is None:
            continue
        own, most = there.get(name, 0), Fraction(str(mix.sources[name].most_epochs))
        before = later.earlier.get(name, 0)
        least = 0 if name in later.replays else own * min(most, Fraction(1))
        more = most * own
        if not share:
            least = more = Fraction(0)
        bounds[name] = _Bounds(Fraction(before + least), Fraction(before + more), share)
    total = _total(list(bounds.values()))
    return {name: one.at(total) - later.earlier.get(name, 0) for name, one in bounds.items() if name}


def _filling(there: Mapping[str, int], mix: DatasetMix, later: LaterGeneration) -> _Bounds:
    """Return the bounds of all sources with epochs together: what they have is given."""
    epochs = epochs_asked(mix)
    given = sum((there.get(name, 0) * times for name, times in epochs.items()), Fraction(0))
    gone = sum(n for name, n in later.earlier.items() if name in epochs or name not in mix.sources)
    return _Bounds(given + gone, given + gone, left_by_shares(mix))


def _total(bounds: Sequence[_Bounds]) -> Fraction:
    """Return the least T that is the sum of what all sources have in T.

    The sum grows with T along straight lines, whose slopes are at most 1. They change where a source
    leaves its least or reaches its most. From the sum of all that is at least there, each line is
    followed to its end until the sum is T.
    """
    total = sum((one.least for one in bounds), Fraction(0))
    shared = [one for one in bounds if one.share]
    ends = sorted({end / one.share for one in shared for end in (one.least, one.most)})
    for end in (*ends, None):
        if end is not None and end <= total:
            continue
        bound = sum((one.at(total) for one in bounds), Fraction(0))
        if bound == total:
            return total
        free = [one for one in shared if one.least <= one.share * total < one.most]
        slope = sum((one.share for one in free), Fraction(0))
        meets = None if slope >= 1 else total + (bound - total) / (1 - slope)
        if meets is not None and (end is None or meets <= end):
            return meets
        assert end is not None, "beyond the last end nothing grows, so the line is level and T meets it"
        total = end
    return total


def later_shares(
    classes: Iterable[MixClass], mix: DatasetMix, earlier: Mapping[str, int]
) -> tuple[LaterShare, ...]:
    """Return what a later generation has of each source, alone and over all generations.

    Args:
        classes: what it takes.
        mix: as the run file has it.
        earlier: tokens of each source in the earlier generations.
    """
    taken, left = dict.fromkeys(mix.sources, 0), dict.fromkeys(mix.sources, 0)
    for one in classes:
        taken[one.source] = taken.get(one.source, 0) + one.tokens
        left[one.source] = left.get(one.source, 0) + left_out_of(one)
    own = max(sum(taken.values()), 1)
    every = max(sum(taken.values()) + sum(earlier.values()), 1)
    return tuple(
        LaterShare(
            source=name,
            share_asked=source.share,
            share=taken[name] / own,
            share_all=(taken[name] + earlier.get(name, 0)) / every,
            left_out=left[name],
        )
        for name, source in mix.sources.items()
    )


def left_out_of(one: MixClass) -> int:
    """Return how many documents of a class have no copy; those of a weight of 0 are not counted."""
    if one.level == NO_WEIGHT or one.end - one.begin >= BINS:
        return 0
    return one.available_documents - one.documents
