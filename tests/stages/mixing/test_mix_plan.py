"""What the plan of a mix promises.

The counts that it states are those of the copies, taken one by one. Each pool has its tokens to within
half a bin, no document is seen more often than it may be, and temperature and weights do what their
names say. Stages that follow each other repeat no document before all of its class were seen.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.errors import ConfigError
from stages.mixing.classes import BINS, NO_WEIGHT, MixClass, intervals, weight_of
from stages.mixing.config import DatasetMix, SourceMix
from stages.mixing.plan import PlannedMix, plan_mix
from tests.campaign import examples
from tests.stages.mixing.corpora import SOURCES, Document, corpora, counts_of, mixes


def planned(documents: Sequence[Document], mix: DatasetMix) -> PlannedMix | None:
    """Return the plan, or None if the mix is refused."""
    try:
        return plan_mix(counts_of(documents), mix, dataset="d")
    except ConfigError:
        return None


def copies(documents: Sequence[Document], classes: Sequence[MixClass]) -> list[tuple[int, int]]:
    """Return (document, number) of every copy, by the definition."""
    spans = intervals(classes)
    found = []
    for place, one in enumerate(documents):
        begin, end = spans[one.order]
        found += [(place, k) for k in range(end // BINS + 1) if begin <= one.bin + BINS * k < end]
    return found


def by_source(plan: PlannedMix) -> dict[str, int]:
    """Return the tokens of each source."""
    found: Counter[str] = Counter()
    for one in plan.classes:
        found[one.source] += one.tokens
    return dict(found)


def made(*rows: tuple[str, str, int, int, int]) -> list[Document]:
    """Return documents, evenly in bins: source, language, level, how many, tokens of each."""
    return [
        Document(source, language, level, number * BINS // count, tokens)
        for source, language, level, count, tokens in rows
        for number in range(count)
    ]


def wanted_epochs(documents: Sequence[Document], mix: DatasetMix) -> dict[tuple[str, str, int], float]:
    """Return how often each class is to be seen, found by bisection with floats."""
    tokens: defaultdict[tuple[str, str, int], int] = defaultdict(int)
    for one in documents:
        tokens[one.order] += one.tokens if one.level != NO_WEIGHT else 0
    share = {name: one.share for name, one in mix.sources.items() if one.share is not None}
    left = 1 - sum(share.values())
    own = {name: sum(n for key, n in tokens.items() if key[0] == name) for name in mix.sources}
    filled = sum(own[name] * mix.sources[name].whole_epochs for name in mix.sources if name not in share)
    total = mix.total_tokens or filled / left
    pools = [([name], share[name] * total) for name in share]
    pools.append(([name for name in mix.sources if name not in share], left * total))
    found: dict[tuple[str, str, int], float] = {}
    for names, target in pools:
        keys = [key for key in tokens if key[0] in names and tokens[key]]
        weights = _weights(keys, tokens, mix)
        most = {key: mix.sources[key[0]].most_epochs for key in keys}
        low, high = 0.0, 1e12
        for _ in range(120):
            middle = (low + high) / 2
            gives = sum(tokens[key] * min(most[key], middle * weights[key]) for key in keys)
            low, high = (low, middle) if gives > target else (middle, high)
        found |= {key: min(most[key], low * weights[key]) if target else 0.0 for key in keys}
    return found


def _weights(
    keys: Sequence[tuple[str, str, int]], tokens: Mapping[tuple[str, str, int], int], mix: DatasetMix
) -> dict[tuple[str, str, int], float]:
    weights = {}
    for key in keys:
        same = [other for other in keys if other[0] == key[0]]
        mean = sum(tokens[o] * weight_of(o[2]) for o in same) / sum(tokens[o] for o in same)
        source = mix.sources[key[0]]
        asked = source.whole_epochs if source.share is None else 1.0
        weights[key] = asked * weight_of(key[2]) / mean
    sizes: defaultdict[str, float] = defaultdict(float)
    for key in keys:
        sizes[key[1]] += tokens[key] * weights[key]
    return {
        key: weight * (sizes[key[1]] ** (mix.language_alpha - 1) if weight else 0.0)
        for key, weight in weights.items()
    }


@settings(max_examples=examples(40), deadline=None)
@given(corpora(), mixes())
def test_the_counts_are_those_of_the_copies(documents: list[Document], mix: DatasetMix) -> None:
    plan = planned(documents, mix)
    if plan is None:
        return
    taken: Counter[tuple[str, str, int]] = Counter()
    tokens: Counter[tuple[str, str, int]] = Counter()
    for place, _ in copies(documents, plan.classes):
        one = documents[place]
        taken[one.order] += 1
        tokens[one.order] += one.tokens
    assert {one.order for one in plan.classes} == {one.order for one in documents}
    for made in plan.classes:
        assert (made.documents, made.tokens) == (taken[made.order], tokens[made.order])
        assert made.available_documents == sum(one.order == made.order for one in documents)
    assert plan.tokens == sum(tokens.values())


@settings(max_examples=examples(40), deadline=None)
@given(corpora(), mixes())
def test_each_class_is_seen_as_often_as_asked_to_within_bins(
    documents: list[Document], mix: DatasetMix
) -> None:
    plan = planned(documents, mix)
    if plan is None:
        return
    bins: Counter[tuple[str, str, int, int]] = Counter()
    for one in documents:
        bins[*one.order, one.bin] += one.tokens
    wanted = wanted_epochs(documents, mix)
    error: defaultdict[str, float] = defaultdict(float)
    largest: Counter[str] = Counter()
    for taken in plan.classes:
        source = mix.sources[taken.source]
        pool = "" if source.share is None else taken.source
        largest[pool] = max(
            largest[pool], *(tokens for key, tokens in bins.items() if key[:3] == taken.order)
        )
        asked = taken.available_tokens * wanted.get(taken.order, 0.0)
        error[pool] += taken.tokens - asked
        if asked == 0:
            assert taken.documents == 0
        assert taken.begin == 0, "it is the first stage"
        assert taken.end - taken.begin <= BINS * ceil(source.most_epochs)
    for pool, off in error.items():
        assert abs(off) <= largest[pool] / 2 + 1e-3 + 1e-5 * plan.tokens


def test_whole_epochs_are_exact_beside_halves() -> None:
    documents = made(("code", "en", 0, 7, 100), ("wiki", "en", 0, 1000, 3), ("news", "en", 0, 999, 2))
    mix = DatasetMix(
        sources={"code": SourceMix(epochs=0.3), "wiki": SourceMix(), "news": SourceMix(epochs=2)}
    )
    plan = planned(documents, mix)
    assert plan is not None
    assert [(one.begin, one.end) for one in plan.classes if one.source != "code"] == [
        (0, 2 * BINS),
        (0, BINS),
    ]


def test_a_source_that_is_not_taken_is_there_beside_weights_of_another() -> None:
    rows = [("code", "en", 0), ("code", "en", 8), ("news", "en", 0), ("wiki", "en", 0)]
    documents = made(*((*row, 9, 10) for row in rows))
    sources = {"code": SourceMix(), "news": SourceMix(), "wiki": SourceMix(epochs=0)}
    plan = planned(documents, DatasetMix(sources=sources))
    assert plan is not None
    (wiki,) = (one for one in plan.classes if one.source == "wiki")
    assert (wiki.begin, wiki.end, wiki.available_documents, wiki.documents) == (0, 0, 9, 0)


def test_shares_and_epochs_are_met() -> None:
    documents = made(("code", "en", 0, 4000, 10), ("wiki", "en", 0, 4000, 7), ("news", "en", 0, 4000, 9))
    mix = DatasetMix(
        sources={"code": SourceMix(epochs=2), "wiki": SourceMix(share=0.15), "news": SourceMix()}
    )
    plan = planned(documents, mix)
    assert plan is not None
    tokens = by_source(plan)
    assert (tokens["code"], tokens["news"]) == (80_000, 36_000)
    assert tokens["wiki"] / plan.tokens == pytest.approx(0.15, abs=0.0002)
    assert plan.shares == {"wiki": 0.15}


@pytest.mark.parametrize(("alpha", "ratio"), [(1.0, 100.0), (0.5, 10.0), (0.0, 1.0)])
@pytest.mark.parametrize("levels", [(0, 0), (8, -8)], ids=["plain", "weighted"])
def test_temperature_leaves_languages_or_makes_them_equal(
    alpha: float, ratio: float, levels: tuple[int, int]
) -> None:
    rows = [("wiki", "en", levels[0], 4000, 100), ("wiki", "en", levels[1], 4000, 100)]
    rows += [("wiki", "sw", levels[0], 40, 100), ("wiki", "sw", levels[1], 40, 100)]
    mix = DatasetMix(
        sources={"wiki": SourceMix(share=1.0, max_epochs=1000)},
        total_tokens=400_000,
        language_alpha=alpha,
    )
    plan = planned(made(*rows), mix)
    assert plan is not None
    languages: Counter[str] = Counter()
    for one in plan.classes:
        languages[one.language] += one.tokens
    assert languages["en"] / languages["sw"] == pytest.approx(ratio, rel=0.03)


def test_weights_act_within_their_source_alone() -> None:
    documents = made(
        ("news", "en", 8, 4000, 5), ("news", "en", -8, 4000, 5), ("news", "en", NO_WEIGHT, 9, 9)
    )
    documents += made(("wiki", "en", 0, 4000, 5))
    plan = planned(documents, DatasetMix(sources={"news": SourceMix(), "wiki": SourceMix()}))
    assert plan is not None
    none, low, high, wiki = (one.epochs for one in plan.classes)
    assert (none, wiki) == (0.0, 1.0)
    assert (low, high) == pytest.approx((0.4, 1.6), abs=0.001)  # 1 to 4, and 1 on average


@settings(max_examples=examples(25), deadline=None)
@given(corpora(levels=(0,)), st.lists(st.integers(1, 400), min_size=2, max_size=4))
def test_stages_repeat_no_document_before_all_of_its_class_were_seen(
    documents: list[Document], totals: list[int]
) -> None:
    ends: dict[tuple[str, str, int], int] = {}
    seen: Counter[int] = Counter()
    for total in totals:
        mix = DatasetMix(
            sources={name: SourceMix(max_epochs=1000) for name in SOURCES}, total_tokens=total
        )
        try:
            plan = plan_mix(counts_of(documents), mix, dataset="d", seen=ends)
        except ConfigError:
            continue
        taken = copies(documents, plan.classes)
        seen.update(place for place, _ in taken)
        assert len(set(taken)) == len(taken)
        assert all(one.begin == ends.get(one.order, 0) for one in plan.classes)
        ends = {one.order: one.end for one in plan.classes}
        by_class: defaultdict[tuple[str, str, int], set[int]] = defaultdict(set)
        for place, one in enumerate(documents):
            by_class[one.order].add(seen[place])
        assert all(max(times) - min(times) <= 1 for times in by_class.values())


def test_the_order_of_the_counts_changes_nothing() -> None:
    documents = made(("code", "en", 0, 50, 10), ("wiki", "de", 0, 50, 10), ("wiki", "en", 3, 50, 10))
    mix = DatasetMix(
        sources={"code": SourceMix(epochs=0.7), "wiki": SourceMix(share=0.5)},
        language_alpha=0.3,
        tolerance=1,
    )
    counts = counts_of(documents)
    assert plan_mix(counts, mix, dataset="d") == plan_mix(counts[::-1], mix, dataset="d")


def test_a_golden_plan() -> None:
    rng = np.random.default_rng(0)
    documents = [
        Document(
            source,
            language,
            int(rng.choice([-8, 0, 3])),
            int(rng.integers(BINS)),
            int(rng.integers(1, 500)),
        )
        for source in ("code", "wiki")
        for language in ("de", "en")
        for _ in range(300)
    ]
    mix = DatasetMix(
        sources={"code": SourceMix(share=0.3), "wiki": SourceMix(epochs=1.5)}, language_alpha=0.3
    )
    plan = planned(documents, mix)
    assert plan is not None
    assert [one.end for one in plan.classes] == GOLDEN_ENDS
    assert abs(Fraction(by_source(plan)["code"], plan.tokens) - Fraction(3, 10)) < Fraction(1, 200)


GOLDEN_ENDS = [1227, 2956, 3501, 1547, 2939, 3891, 3712, 6758, 8526, 3330, 6341, 8454]
