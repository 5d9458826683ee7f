"""Mixes, the order of rows, and what becomes of runs, dealt to combinations so that every pair meets.

They are dealt when the combinations are there, since any of them goes with almost any other value. A
mix and an order meet what their dataset is of, and all that is the same for its run; what becomes of a
run meets the datasets that are made again.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from stages.objectives.table import KINDS
from tests.laws.combinations import (
    DEDUPS,
    FORMS,
    FRAMINGS,
    PAIRING,
    STRATEGIES,
    THEN,
    Combination,
    Pair,
    Value,
    around,
    fits_exact,
    fits_form,
    fits_framing,
    fits_replay,
    fits_shapes,
    fits_then,
)
from tests.laws.mixed_by_hand import MIXES
from tests.laws.shapes import SHAPES
from tests.laws.small_tokenizers import TOKENIZERS
from tests.laws.written_records import FORMATS

ORDERS = ("shuffle", "exact")
_AFTER = "more"
"""The mix that goes on behind a dataset before it."""


def run_values(one: Combination) -> set[Value]:
    """Return what is the same for all datasets of a combination."""
    return {
        ("tokenizer", one.tokenizer),
        ("around", around(one.tokenizer, one.framing)),
        ("dedup", one.dedup),
        *(("format", source.form) for source in one.sources),
        *(("shape", source.shape) for source in one.sources),
    }


def mixed_pairs(one: Combination) -> set[Pair]:
    """Return the pairs of a mix, an order or what becomes of the run, each with what it meets."""
    own, found = run_values(one), set[Pair]()
    then: list[Value] = [("then", name) for name in one.then.split(", ") if name != "nothing"]
    for place, mix, exact in zip(one.datasets, one.mixes, one.exact, strict=True):
        form, strategy = place
        dealt: list[Value] = [("mix", mix), ("order", ORDERS[exact])]
        laid: list[Value] = [("kind", FORMS[form]["kind"]), ("strategy", strategy)]
        found |= {frozenset(pair) for pair in (dealt, *product(dealt, [*laid, *own]))}
        again = [name for name in then if name[1] != "replayed" or fits_replay(*place)]
        found |= {frozenset(pair) for pair in product(again, [*dealt, *laid])}
    same = [value for value in own if value[0] != "format"]
    return found | {frozenset(pair) for pair in product(then, same)}


def all_mixed_pairs(run: Mapping[str, Sequence[str]]) -> Iterator[Pair]:
    """Yield all of them that there can be.

    Args:
        run: the values of each sort of `run_values`.
    """
    laid = {"kind": list(KINDS), "strategy": list(STRATEGIES)}
    dealt = {"mix": list(MIXES), "order": list(ORDERS)}
    then = {"then": list(THEN[1:3])}
    for left, right in ((dealt, {**laid, **run}), (then, {**dealt, **laid, **run})):
        for (sort, names), (other, others) in product(left.items(), right.items()):
            yield from (
                frozenset(pair)
                for pair in product(((sort, name) for name in names), ((other, name) for name in others))
                if can_meet(dict(pair))
            )
    yield from (frozenset(pair) for pair in product(*([(s, n) for n in ns] for s, ns in dealt.items())))


def can_meet(both: Mapping[str, str]) -> bool:
    """Say whether two values, here by their sorts, may be of one combination."""
    match both:
        case {"then": _, "format": _}:
            return False
        case {"order": "exact", "kind": kind}:
            return kind not in PAIRING
        case {"then": "replayed", "kind": kind}:
            forms = [form for form in FORMS if FORMS[form]["kind"] == kind]
            return any(fits_replay(form, strategy) for form, strategy in product(forms, STRATEGIES))
        case {"then": "replayed", "strategy": strategy}:
            return any(fits_replay(form, strategy) for form in FORMS)
    return True


def every_mixed_pair() -> set[Pair]:
    """Return all pairs that combinations can have of these values."""
    held = {around(tokenizer, framing) for tokenizer, framing in _framed()}
    run = {
        "tokenizer": list(TOKENIZERS),
        "around": sorted(held),
        "dedup": list(DEDUPS),
        "format": list(FORMATS),
        "shape": list(SHAPES),
    }
    return set(all_mixed_pairs(run))


def _framed() -> Iterator[tuple[str, str]]:
    return (pair for pair in product(TOKENIZERS, FRAMINGS) if fits_framing(*pair))


def dealt(chosen: Sequence[Combination]) -> Iterator[Combination]:
    """Yield combinations with mixes, orders and what becomes of them, few of which are run twice."""
    missing, mixed = every_mixed_pair(), list[Combination]()
    kinds = Counter(FORMS[form]["kind"] for one in chosen for form, _ in one.datasets)
    turns: Counter[str] = Counter()
    for one in chosen:
        mixed.append(_with_mixes(one, missing, kinds, turns))
        missing -= mixed_pairs(mixed[-1])
    for number, one in _further(mixed, missing):
        mixed[number] = one
        missing -= mixed_pairs(one)
    while True:
        grown = (
            (number, replace(one, then=then))
            for number, one in enumerate(mixed)
            if one.then == "nothing"
            for then in THEN[1:3]
            if fits_then(then, one.datasets)
        )
        counted = [(len(mixed_pairs(one) & missing) / _cost(one), number, one) for number, one in grown]
        best, number, one = max(counted, key=lambda found: found[:2])
        if not best:
            break
        mixed[number] = one
        missing -= mixed_pairs(one)
    yield from mixed


def _further(mixed: Sequence[Combination], missing: set[Pair]) -> Iterator[tuple[int, Combination]]:
    """Yield small combinations with one dataset more, until no mix or order is missing."""
    while pairs := sorted(pair for pair in map(sorted, missing) if "then" not in dict(pair)):
        wanted = dict(pairs[0])
        mix, order = wanted.get("mix", "none"), wanted.get("order", "shuffle")
        found = []
        for number, one in enumerate(mixed):
            for form, strategy in product(FORMS, STRATEGIES if "strategy" in wanted else STRATEGIES[:1]):
                if (
                    fits_form(one.tokenizer, one.framing, form)
                    and fits_shapes(form, {source.shape for source in one.sources})
                    and (order != "exact" or fits_exact(form))
                ):
                    more = replace(
                        one,
                        datasets=(*one.datasets, (form, strategy)),
                        mixes=(*one.mixes, mix),
                        exact=(*one.exact, order == "exact"),
                    )
                    if frozenset(wanted.items()) in mixed_pairs(more):
                        found.append((len(one.sources) + len(one.datasets), number, more))
        _, number, more = min(found, key=lambda one: one[:2])
        yield number, more


def _cost(one: Combination) -> float:
    """Return about how long a second run takes."""
    again = [place for place in one.datasets if one.then == "grown" or fits_replay(*place)]
    return 2 + len(again) + len(one.sources) / 2


def _with_mixes(
    one: Combination, missing: set[Pair], kinds: Mapping[str, int], turns: Counter[str]
) -> Combination:
    """Return a combination with the mix and the order of each dataset by which most pairs are met.

    Args:
        one: the combination.
        missing: pairs that are not met yet.
        kinds: of datasets, and how many there are; those that are few come first.
        turns: how often each mix was used, which is counted on.
    """
    mixes, exact, left = list[str](), list[bool](), set(missing)

    def gain(pairs: set[Pair]) -> int:
        return sum(1000 // kinds[dict(pair)["kind"]] if "kind" in dict(pair) else 50 for pair in pairs)

    for number, place in enumerate(one.datasets):
        able = (
            (mix, order)
            for mix, order in product(MIXES, (False, True))
            if (number or mix != _AFTER) and (not order or fits_exact(place[0]))
        )
        alone = replace(one, datasets=(place,))
        tried = [
            (mixed_pairs(replace(alone, mixes=(mix,), exact=(order,))) & left, mix, order)
            for mix, order in able
        ]
        found, mix, order = max(
            tried, key=lambda one: (gain(one[0]), -turns[one[1]], -turns[ORDERS[one[2]]])
        )
        turns.update((mix, ORDERS[order]))
        mixes.append(mix)
        exact.append(order)
        left -= found
    return replace(one, mixes=tuple(mixes), exact=tuple(exact))
