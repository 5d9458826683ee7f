"""What weights promise: they change no other source, and a source has the tokens that it asks for.

Over random mixes of sources, shares, epochs, weights, caps, languages, totals and stages. The right
values come from a second writing of the rules (`drawn_mixes.py`).
"""

from collections.abc import Sequence
from fractions import Fraction
from math import sqrt
from pathlib import Path

import pytest

from pipeline.engine.tasks import Workspace
from pipeline.steps.mix import choose
from stages.errors import ConfigError
from stages.mixing.classes import NO_WEIGHT
from stages.mixing.config import DatasetMix, SourceMix
from stages.mixing.plan import MixStage, PlannedMix, Planning, plain_ends, plan_mix
from stages.mixing.pools import SIGMAS
from tests.campaign import some_of
from tests.laws.drawn_mixes import (
    NAMES,
    asked_by_hand,
    balanced_by_hand,
    copies_by_document,
    drawn_mix,
    epochs_by_hand,
    tokens_of,
    variance_by_hand,
    without_weights,
)
from tests.stages.mixing.corpora import Document, counts_of

SEEDS = range(1_000)
STAGED = (362, 442)
"""Of stages where the other sources are cut otherwise if the weighted one begins elsewhere."""


def planned(documents: Sequence[Document], stages: Sequence[DatasetMix]) -> list[PlannedMix]:
    """Return the plan of each stage, each behind the one before.

    Raises:
        ConfigError: one is refused.
    """
    found: list[PlannedMix] = []
    counts, largest = counts_of(documents), max((one.tokens for one in documents), default=0)
    for number, mix in enumerate(stages):
        seen = {one.order: one.end for one in found[-1].classes} if found else {}
        plain = plain_ends(counts, [MixStage(one) for one in stages[:number]])
        planning = Planning(plain=plain, largest=largest)
        found.append(plan_mix(counts, mix, dataset="d", seen=seen, planning=planning))
    return found


@pytest.mark.parametrize("seed", sorted({*some_of(SEEDS, 10), *STAGED}))
def test_other_sources_keep_their_copies_with_and_without_the_weights_of_one(seed: int) -> None:
    drawn = drawn_mix(seed)
    weighted = without_weights(drawn.documents, ())
    for name in (*NAMES, None):
        plain = without_weights(drawn.documents, NAMES if name is None else (name,))
        try:
            own, other = (planned(one, drawn.stages) for one in (weighted, plain))
        except ConfigError:
            with pytest.raises(ConfigError):  # weights make no mix impossible, and none possible
                planned(plain, drawn.stages)
            return
        if name is None:  # then the sources without weights are the others
            levels = {(one.source, one.level) for one in weighted}
            others = {one for one in NAMES if sum(source == one for source, _ in levels) <= 1}
        else:
            others = {one for one in NAMES if one != name}
        for with_, without in zip(own, other, strict=True):
            left, right = (
                [copies for one, copies in zip(docs, found, strict=True) if one.source in others]
                for docs, found in (
                    (weighted, copies_by_document(weighted, with_.classes)),
                    (plain, copies_by_document(plain, without.classes)),
                )
            )
            assert left == right


@pytest.mark.parametrize("seed", STAGED)
def test_a_run_plans_its_stages_by_where_the_others_would_end_without_weights(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = drawn_mix(seed)
    documents = without_weights(drawn.documents, ())
    monkeypatch.setattr(choose, "read_counts", lambda *_: counts_of(documents))
    for number, expected in enumerate(planned(documents, drawn.stages)):
        before = f"stage{number - 1}" if number else None
        work = choose.MixChoice(
            dataset=f"stage{number}",
            units=(),
            mix=drawn.stages[number].model_copy(update={"after": before}),
            after=before,
            unweighted=0,
            rules=(choose.WITHIN,),
            stages=tuple(MixStage(one) for one in drawn.stages[:number]),
            largest=max(one.tokens for one in documents),
        )
        record = choose.choose_mix(Workspace(tmp_path, tmp_path), work)
        assert record.classes == expected.classes


@pytest.mark.parametrize("seed", some_of(SEEDS, 10))
def test_each_source_has_the_tokens_that_its_epochs_ask_for(seed: int) -> None:
    drawn = drawn_mix(seed)
    mix = drawn.stages[0].model_copy(update={"language_alpha": 1.0})
    asked = asked_by_hand(drawn.documents, mix)
    there = tokens_of(drawn.documents)
    over = {
        name: tokens / there[name] > Fraction(str(mix.sources[name].most_epochs))
        for name, tokens in asked.items()
    }
    if any(over.values()):
        with pytest.raises(ConfigError, match=r"max_epochs|total_tokens|training document"):
            planned(drawn.documents, [mix])
        return
    try:
        (plan,) = planned(drawn.documents, [mix])
    except ConfigError:  # a share asks for too much, or there is nothing to take
        return
    copies = copies_by_document(drawn.documents, plan.classes)
    bounds = {one.source: one for one in plan.drawn}
    for name, tokens in asked.items():
        own = [one for one in drawn.documents if one.source == name]
        most = Fraction(str(mix.sources[name].most_epochs))
        epochs = epochs_by_hand(own, most, tokens)
        for one in own:
            wanted = Fraction(0) if one.level == NO_WEIGHT else epochs[one.level]
            assert plan.epochs.get(one.order, Fraction(0)) == wanted
        sigma = sqrt(variance_by_hand(own, epochs))
        assert bounds[name].sigma == pytest.approx(sigma)
        assert bounds[name].tokens == pytest.approx(float(tokens))
        held = sum(
            one.tokens * len(taken)
            for one, taken in zip(drawn.documents, copies, strict=True)
            if one.source == name
        )
        assert abs(held - tokens) <= bounds[name].bound + 1e-6
        assert bounds[name].bound == 0 or bounds[name].bound >= SIGMAS * sigma - 1e-6
    for one, taken in zip(drawn.documents, copies, strict=True):
        assert len(taken) < mix.sources[one.source].most_epochs + 1


@pytest.mark.parametrize("seed", some_of(SEEDS, 10))
@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_a_temperature_balances_languages_and_weights_stay_within(alpha: float, seed: int) -> None:
    drawn = drawn_mix(seed)
    mix = drawn.stages[0].model_copy(update={"language_alpha": alpha})
    try:
        (plan,) = planned(drawn.documents, [mix])
    except ConfigError:
        return
    for key, epochs in balanced_by_hand(drawn.documents, mix).items():
        assert float(plan.epochs[key]) == pytest.approx(epochs, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("seed", some_of(SEEDS, 10))
def test_the_total_is_met_but_for_a_document_and_half_a_percent(seed: int) -> None:
    drawn = drawn_mix(seed)
    try:
        plans = planned(drawn.documents, drawn.stages)
    except ConfigError:
        return
    largest = max(one.tokens for one in drawn.documents)
    for plan, mix in zip(plans, drawn.stages, strict=True):
        if mix.total_tokens is not None:
            copies = copies_by_document(drawn.documents, plan.classes)
            held = sum(
                one.tokens * len(taken) for one, taken in zip(drawn.documents, copies, strict=True)
            )
            assert abs(held - mix.total_tokens) <= largest + 0.005 * mix.total_tokens


def test_a_level_at_its_most_leaves_its_excess_to_its_own_source() -> None:
    """20 documents of weight 8 and 180 of weight 1: 300 - 80 copies are left for the 180."""
    documents = [Document("a", "en", 24 if n % 10 == 0 else 0, n * 20, 100) for n in range(200)]
    documents += [Document("b", "en", 0, n * 20, 100) for n in range(200)]
    mix = DatasetMix(sources={"a": SourceMix(epochs=1.5), "b": SourceMix()})
    (plan,) = planned(documents, [mix])
    assert {key: plan.epochs[key] for key in plan.epochs} == {
        ("a", "en", 0): Fraction(220, 180),
        ("a", "en", 24): 4,
        ("b", "en", 0): 1,
    }
    copies = copies_by_document(documents, plan.classes)
    assert copies[200:] == [(0,)] * 200
    assert sum(map(len, copies[:200])) == 300
    assert [len(one) for one in copies[:200:10]] == [4] * 20


def test_a_source_that_is_at_its_most_is_refused_with_the_epochs_that_are_possible() -> None:
    documents = [Document("a", "en", 24 * (n % 2), n * 400, 100) for n in range(10)]
    documents += [Document("b", "en", 0, n * 40, 100) for n in range(100)]
    mix = DatasetMix(sources={"a": SourceMix(epochs=3), "b": SourceMix()}, total_tokens=20_000)
    with pytest.raises(ConfigError) as caught:
        planned(documents, [mix])
    said = str(caught.value)
    for part in (
        "source 'a' has epochs = 3, so its documents would be seen 4.615 times on average",
        "max_epochs = 4 is what is possible",
        "raise its max_epochs to 4.62",
        "lower mix.total_tokens to 17,333",
        "lower its epochs to 2.5",
    ):
        assert part in said
    for changed in (
        {"sources": {"a": SourceMix(epochs=3, max_epochs=4.62), "b": SourceMix()}},
        {"total_tokens": 17_333},
        {"sources": {"a": SourceMix(epochs=2.5), "b": SourceMix()}},
    ):
        planned(documents, [mix.model_copy(update=changed)])


def test_a_total_that_whole_documents_miss_by_too_much_is_refused() -> None:
    """Twenty documents share a bin, so 1,000 tokens are given or none."""
    documents = [Document("a", "en", 0, 7, 50) for _ in range(20)]
    documents += [Document("b", "en", 0, 7, 50) for _ in range(20)]
    mix = DatasetMix(sources={"a": SourceMix(), "b": SourceMix()}, total_tokens=1_300)
    with pytest.raises(
        ConfigError, match=r"whole documents give 1,000 tokens.* off by 300, and at most 56"
    ):
        planned(documents, [mix])


def test_a_source_without_epochs_has_no_copy_whatever_its_weights() -> None:
    levels = {"a": (0, 8), "b": (0,), "c": (0, 8, NO_WEIGHT)}
    documents = [
        Document(name, "en", level, n * 100, 10)
        for name, own in levels.items()
        for level in own
        for n in range(30)
    ]
    sources = {"a": SourceMix(epochs=1.5), "b": SourceMix(), "c": SourceMix(epochs=0)}
    (plan,) = planned(documents, [DatasetMix(sources=sources)])
    found = {one.order: one.documents for one in plan.classes}
    assert {(name, "en", level) for name, own in levels.items() for level in own} == found.keys()
    assert [found["c", "en", level] for level in levels["c"]] == [0, 0, 0]
    assert found["b", "en", 0] == 30


def test_the_mixes_are_of_every_sort() -> None:
    """Guard against laws that hold because nothing was drawn."""
    sorts = {"planned": 0, "refused": 0, "capped": 0, "total": 0, "stages": 0, "alpha": 0, "share": 0}
    for seed in SEEDS[:60]:
        drawn = drawn_mix(seed)
        mix = drawn.stages[0]
        try:
            plan = planned(drawn.documents, drawn.stages)[0]
        except ConfigError:
            sorts["refused"] += 1
            continue
        sorts["planned"] += 1
        sorts["capped"] += any(
            epochs == Fraction(str(mix.sources[key[0]].most_epochs)) and key[2] != 0
            for key, epochs in plan.epochs.items()
        )
        sorts["total"] += mix.total_tokens is not None
        sorts["stages"] += len(drawn.stages) > 1
        sorts["alpha"] += mix.language_alpha != 1
        sorts["share"] += any(one.share is not None for one in mix.sources.values())
    assert min(sorts.values()) >= 3, sorts
