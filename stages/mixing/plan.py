"""Planning a mix: from the tokens that there are and the settings to an interval for each class.

    sources with a share   each is a pool of share * total tokens
    sources with epochs    together are one pool: what the shares leave of the total
    in a pool              a class is seen min(max_epochs, factor * weight) times;
                           the factor is the one that gives the pool its tokens

Fractions decide, not floats, so every machine plans the same mix. Intervals end where bins do; what that
rounds off is carried from class to class, so a pool is off by less than half a bin of its largest class.

Axes: C classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from stages.errors import ConfigError
from stages.mixing.classes import BINS, ClassCounts, MixClass, weight_of
from stages.mixing.config import DatasetMix, SourceMix

_ROUNDING = Fraction(1, 10**12)


@dataclass(frozen=True)
class PlannedMix:
    """What a dataset takes of each class."""

    classes: tuple[MixClass, ...]
    """In the order of source, language and level; all that have documents."""
    shares: dict[str, float]
    """Asked for: the part of the tokens of each source that has a share. The mix may be off by a bin."""

    @property
    def tokens(self) -> int:
        """Of all copies."""
        return sum(one.tokens for one in self.classes)


@dataclass(frozen=True)
class _Pool:
    """Classes that share an amount of tokens."""

    counts: tuple[ClassCounts, ...]
    weights: tuple[Fraction, ...]
    """Of each class: how often it is seen, relative to the others."""
    most: tuple[Fraction, ...]
    """Of each class: how often it may be seen."""
    target: Fraction
    """Tokens."""

    @property
    def available(self) -> list[int]:
        return [int(one.tokens.sum()) for one in self.counts]

    @property
    def possible(self) -> Fraction:
        """Tokens if every class with a weight is seen as often as it may be."""
        rows = zip(self.available, self.weights, self.most, strict=True)
        return sum((tokens * most for tokens, weight, most in rows if weight), Fraction(0))


def plan_mix(
    counts: Sequence[ClassCounts],
    mix: DatasetMix,
    *,
    dataset: str,
    seen: Mapping[tuple[str, str, int], int] | None = None,
) -> PlannedMix:
    """Return what a dataset takes of each class of training documents.

    Args:
        counts: all classes that there are.
        mix: of the dataset; its `sources` name every source of the run.
        dataset: its name, for messages.
        seen: by class, where the interval of the stage before ends.

    Raises:
        ConfigError: a source has too little for what is asked; says what is possible and what to change.
    """
    ordered = sorted(counts, key=lambda one: one.key.order)
    if mix.missing == "leave_out":
        mix = _without_missing(mix, _tokens_by_source(ordered))
    total = _total(ordered, mix, dataset)
    pools = _pools(ordered, mix, total)
    classes: list[MixClass] = []
    for name, pool in pools.items():
        if pool.target > pool.possible:
            raise ConfigError(_impossible(name, pool, mix, dataset, total))
        classes += _intervals(pool, _epochs_of(pool), seen or {})
    asked = {name: source.share for name, source in mix.sources.items() if source.share is not None}
    return PlannedMix(tuple(sorted(classes, key=lambda one: one.order)), asked)


def _without_missing(mix: DatasetMix, there: Mapping[str, int]) -> DatasetMix:
    """Return a mix without the shares of sources that have no token, the others raised in proportion.

    wiki 0.3, code 0.2 and nothing of wiki, web fills the rest  ->  code 0.2 / 0.7
    """
    gone = [name for name, one in mix.sources.items() if one.share and not there.get(name)]
    left = 1 - sum((_share(mix.sources[name]) or Fraction(0) for name in gone), Fraction(0))
    sources = {
        name: one.model_copy(update={"share": float((_share(one) or Fraction(0)) / left)})
        if one.share is not None and left
        else one
        for name, one in mix.sources.items()
    }
    out = {name: SourceMix(epochs=0.0) for name in gone}
    return mix.model_copy(update={"sources": {**sources, **out}})


def _share(source: SourceMix) -> Fraction | None:
    return None if source.share is None else Fraction(str(source.share))


def _with_epochs(mix: DatasetMix) -> dict[str, Fraction]:
    """Return the epochs of the sources that have no share."""
    return {
        name: Fraction(str(source.whole_epochs))
        for name, source in mix.sources.items()
        if source.share is None
    }


def _left(mix: DatasetMix) -> Fraction:
    """Return what the shares leave of a dataset; shares that were raised may be off in their last bit."""
    shares = (_share(source) for source in mix.sources.values())
    left = 1 - sum((share for share in shares if share is not None), Fraction(0))
    return left if abs(left) > _ROUNDING else Fraction(0)


def _tokens_by_source(counts: Sequence[ClassCounts]) -> dict[str, int]:
    """Return the tokens of each source that have a weight."""
    found: dict[str, int] = {}
    for one in counts:
        own = int(one.tokens.sum()) if weight_of(one.key.level) else 0
        found[one.key.source] = found.get(one.key.source, 0) + own
    return found


def _total(counts: Sequence[ClassCounts], mix: DatasetMix, dataset: str) -> Fraction:
    """Return the tokens of the dataset."""
    if mix.total_tokens is not None:
        return Fraction(mix.total_tokens)
    there = _tokens_by_source(counts)
    filled = sum((there.get(name, 0) * e for name, e in _with_epochs(mix).items()), Fraction(0))
    left = _left(mix)
    if not left:
        shares = ((name, _share(one)) for name, one in mix.sources.items())
        return min(Fraction(there.get(name, 0)) / share for name, share in shares if share)
    if not filled and left != 1:
        raise ConfigError(
            f"dataset {dataset!r}: mix: no source with epochs has a token, so nothing fills the"
            f" {float(left):.1%} that the shares leave; set mix.total_tokens, and shares that sum to 1"
        )
    return filled / left


def _pools(counts: Sequence[ClassCounts], mix: DatasetMix, total: Fraction) -> dict[str, _Pool]:
    """Return the pools, each source with a share by its name, those with epochs together by ""."""
    epochs, pools = _with_epochs(mix), dict[str, _Pool]()
    for name, source in mix.sources.items():
        if (share := _share(source)) is not None:
            own = [one for one in counts if one.key.source == name]
            pools[name] = _pool(own, {name: Fraction(1)}, mix, share * total)
    rest = [one for one in counts if one.key.source in epochs]
    pools[""] = _pool(rest, epochs, mix, _left(mix) * total)
    return pools


def _pool(
    counts: Sequence[ClassCounts], epochs: Mapping[str, Fraction], mix: DatasetMix, target: Fraction
) -> _Pool:
    languages: dict[str, Fraction] = {}
    for one in counts:
        key = one.key
        own = int(one.tokens.sum()) * epochs[key.source] if weight_of(key.level) else Fraction(0)
        languages[key.language] = languages.get(key.language, Fraction(0)) + own
    factors = _language_factors(languages, mix.language_alpha)
    return _Pool(
        tuple(counts),
        tuple(
            epochs[one.key.source] * factors[one.key.language] * _rounded(weight_of(one.key.level))
            for one in counts
        ),
        tuple(Fraction(str(mix.sources[one.key.source].most_epochs)) for one in counts),
        target,
    )


def _language_factors(tokens: Mapping[str, Fraction], alpha: float) -> dict[str, Fraction]:
    """Return by how much the temperature raises each language, relative to the largest."""
    most = max(tokens.values(), default=Fraction(0))
    if alpha == 1 or not most:
        return dict.fromkeys(tokens, Fraction(1))
    return {
        name: _rounded(float(most / own) ** (1 - alpha)) if own else Fraction(0)
        for name, own in tokens.items()
    }


def _rounded(value: float) -> Fraction:
    """Return a weight to 20 binary digits, so that the last bits of a power decide nothing."""
    if not value:
        return Fraction(0)
    scale = Fraction(2) ** (20 - int(np.frexp(value)[1]))
    return round(Fraction(value) * scale) / scale


def _epochs_of(pool: _Pool) -> list[Fraction]:
    """Return how often each class is seen: min(most, factor * weight), with the factor that fits.

    Classes reach their most in the order of most / weight, so the factor is found by going through them.
    """
    if not pool.target:
        return [Fraction(0)] * len(pool.counts)
    available = pool.available
    rows = [row for row, weight in enumerate(pool.weights) if weight and available[row]]
    rows.sort(key=lambda row: pool.most[row] / pool.weights[row])
    left = pool.target
    spread = sum((available[row] * pool.weights[row] for row in rows), Fraction(0))
    found = [Fraction(0)] * len(pool.counts)
    for place, row in enumerate(rows):
        if left * pool.weights[row] <= pool.most[row] * spread:  # from here on none reaches its most
            for free in rows[place:]:
                found[free] = left * pool.weights[free] / spread
            break
        found[row] = pool.most[row]
        left -= available[row] * pool.most[row]
        spread -= available[row] * pool.weights[row]
    return found


def _intervals(
    pool: _Pool, epochs: Sequence[Fraction], seen: Mapping[tuple[str, str, int], int]
) -> list[MixClass]:
    """Return the classes of a pool with their intervals; those of few documents first."""
    order = sorted(
        range(len(pool.counts)),
        key=lambda row: (int(pool.counts[row].documents.sum()), pool.counts[row].key.order),
    )
    carried, found = Fraction(0), []
    for row in order:
        one = pool.counts[row]
        wanted = int(one.tokens.sum()) * epochs[row]
        begin = seen.get(one.key.order, 0)
        made = _interval(one, begin, wanted + carried if wanted else Fraction(0), pool.most[row])
        if wanted:
            carried += wanted - made.tokens
        found.append(made)
    return found


def _interval(counts: ClassCounts, begin: int, wanted: Fraction, most: Fraction) -> MixClass:
    """Return the interval from a place on whose tokens are nearest to those wanted."""
    documents, tokens = int(counts.documents.sum()), int(counts.tokens.sum())
    passes, bins, part = 0, 0, 0
    if tokens and wanted > 0:
        wanted = min(wanted, tokens * most)
        passes = int(wanted // tokens)
        rest = wanted - passes * tokens
        sums = np.concatenate([[0], np.cumsum(np.roll(counts.tokens, -(begin % BINS)))])
        bins = int(np.searchsorted(sums, float(rest)))
        if bins and rest - int(sums[bins - 1]) < int(sums[bins]) - rest:
            bins -= 1
        part = int(sums[bins])
    rolled = np.roll(counts.documents, -(begin % BINS))
    return MixClass(
        **counts.key.model_dump(),
        begin=begin,
        end=begin + passes * BINS + bins,
        available_documents=documents,
        available_tokens=tokens,
        documents=passes * documents + int(rolled[:bins].sum()),
        tokens=passes * tokens + part,
    )


def _impossible(name: str, pool: _Pool, mix: DatasetMix, dataset: str, total: Fraction) -> str:
    """Say what was asked, what is possible, whose fault it is and the ways out."""
    have = sum(pool.available)
    asked, possible = int(pool.target), int(pool.possible)
    begin = f"dataset {dataset!r}: mix: "
    if name:
        source = mix.sources[name]
        share, most = source.share or 0.0, source.most_epochs
        what = f"source {name!r} is to be {share:.4g} of {int(total):,} tokens = {asked:,}"
        ways = [f"lower its share to {_floor(_possible_share(pool, mix, total, name)):g}"]
    else:
        names = sorted({one.key.source for one in pool.counts})
        most = min((mix.sources[one].most_epochs for one in names), default=0.0)
        what = f"{_listed(names)} {'is' if len(names) == 1 else 'are'} to fill {asked:,} tokens"
        ways = []
    if not have:
        return (
            f"{begin}{what}, but no training document of it was kept; leave the source out, or add data"
        )
    need = _ceiling(Fraction(asked, have))
    ways.append(f"raise max_epochs from {most:g} to {need:g} or more")
    if mix.total_tokens is not None:
        lower = int(total * pool.possible / pool.target)
        ways.append(f"lower mix.total_tokens to {lower:,}")
    return (
        f"{begin}{what}, but it has {have:,}, which max_epochs = {most:g} makes at most {possible:,};"
        f" {', or '.join(ways)}, or add data"
    )


def _possible_share(pool: _Pool, mix: DatasetMix, total: Fraction, name: str) -> Fraction:
    """Return the largest share that a source can have, if nothing else changes."""
    if mix.total_tokens is not None:
        return pool.possible / total
    others = _left(mix) + (_share(mix.sources[name]) or 0)
    filled = total * _left(mix)
    return others * pool.possible / (filled + pool.possible)


def _floor(value: Fraction) -> float:
    """Return a fraction rounded down to 4 digits behind the point."""
    return float(Fraction(int(value * 10_000), 10_000))


def _ceiling(value: Fraction) -> float:
    """Return a fraction rounded up to 2 digits behind the point."""
    return float(Fraction(-int(-value * 100 // 1), 100))


def _listed(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"source {names[0]!r}"
    return f"sources {', '.join(map(repr, names[:-1]))} and {names[-1]!r}"
