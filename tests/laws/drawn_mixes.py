"""Random mixes, and what they must hold: the rules written a second time, with fractions and loops."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from random import Random
from typing import Any, TypeVar

import numpy as np

from stages.mixing.classes import BINS, NO_WEIGHT, MixClass, levels_of, weight_of
from stages.mixing.config import DatasetMix, SourceMix
from tests.stages.mixing.corpora import Document

NAMES = ("a", "b", "c", "d")


@dataclass(frozen=True)
class Drawn:
    """A corpus and the mixes of one or two stages over it."""

    documents: tuple[Document, ...]
    stages: tuple[DatasetMix, ...]


def drawn_mix(seed: int) -> Drawn:
    """Return a corpus of up to four sources and one or two mixes of it."""
    draw = Random(seed)  # noqa: S311  # cases of a test
    names = NAMES[: draw.randint(1, 4)]
    documents = [one for name in names for one in _source(draw, name)]
    alpha = draw.choice([1.0, 1.0, 1.0, 0.5, 0.0])
    stages = [_mix(draw, names, documents, alpha)]
    if draw.random() < 0.3:
        stages.append(_mix(draw, names, documents, alpha))
    return Drawn(tuple(documents), tuple(stages))


def _source(draw: Random, name: str) -> list[Document]:
    count, longest = draw.choice([3, 40, 200]), draw.choice([5, 100, 1000])
    kind = draw.choice(["none", "few", "many", "zeros", "one"])
    weights = {"none": [1.0], "few": [1.0, 8.0], "zeros": [0.0, 1.0, 2.0], "one": [10.0]}
    found = []
    for _ in range(count):
        weight = draw.lognormvariate(0, 2) if kind == "many" else draw.choice(weights[kind])
        level = levels_of_one(weight)
        place, length = draw.randrange(BINS), draw.randint(1, longest)
        found.append(Document(name, draw.choice(["de", "en"]), level, place, length))
    return found


def levels_of_one(weight: float) -> int:
    """Return the level of a weight."""
    return int(levels_of(np.array([weight]))[0])


def _mix(draw: Random, names: Sequence[str], documents: Sequence[Document], alpha: float) -> DatasetMix:
    sources, left = {}, Fraction(1)
    for number, name in enumerate(names):
        share = draw.choice([Fraction(1, 10), Fraction(1, 4), Fraction(3, 10)])
        most = draw.choice([None, None, 2.0, 2.5, 6.0])
        if number and draw.random() < 0.3 and left > share:
            left -= share
            sources[name] = SourceMix(share=float(share), max_epochs=most)
            continue
        epochs = draw.choice([0.0, 0.4, 1.0, 1.0, 1.5, 2.0]) if number else draw.choice([0.5, 1.0, 1.5])
        sources[name] = SourceMix(epochs=epochs, max_epochs=most)
    size = sum(one.tokens for one in documents if one.level != NO_WEIGHT)
    total = draw.choice([None, None, int(size * draw.choice([0.3, 0.9, 1.7, 3.5])) + 1])
    return DatasetMix(sources=sources, total_tokens=total, language_alpha=alpha, tolerance=1.0)


def without_weights(documents: Sequence[Document], names: Sequence[str]) -> list[Document]:
    """Return the documents with a weight above 0; those of some sources have no weights any more."""
    kept = [one for one in documents if one.level != NO_WEIGHT]
    return [replace(one, level=0) if one.source in names else one for one in kept]


def copies_by_document(
    documents: Sequence[Document], classes: Sequence[MixClass]
) -> list[tuple[int, ...]]:
    """Return the numbers of the copies that are taken of each document, by the definition."""
    spans = {one.order: (one.begin, one.end) for one in classes}
    found = []
    for one in documents:
        begin, end = spans[one.order]
        numbers = range(begin // BINS, end // BINS + 1)
        found.append(tuple(k for k in numbers if begin <= one.bin + BINS * k < end))
    return found


def tokens_of(documents: Sequence[Document]) -> dict[str, int]:
    """Return the tokens of each source of a weight above 0."""
    found: dict[str, int] = {}
    for one in documents:
        if one.level != NO_WEIGHT:
            found[one.source] = found.get(one.source, 0) + one.tokens
    return found


def asked_by_hand(documents: Sequence[Document], mix: DatasetMix) -> dict[str, Fraction]:
    """Return the tokens that epochs ask of each source, without a temperature over languages."""
    there, asked = tokens_of(documents), {}
    for name, one in mix.sources.items():
        if one.share is None and name in there:
            asked[name] = there[name] * Fraction(str(one.whole_epochs))
    if mix.total_tokens is None:
        return asked
    shares = sum((Fraction(str(one.share or 0)) for one in mix.sources.values()), Fraction(0))
    filled, left = sum(asked.values(), Fraction(0)), (1 - shares) * mix.total_tokens
    return {name: tokens * left / filled for name, tokens in asked.items()} if filled else asked


def epochs_by_hand(
    documents: Sequence[Document], most: Fraction, target: Fraction
) -> dict[int, Fraction]:
    """Return how often documents of each level of one source are seen, without languages.

    Levels that would be beyond the most are set to it, one after another, and the rest is divided again.
    """
    tokens: dict[int, int] = {}
    for one in documents:
        if one.level != NO_WEIGHT:
            tokens[one.level] = tokens.get(one.level, 0) + one.tokens
    found: dict[int, Fraction] = {}
    while True:
        free = [level for level in tokens if level not in found]
        rest = target - sum((tokens[level] * found[level] for level in found), Fraction(0))
        weighed = sum((tokens[level] * _weight(level) for level in free), Fraction(0))
        factor = rest / weighed if weighed else Fraction(0)
        over = [level for level in free if factor * _weight(level) > most]
        if not over:
            return found | {level: factor * _weight(level) for level in free}
        found |= dict.fromkeys(over, most)


def _weight(level: int) -> Fraction:
    """Return a weight to 20 binary digits, as plans have it."""
    value = weight_of(level)
    scale = Fraction(1)
    while value * scale < 1 << 19:
        scale *= 2
    while value * scale >= 1 << 20:
        scale /= 2
    return round(Fraction(value) * scale) / scale


def variance_by_hand(documents: Sequence[Document], epochs: dict[int, Fraction]) -> float:
    """Return the variance of the tokens of a draw of one source: bins go together."""
    bins: dict[tuple[str, int, int], int] = {}
    for one in documents:
        if one.level != NO_WEIGHT:
            key = one.language, one.level, one.bin
            bins[key] = bins.get(key, 0) + one.tokens
    found = 0.0
    for (_, level, _), tokens in bins.items():
        part = epochs[level] % 1
        found += float(part * (1 - part)) * tokens**2
    return found


def balanced_by_hand(
    documents: Sequence[Document], mix: DatasetMix
) -> dict[tuple[str, str, int], float]:
    """Return how often each class of sources with epochs is seen under a temperature, with floats.

    First without weights, all sources as one; then the tokens of each source among its own documents.
    """
    asked = {name: one.whole_epochs for name, one in mix.sources.items() if one.share is None}
    kept = [one for one in documents if one.source in asked and one.level != NO_WEIGHT]
    target = float(sum(asked_by_hand(documents, mix).values(), Fraction(0)))
    plain: dict[tuple[str, str], int] = {}
    for one in kept:
        place = one.source, one.language
        plain[place] = plain.get(place, 0) + one.tokens
    sizes = _sizes({place: n * asked[place[0]] for place, n in plain.items()})
    weights = {p: asked[p[0]] * sizes[p[1]] ** (mix.language_alpha - 1) for p in plain if asked[p[0]]}
    most = {name: mix.sources[name].most_epochs for name in asked}
    seen = _filled({p: plain[p] for p in weights}, weights, most, target)
    found: dict[tuple[str, str, int], float] = {}
    for name in sorted({one.source for one in kept if asked[one.source]}):
        tokens: dict[tuple[str, str, int], int] = {}
        for one in kept:
            if one.source == name:
                tokens[one.order] = tokens.get(one.order, 0) + one.tokens
        whole = sum(tokens.values())
        mean = sum(n * weight_of(key[2]) for key, n in tokens.items()) / whole
        own = {p: n * asked[p[0]] for p, n in plain.items() if p[0] != name}
        for key, n in tokens.items():
            place = name, key[1]
            own[place] = own.get(place, 0.0) + n * asked[name] * weight_of(key[2]) / mean
        around = _sizes(own)
        heavy = {key: weight_of(key[2]) * around[key[1]] ** (mix.language_alpha - 1) for key in tokens}
        given = sum(n * seen[p] for p, n in plain.items() if p[0] == name)
        found |= _filled(tokens, heavy, most, given)
    return found


def _sizes(parts: Mapping[tuple[str, str], float]) -> dict[str, float]:
    """Return the sums over sources of each language."""
    found: dict[str, float] = {}
    for (_, language), amount in parts.items():
        found[language] = found.get(language, 0.0) + amount
    return found


Key = TypeVar("Key", bound=tuple[Any, ...])


def _filled(
    tokens: Mapping[Key, int], weights: Mapping[Key, float], most: Mapping[str, float], target: float
) -> dict[Key, float]:
    """Return how often each is seen: factor * weight up to its most; the factor is found by halving."""
    low, high = 0.0, 1e15
    for _ in range(200):
        middle = (low + high) / 2
        gives = sum(n * min(most[key[0]], middle * weights[key]) for key, n in tokens.items())
        low, high = (low, middle) if gives > target else (middle, high)
    return {key: min(most[key[0]], low * weights[key]) for key in tokens}
