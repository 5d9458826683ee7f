"""Few combinations in which every pair of values meets that a run can have at once.

Values meet where they work on the same: a filter meets the formats of the sources that it looks at, a
strategy the kind of its dataset.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations, cycle, product
from random import Random
from typing import TypeVar

from stages.objectives.table import KINDS
from stages.reading.source_code import ALL_CODE_ENDINGS
from stages.reading.table import ENDINGS, endings_of
from tests.laws.combinations import (
    DEDUPS,
    FILTERS,
    FORMS,
    FRAMINGS,
    KEEPS,
    MOST_DATASETS,
    MOST_FILTERS,
    MOST_SOURCES,
    STRATEGIES,
    ChosenSource,
    Combination,
    around,
    draw_records,
    fits_form,
    fits_framing,
    fits_keep,
    fits_shapes,
    looks_at,
    takes_dialogues,
)
from tests.laws.covering_mixes import dealt
from tests.laws.shapes import DIALOGUES, SHAPES, fits_shape
from tests.laws.small_tokenizers import TOKENIZERS
from tests.laws.written_records import FORMATS

Value = tuple[str, str]
"""A value of a sort: ("filter", "length")."""
Pair = frozenset[Value]
Item = TypeVar("Item")


def pairs_of(chosen: Combination) -> set[Pair]:
    """Return the pairs of values that meet in a combination."""
    alone: list[Value] = [
        ("tokenizer", chosen.tokenizer),
        ("around", around(chosen.tokenizer, chosen.framing)),
        ("dedup", chosen.dedup),
    ]
    data: set[Value] = set()
    found: set[Pair] = set()
    for source in chosen.sources:
        own: list[Value] = [("format", source.form), ("shape", source.shape)]
        keep: list[Value] = [("keep", source.keep)]
        looking: list[Value] = [
            ("filter", name) for name in chosen.filters if looks_at(name, source.form, source.shape)
        ]
        found |= {frozenset(pair) for pair in (tuple(own), *product(own, looking))}
        found |= {frozenset(pair) for pair in combinations(looking, 2)}
        found |= {frozenset(pair) for pair in product(keep, [*own, *looking])}
        data |= {*own, *looking}
    rows: set[Value] = set()
    for form, strategy in chosen.datasets:
        both: list[Value] = [("kind", FORMS[form]["kind"]), ("strategy", strategy)]
        found.add(frozenset(both))
        rows |= set(both)
    found |= {frozenset(pair) for pair in combinations(alone, 2)}
    framing: list[Value] = [("framing", chosen.framing)]
    found |= {frozenset(pair) for pair in product(framing, [alone[0], *rows]) if pair[1][0] != "kind"}
    for one, other in ((data, alone), (data, rows), (rows, alone)):
        found |= {frozenset(pair) for pair in product(one, other)}
    return found


def values_of(chosen: Combination) -> set[Value]:
    """Return the values that a combination has."""
    return {
        *(("ending", source.ending) for source in chosen.sources),
        *(("form", form) for form, _ in chosen.datasets),
        *(("learn", " and ".join(source.learn)) for source in chosen.sources),
        *(value for pair in pairs_of(chosen) for value in pair),
    }


def all_pairs() -> Iterator[Pair]:
    """Yield all pairs of values that a combination can have."""
    sorts: dict[str, list[str]] = {
        "format": list(FORMATS),
        "shape": list(SHAPES),
        "keep": list(KEEPS),
        "filter": list(FILTERS),
        "tokenizer": list(TOKENIZERS),
        "framing": list(FRAMINGS),
        "around": sorted({one[1] for one in possible()}),
        "dedup": list(DEDUPS),
        "kind": list(KINDS),
        "strategy": list(STRATEGIES),
    }
    values = [(sort, name) for sort, names in sorts.items() for name in names]
    for one, other in combinations(values, 2):
        if (one[0] != other[0] or one[0] == "filter") and can_meet(dict([one, other])):
            yield frozenset((one, other))


def can_meet(both: Mapping[str, str]) -> bool:
    """Say whether two values, here by their sorts, may be of one combination."""
    fine = True
    match both:
        case {"keep": keep}:
            fine = _can_keep(keep, both)
        case {"format": form, "shape": shape}:
            fine = fits_shape(form, shape)
        case {"format": form, "filter": name}:
            fine = looks_at(name, form, "text")
        case {"shape": shape, "filter": name}:
            fine = looks_at(name, "JSON lines", shape)
        case {"shape": shape, "kind": kind} if shape in DIALOGUES:
            fine = any(takes_dialogues(form) for form in FORMS if FORMS[form]["kind"] == kind)
        case {"tokenizer": tokenizer, "framing": framing}:
            fine = fits_framing(tokenizer, framing)
        case {"framing": _}:
            fine = "strategy" in both
        case {"around": _} | {"kind": _}:
            names = ("tokenizer", "around", "kind")
            fine = any(
                all(both.get(sort, name) == name for sort, name in zip(names, one, strict=True))
                for one in possible()
            )
    return fine


def _can_keep(keep: str, both: Mapping[str, str]) -> bool:
    """Say whether fields that go along may meet another value; they do within a source."""
    match both:
        case {"format": form}:
            return fits_keep(form, keep)
        case {"filter": name}:
            return any(fits_keep(form, keep) and looks_at(name, form, "text") for form in FORMATS)
    return "shape" in both


@cache
def possible() -> frozenset[tuple[str, str, str]]:
    """Return the tokenizers, what is around documents, and kinds that a dataset can have together."""
    return frozenset(
        (tokenizer, around(tokenizer, framing), FORMS[form]["kind"])
        for tokenizer, framing, form in product(TOKENIZERS, FRAMINGS, FORMS)
        if fits_framing(tokenizer, framing) and fits_form(tokenizer, framing, form)
    )


def alone_values() -> list[Value]:
    """Return the values that must be in some combination, whatever they meet there."""
    learned = (learn for shape in SHAPES.values() for learn in shape.learns)
    return [
        *(("ending", ending) for ending in TRIED_ENDINGS),
        *(("form", form) for form in FORMS),
        *(("learn", " and ".join(learn)) for learn in learned),
    ]


TRIED_ENDINGS = tuple(
    one
    for one in ENDINGS
    if (plain := one.removesuffix(".gz").removesuffix(".zst")) == ".py" or plain not in ALL_CODE_ENDINGS
)
"""Those that some combination has: of source code, whose files are read alike, one language alone."""


class _Turns:
    """Names that are used in turn: of a format its endings, of a kind its forms."""

    def __init__(self, names: Sequence[str]) -> None:
        self._left = dict.fromkeys(names, 0)

    def take(self, fitting: Sequence[str]) -> str:
        """Return the one that was used least."""
        name = min((one for one in fitting if one in self._left), key=lambda one: self._left[one])
        self._left[name] += 1
        return name


@cache
def covering() -> tuple[Combination, ...]:
    """Return combinations that cover all pairs, and every ending and form."""
    chance = Random(18)  # noqa: S311  # which records, not what bytes
    endings, forms = _Turns(TRIED_ENDINGS), _Turns(list(FORMS))
    missing, chosen = set(all_pairs()), list[Combination]()
    while missing:
        begun = _begun(missing)
        one = _grown(begun, missing, forms)
        if not pairs_of(one) & missing:  # the best first steps led to a dead end
            one = _grown(_with_pair(begun, min(missing, key=sorted), missing), missing, forms)
        missing -= pairs_of(one)
        sources = (
            draw_records(chance, replace(own, ending=endings.take(endings_of(FORMATS[own.form].reader))))
            for own in one.sources
        )
        chosen.append(replace(one, sources=tuple(sources), seed=len(chosen)))
    return tuple(dealt([*chosen, *_unfiltered(chance, len(chosen))]))


def _unfiltered(chance: Random, seed: int) -> Iterator[Combination]:
    """Yield combinations of dialogues in which no filter drops most of the records."""
    forms = [form for form in FORMATS if fits_shape(form, min(DIALOGUES))]
    datasets = tuple(product(("targets",), STRATEGIES))
    for tokenizer, framing in (("gpt2", "tokenizer of rows"), ("llama", "llama")):
        sources = [
            ChosenSource(form, endings_of(FORMATS[form].reader)[0], shape, (), cut=False, keep=keep)
            for form, shape, keep in zip(forms, cycle(sorted(DIALOGUES)), cycle(KEEPS), strict=False)
        ]
        forms = forms[1:] + forms[:1]
        drawn = tuple(draw_records(chance, one) for one in sources)
        yield Combination(drawn, (), tokenizer, framing, datasets, "none", seed)


def _begun(missing: set[Pair]) -> Combination:
    """Return a tokenizer, a framing and a way to remove duplicates of which most is missing.

    The first pair that is missing can be covered with them.
    """
    counts = Counter(value for pair in missing for value in pair)
    wanted = dict(min(missing, key=sorted))

    def weight(one: Sequence[Value]) -> int:
        own = sum(frozenset(pair) in missing for pair in combinations(one, 2))
        return sum(counts[value] for value in one) + 20 * own

    fitting = (
        (framing, (("tokenizer", tokenizer), ("around", around(tokenizer, framing)), ("dedup", dedup)))
        for tokenizer, framing, dedup in product(TOKENIZERS, FRAMINGS, DEDUPS)
        if fits_framing(tokenizer, framing)
        and wanted.get("framing", framing) == framing
        and any(
            wanted.get("kind", kind) == kind
            for known, held, kind in possible()
            if (known, held) == (tokenizer, around(tokenizer, framing))
        )
    )
    able = [one for one in fitting if all(wanted.get(sort, name) == name for sort, name in one[1])]
    framing, parts = max(able, key=lambda one: (weight(one[1]), counts["framing", one[0]]))
    (_, tokenizer), _, (_, dedup) = parts
    return Combination((), (), tokenizer, framing, (), dedup, 0)


def _with_pair(one: Combination, pair: Pair, missing: set[Pair]) -> Combination:
    """Add a source, filters and a dataset in which a pair meets: what follows cannot lose it."""
    wanted: dict[str, list[str]] = {}
    for sort, name in pair:
        wanted.setdefault(sort, []).append(name)
    filters = replace(one, filters=tuple(wanted.get("filter", ())))
    looked = [other for other in _more_sources(filters) if _has(other.sources[-1], wanted)]
    if not wanted.keys() & _DATA:  # of each shape one will do
        looked = list({other.sources[-1].shape: other for other in looked}.values())
    able: list[Combination] = [
        other
        for held in (filters, *looked)
        for other in (held, *(_more_datasets(held) if wanted.keys() & {"kind", "strategy"} else ()))
        if pair in pairs_of(other)
    ]
    assert able, f"nothing has {sorted(pair)}, though `can_meet` says that a combination may"
    return max(able, key=lambda other: len(pairs_of(other) & missing))


_DATA = {"format", "shape", "keep", "filter"}
"""Sorts of values that a source has, or that meet it."""


def _has(source: ChosenSource, wanted: Mapping[str, Sequence[str]]) -> bool:
    own = {"format": source.form, "shape": source.shape, "keep": source.keep}
    return all(wanted.get(sort, [name]) == [name] for sort, name in own.items())


def _grown(one: Combination, missing: set[Pair], forms: _Turns) -> Combination:
    """Add sources, filters and datasets in turn, each the best, while pairs are covered by it."""
    idle = 0
    for ways in cycle((_more_sources, _more_filters, _more_datasets)):
        candidates = [one, *ways(one)]
        counts = [len(pairs_of(other) & missing) for other in candidates]
        best = max(counts)
        idle = 0 if best > counts[0] or not (one.sources and one.datasets) else idle + 1
        equal = [other for other, count in zip(candidates[1:], counts[1:], strict=True) if count == best]
        if equal and (best > counts[0] or not (one.sources and one.datasets)):
            one = _taken(equal, forms)
        if idle > 3:
            return one
    raise AssertionError


def _taken(equal: Sequence[Combination], forms: _Turns) -> Combination:
    """Return one of several that are as good: by the form of its last dataset that was used least."""
    by_form = {other.datasets[-1][0]: other for other in reversed(equal) if other.datasets}
    return by_form[forms.take(list(by_form))] if len(by_form) > 1 else equal[0]


def _more_sources(one: Combination) -> Iterator[Combination]:
    fixed = [form for form, _ in one.datasets if not takes_dialogues(form)]
    for form, shape, keep in product(FORMATS, SHAPES, KEEPS) if len(one.sources) < MOST_SOURCES else ():
        if fits_shape(form, shape) and fits_keep(form, keep) and not (fixed and shape in DIALOGUES):
            added = ChosenSource(form, "", shape, (), cut=False, keep=keep)
            yield replace(one, sources=(*one.sources, added))


def _more_filters(one: Combination) -> Iterator[Combination]:
    for name in FILTERS if len(one.filters) < MOST_FILTERS else ():
        if name not in one.filters:
            yield replace(one, filters=(*one.filters, name))


def _more_datasets(one: Combination) -> Iterator[Combination]:
    shapes = {source.shape for source in one.sources}
    for form, strategy in product(FORMS, STRATEGIES) if len(one.datasets) < MOST_DATASETS else ():
        if fits_form(one.tokenizer, one.framing, form) and fits_shapes(form, shapes):
            yield replace(one, datasets=(*one.datasets, (form, strategy)))
