"""Mixes that cannot be: what was asked, what is possible, whose fault it is, and what to change.

Each way out that a message names was tried on the plan: it makes what is refused possible, and nothing
else impossible.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor

from stages.errors import ConfigError
from stages.mixing.classes import MixClass
from stages.mixing.config import LIMIT, DatasetMix, SourceMix
from stages.mixing.pools import (
    ClassTokens,
    Pool,
    epochs_asked,
    left_by_shares,
    pools_of,
    share_of,
    tokens_by_source,
    total_of,
)

TOTAL_TOLERANCE = 0.005
"""Part of `total_tokens` that a dataset may be off by, beside its largest document."""


def total_or_refusal(classes: Sequence[ClassTokens], mix: DatasetMix, dataset: str) -> Fraction:
    """Return the tokens that a dataset is to have.

    Raises:
        ConfigError: nothing says how many, or no source has any of them.
    """
    total, left, there = total_of(classes, mix), left_by_shares(mix), tokens_by_source(classes)
    if total is not None and (mix.missing == "refuse" or _takes(mix)):
        return total
    if total is not None:
        raise ConfigError(
            f"dataset {dataset!r}: mix.total_tokens = {mix.total_tokens:,}: every source with training"
            " documents has a share or epochs of 0, and the others are left out; raise them, or add data"
        )
    if mix.missing == "leave_out":
        return Fraction(0)
    if not left:
        name = next(name for name in mix.sources if share_of(mix, name) and name not in there)
        raise ConfigError(
            f"dataset {dataset!r}: mix: source {name!r} is to be {mix.sources[name].share:g} of the"
            " tokens, but it has no training document of a weight above 0; leave it out and raise the"
            " other shares, or add data"
        )
    if left == 1:
        raise ConfigError(
            f"dataset {dataset!r}: mix: there is no token to take: no training document was kept whose"
            " weight and whose source's epochs are above 0; raise them, or add data"
        )
    raise ConfigError(
        f"dataset {dataset!r}: mix: no source with epochs has a token to take, so nothing fills the"
        f" {float(left):.1%} that the shares leave; set mix.total_tokens, and shares that sum to 1"
    )


def _takes(mix: DatasetMix) -> bool:
    """Say whether any source has a share or epochs above 0."""
    return any(one.whole_epochs if one.share is None else one.share for one in mix.sources.values())


def require_possible(
    classes: Sequence[ClassTokens], mix: DatasetMix, pools: Mapping[str, Pool], *, dataset: str
) -> None:
    """Refuse a mix that needs more of a source than there is.

    Raises:
        ConfigError: says which, and the ways out.
    """
    for name in _too_small(pools):
        ways = [
            text for text, changed in _changes(name, mix, pools) if _cures(classes, changed, name, pools)
        ]
        raise ConfigError(
            f"dataset {dataset!r}: mix: {_asked(name, pools[name], mix)}, but"
            f" {_there(name, pools[name], mix)}; {', or '.join([*ways, 'add data'])}"
        )


def require_within_tolerance(classes: Sequence[MixClass], mix: DatasetMix, dataset: str) -> None:
    """Refuse a mix of whose shares whole documents are too large a part; of later generations none.

    Raises:
        ConfigError: says which share, what it would be, and the way out.
    """
    tokens: dict[str, int] = {}
    for one in classes:
        tokens[one.source] = tokens.get(one.source, 0) + one.tokens
    total = sum(tokens.values())
    if mix.missing == "leave_out":  # a later generation is as small as what came
        return
    if not total:
        raise ConfigError(
            f"dataset {dataset!r}: mix: no document is taken: what is asked of each source is less than"
            " half of its smallest part; raise mix.total_tokens or epochs, or add data"
        )
    shares = {name: share_of(mix, name) for name in mix.sources}
    off = {
        name: abs(share - Fraction(tokens.get(name, 0), total))
        for name, share in shares.items()
        if share is not None
    }
    worst = max(off, key=lambda name: off[name], default="")
    if worst and off[worst] > Fraction(str(mix.tolerance)):
        raise ConfigError(
            f"dataset {dataset!r}: mix: source {worst!r} is to be {mix.sources[worst].share:g} of the"
            f" tokens, but whole documents make it {tokens.get(worst, 0):,} of {total:,}. That is off by"
            f" {float(off[worst]):.2%}, and mix.tolerance = {mix.tolerance:g} allows"
            f" {mix.tolerance:.2%}; raise mix.tolerance to {_up(off[worst], 10_000):g}, or add data"
        )


def require_epochs(classes: Sequence[ClassTokens], mix: DatasetMix, pool: Pool, *, dataset: str) -> None:
    """Refuse a total of which a source could have its part only at the cost of others.

    Without `total_tokens`, epochs are what they are, and at most `max_epochs`. A temperature balances
    languages over all sources, so with one no source has a part of its own.

    Args:
        classes: that there are.
        mix: of the dataset.
        pool: the sources with epochs.
        dataset: its name.

    Raises:
        ConfigError: all documents of a source would be at their most; says which epochs are possible.
    """
    if mix.total_tokens is None or mix.language_alpha != 1:
        return
    there = tokens_by_source(classes)
    given = {name: there.get(name, 0) * times for name, times in epochs_asked(mix).items()}
    filled = sum(given.values(), Fraction(0))
    if not filled:
        return
    times = {
        name: epochs * pool.target / filled for name, epochs in epochs_asked(mix).items() if given[name]
    }
    over = {name: seen / Fraction(str(mix.sources[name].most_epochs)) for name, seen in times.items()}
    name = max(over, key=lambda one: over[one], default="")
    if not name or over[name] <= 1:
        return
    most = mix.sources[name].most_epochs
    ways = [f"raise its max_epochs to {_up(times[name], 100):g}"] if times[name] <= LIMIT else []
    if lower := floor(mix.total_tokens / over[name]):
        ways.append(f"lower mix.total_tokens to {lower:,}")
    rest = pool.target - Fraction(str(most)) * there[name]
    others = filled - given[name]
    if rest > 0 and others:
        possible = floor(Fraction(str(most)) * others / rest * 10_000) / 10_000
        if possible:
            ways.append(f"lower its epochs to {possible:g}")
    raise ConfigError(
        f"dataset {dataset!r}: mix.total_tokens = {mix.total_tokens:,}: source {name!r} has epochs ="
        f" {mix.sources[name].whole_epochs:g}, so its documents would be seen"
        f" {float(times[name]):.4g} times on average, but max_epochs = {most:g} is what is possible;"
        f" {', or '.join([*ways, 'add data'])}"
    )


def require_total(classes: Sequence[MixClass], mix: DatasetMix, *, largest: int, dataset: str) -> None:
    """Refuse a mix whose whole documents miss `total_tokens` by more than they must.

    Args:
        classes: what is taken.
        mix: of the dataset.
        largest: tokens of the largest training document.
        dataset: its name.

    Raises:
        ConfigError: says what was asked, what the documents give, and the way out.
    """
    if mix.total_tokens is None:
        return
    tokens = sum(one.tokens for one in classes)
    bound = total_bound(mix.total_tokens, largest)
    if abs(tokens - mix.total_tokens) > bound:
        raise ConfigError(
            f"dataset {dataset!r}: mix.total_tokens = {mix.total_tokens:,}: whole documents give"
            f" {tokens:,} tokens. That is off by {abs(tokens - mix.total_tokens):,}, and at most"
            f" {bound:,.0f} pass (the largest document, and {TOTAL_TOLERANCE:.1%}); set"
            f" mix.total_tokens to {tokens:,}, or add data"
        )


def total_bound(total: int, largest: int) -> float:
    """Return by how many tokens a dataset may miss its `total_tokens`.

    Args:
        total: asked for.
        largest: tokens of the largest training document.
    """
    return largest + TOTAL_TOLERANCE * total


def _too_small(pools: Mapping[str, Pool]) -> list[str]:
    """Return the pools that cannot have their tokens."""
    return [name for name, pool in pools.items() if pool.target > pool.possible]


def _cures(
    classes: Sequence[ClassTokens], changed: DatasetMix, name: str, pools: Mapping[str, Pool]
) -> bool:
    """Say whether a changed mix gives a pool its tokens and takes those of no other."""
    total = total_of(classes, changed)
    if total is None:
        return False
    still = set(_too_small(pools_of(classes, changed, total)))
    return name not in still and still <= set(_too_small(pools))


def _changes(name: str, mix: DatasetMix, pools: Mapping[str, Pool]) -> Iterator[tuple[str, DatasetMix]]:
    """Yield what may be changed: the words, and the mix that it makes."""
    pool = pools[name]
    if name and not pool.available:
        yield "leave it out", _with_source(mix, name, {"share": 0.0})
    if name and pool.available:
        share = floor(_possible_share(name, mix, pools) * 10_000) / 10_000
        yield f"lower its share to {share:g}", _with_source(mix, name, {"share": share})
    if pool.available:
        need = _up(pool.target / pool.available, 100)
        short = [one for one in _sources(pool) if mix.sources[one].most_epochs < need <= LIMIT]
        changed = mix
        for one in short:
            changed = _with_source(changed, one, {"max_epochs": need})
        whose = "its max_epochs" if name else f"max_epochs of {_listed(short)}" if short else ""
        if short:
            yield f"raise {whose} to {need:g}", changed
    if mix.total_tokens is not None:
        parts = [one.possible / one.target for one in pools.values() if one.target]
        lower = floor(mix.total_tokens * min(parts))
        if lower:
            yield f"lower mix.total_tokens to {lower:,}", mix.model_copy(update={"total_tokens": lower})


def _with_source(mix: DatasetMix, name: str, update: Mapping[str, float]) -> DatasetMix:
    sources: dict[str, SourceMix] = {**mix.sources, name: mix.sources[name].model_copy(update=update)}
    return mix.model_copy(update={"sources": sources})


def _asked(name: str, pool: Pool, mix: DatasetMix) -> str:
    asked = ceil(pool.target)
    if not name:
        names = [one for one, epochs in epochs_asked(mix).items() if epochs]
        return f"{_listed(names)} {'is' if len(names) == 1 else 'are'} to fill {asked:,} tokens"
    share = share_of(mix, name) or Fraction(1)
    return (
        f"source {name!r} is to be {float(share):g} of {ceil(pool.target / share):,} tokens = {asked:,}"
    )


def _there(name: str, pool: Pool, mix: DatasetMix) -> str:
    whose = "it has" if name or len(epochs_asked(mix)) == 1 else "they have"
    if not pool.available:
        return f"{whose} no training document of a weight above 0"
    most = {one: mix.sources[one].most_epochs for one in _sources(pool)}
    if len(set(most.values())) == 1:
        limits = f"which max_epochs = {next(iter(most.values())):g} makes"
    else:
        limits = (
            f"which max_epochs ({', '.join(f'{one} {times:g}' for one, times in most.items())}) make"
        )
    return f"{whose} {pool.available:,}, {limits} at most {floor(pool.possible):,}"


def _sources(pool: Pool) -> list[str]:
    """Return the sources that can give tokens."""
    return sorted({pool.classes[row].key.source for row in pool.taken})


def _possible_share(name: str, mix: DatasetMix, pools: Mapping[str, Pool]) -> Fraction:
    """Return the largest share that a source can have, if nothing else changes."""
    possible = pools[name].possible
    if mix.total_tokens is not None:
        return possible / mix.total_tokens
    filled = pools[""].target
    others = left_by_shares(mix) + (share_of(mix, name) or 0)
    return others * possible / (filled + possible)


def _up(value: Fraction, parts: int) -> float:
    """Return a fraction rounded up to a part of one."""
    return ceil(value * parts) / parts


def _listed(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"source {names[0]!r}"
    return f"sources {', '.join(map(repr, names[:-1]))} and {names[-1]!r}"
