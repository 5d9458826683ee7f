"""What a later generation promises of shares: no new document is lost, and no choice comes nearer.

Over generated sequences of dumps, in which sources come and go, and months are tiny or empty. Nearness
is the total variation of the shares over all generations. The optimum is compared with other choices,
not with the way in which it is found.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from random import Random

import pytest

from pipeline.steps.mix.choose import shares_off
from stages.mixing.classes import BINS, NO_WEIGHT
from stages.mixing.config import DatasetMix, SourceMix
from stages.mixing.later_generations import LaterGeneration, LaterShare, later_shares
from stages.mixing.plan import Planning, plan_mix
from tests.campaign import some_of
from tests.laws.drawn_mixes import copies_by_document, levels_of_one, tokens_of
from tests.stages.mixing.corpora import Document, counts_of

SEEDS = range(600)
NAMES = ("a", "b", "c", "e")
"""The last has epochs."""


def drawn_mix(draw: Random) -> DatasetMix:
    """Return shares of some sources; in half of the mixes a source with epochs fills the rest."""
    filling = draw.random() < 0.5
    parts = draw.choice([(0.7, 0.3, 0.0), (0.5, 0.3, 0.2), (0.1, 0.2, 0.7), (0.25, 0.25, 0.5)])
    sources = {
        name: SourceMix(
            share=part * (0.5 if filling else 1), max_epochs=draw.choice([None, None, 1.0, 2.5, 9.0])
        )
        for name, part in zip(NAMES, parts, strict=False)
    }
    epochs = draw.choice([0.5, 1.0, 1.5]) if filling else 0.0
    alpha = draw.choice([1.0, 1.0, 0.3])
    sources[NAMES[-1]] = SourceMix(epochs=epochs)
    return DatasetMix(sources=sources, tolerance=0.005, missing="leave_out", language_alpha=alpha)


def drawn_dump(draw: Random) -> list[Document]:
    """Return the documents of a month; some of its sources have none, and a month may be empty."""
    found = []
    for name in NAMES:
        weights = draw.choice([[1.0], [1.0], [1.0, 8.0], [0.0, 1.0]])
        for _ in range(draw.choice([0, 0, 1, 3, 40, 200])):
            level, language = levels_of_one(draw.choice(weights)), draw.choice(["de", "en"])
            found.append(Document(name, language, level, draw.randrange(BINS), draw.randint(1, 300)))
    return found


def variation(
    taken: Mapping[str, Fraction], earlier: Mapping[str, int], mix: DatasetMix
) -> tuple[Fraction, Fraction]:
    """Return how far the shares over all generations are off together, and the tokens of all."""
    held = {name: taken.get(name, Fraction(0)) + earlier.get(name, 0) for name in mix.sources}
    total = sum(held.values(), Fraction(0))
    shares = {
        name: Fraction(str(one.share)) for name, one in mix.sources.items() if one.share is not None
    }
    off = [abs(held[name] / total - share) for name, share in shares.items()] if total else []
    rest = sum((held[name] for name in held if name not in shares), Fraction(0))
    left = 1 - sum(shares.values(), Fraction(0))
    return sum(off, Fraction(0)) + (abs(rest / total - left) if total else 0), total


def bounds_of(there: Mapping[str, int], mix: DatasetMix) -> dict[str, tuple[Fraction, Fraction]]:
    """Return the fewest and the most tokens that a generation may take of each source."""
    found = {}
    for name, tokens in there.items():
        one = mix.sources[name]
        if one.share is None:
            found[name] = (tokens * Fraction(str(one.whole_epochs)),) * 2
        elif not one.share:
            found[name] = (Fraction(0), Fraction(0))
        else:
            found[name] = Fraction(tokens), tokens * Fraction(str(one.most_epochs))
    return found


@pytest.mark.parametrize("seed", some_of(SEEDS, 20))
def test_new_documents_are_kept_and_shares_come_as_near_as_they_can(seed: int) -> None:
    draw = Random(seed)  # noqa: S311  # cases of a test
    mix, earlier = drawn_mix(draw), dict[str, int]()
    for _ in range(draw.randint(2, 5)):
        documents = drawn_dump(draw)
        later = LaterGeneration(dict(earlier))
        plan = plan_mix(counts_of(documents), mix, dataset="d", planning=Planning(later=later))
        copies = copies_by_document(documents, plan.classes)
        for one, taken in zip(documents, copies, strict=True):
            source = mix.sources[one.source]
            if one.level == NO_WEIGHT or source.share == 0:
                assert not taken
            elif source.share is not None:
                assert 1 <= len(taken) < source.most_epochs + 1
        wanted = {name: Fraction(0) for name in mix.sources}
        for own in plan.classes:
            wanted[own.source] += plan.epochs.get(own.order, Fraction(0)) * own.available_tokens
        there = tokens_of(documents)
        bounds = bounds_of(there, mix)
        assert all(low <= wanted[name] <= high for name, (low, high) in bounds.items())
        best, fewest = variation(wanted, earlier, mix)
        for other in others_of(draw, wanted, bounds):
            off, total = variation(other, earlier, mix)
            assert off >= best
            assert off > best or total >= fewest
        largest = max((int(one.tokens.max()) for one in counts_of(documents)), default=0)
        for name, tokens in wanted.items():
            held = sum(own.tokens for own in plan.classes if own.source == name)
            assert abs(held - tokens) <= largest
            earlier[name] = earlier.get(name, 0) + held
        check_told(later_shares(plan.classes, mix, later.earlier), mix, held=earlier)


def others_of(
    draw: Random, wanted: Mapping[str, Fraction], bounds: Mapping[str, tuple[Fraction, Fraction]]
) -> list[dict[str, Fraction]]:
    """Return other choices: one source changed a little or to a bound, and choices at random."""
    found = []
    for name, (low, high) in bounds.items():
        near = (
            wanted[name] + step
            for step in (Fraction(-1), Fraction(1), Fraction(-1, 97), Fraction(1, 97))
        )
        able = (tokens for tokens in (low, high, *near) if low <= tokens <= high)
        found += [{**wanted, name: tokens} for tokens in able]
    for _ in range(20):
        parts = {name: Fraction(draw.choice([0, 1, draw.random()])) for name in bounds}
        found.append({name: low + parts[name] * (high - low) for name, (low, high) in bounds.items()})
    return found


def check_told(told: Sequence[LaterShare], mix: DatasetMix, *, held: Mapping[str, int]) -> None:
    """Hold what is told of the shares to what was taken in all generations."""
    total = max(sum(held.values()), 1)
    off = {
        name
        for name, one in mix.sources.items()
        if one.share is not None and abs(held[name] / total - one.share) > mix.tolerance
    }
    for one in told:
        assert one.share_all == pytest.approx(held[one.source] / total)
        if mix.sources[one.source].share:
            assert one.left_out == 0
    warnings = shares_off(told, mix, dataset="d")
    assert {line.split("source '")[1].split("'")[0] for line in warnings} == off


def test_a_month_of_one_source_is_kept_whole() -> None:
    """The shares are 0.7 and 0.3; a month of 200 web documents and 3 of code keeps all of them."""
    documents = [Document("a", "en", 0, n * 20, 100) for n in range(200)]
    documents += [Document("b", "en", 0, n * 1000, 100) for n in range(3)]
    mix = DatasetMix(sources={"a": SourceMix(share=0.7), "b": SourceMix(share=0.3)}, missing="leave_out")
    kept = plan_mix(
        counts_of(documents),
        mix,
        dataset="d",
        planning=Planning(later=LaterGeneration({"a": 7_000, "b": 3_000})),
    )
    assert {one.source: (one.documents, one.tokens) for one in kept.classes} == {
        "a": (200, 20_000),
        "b": (12, 1_200),
    }
    strict = mix.model_copy(update={"later": "strict"})
    left = plan_mix(
        counts_of(documents), strict, dataset="d", planning=Planning(later=LaterGeneration({"a": 7_000}))
    )
    assert sum(one.tokens for one in left.classes) < 1_200


def test_scarce_sources_are_repeated_no_more_than_the_shares_over_all_need() -> None:
    documents = [Document("a", "en", 0, n, 100) for n in range(100)]
    documents += [Document("b", "en", 0, n, 100) for n in range(100)]
    mix = DatasetMix(sources={"a": SourceMix(share=0.5), "b": SourceMix(share=0.5)}, missing="leave_out")
    later = LaterGeneration({"a": 30_000, "b": 10_000})
    plan = plan_mix(counts_of(documents), mix, dataset="d", planning=Planning(later=later))
    assert {one.source: one.tokens for one in plan.classes} == {"a": 10_000, "b": 30_000}


def test_a_replayed_source_has_no_new_documents() -> None:
    documents = [Document("a", "en", 0, n, 100) for n in range(100)]
    documents += [Document("old", "en", 0, n, 100) for n in range(1000)]
    absent = SourceMix(epochs=1_000)
    mix = DatasetMix(
        sources={"a": SourceMix(epochs=1), "old": SourceMix(share=0.2), "absent": absent},
        missing="leave_out",
    )
    later = LaterGeneration({"a": 8_000, "old": 2_000}, frozenset({"old"}))
    plan = plan_mix(counts_of(documents), mix, dataset="d", planning=Planning(later=later))
    assert {one.source: one.tokens for one in plan.classes} == {"a": 10_000, "old": 2_500}


def test_what_one_class_has_too_much_takes_no_document_of_another() -> None:
    """A long document of weight 1.41 is to be seen 1.5 times and is seen twice; short ones stay once."""
    documents = [Document("a", "en", 4, 7, 1_000)]
    documents += [Document("a", "en", 0, n * 3, 1) for n in range(1_100)]
    mix = DatasetMix(sources={"a": SourceMix(share=0.5), "b": SourceMix(share=0.5)}, missing="leave_out")
    planning = Planning(later=LaterGeneration({"b": 2_667}))
    plan = plan_mix(counts_of(documents), mix, dataset="d", planning=planning)
    copies = copies_by_document(documents, plan.classes)
    assert copies[0] == (0, 1)
    assert all(len(one) == 1 for one in copies[1:])


def test_tokens_of_a_source_that_is_no_longer_in_the_run_file_count_for_the_shares_of_all() -> None:
    """Half of all tokens are to be of a. 40,000 are of others, so a has 30,000 beside its 10,000."""
    documents = [Document("a", "en", 0, n, 100) for n in range(100)]
    documents += [Document("e", "en", 0, n, 100) for n in range(100)]
    mix = DatasetMix(sources={"a": SourceMix(share=0.5), "e": SourceMix()}, missing="leave_out")
    later = LaterGeneration({"a": 10_000, "gone": 30_000})
    plan = plan_mix(counts_of(documents), mix, dataset="d", planning=Planning(later=later))
    assert {one.source: one.tokens for one in plan.classes} == {"a": 30_000, "e": 10_000}
    told = {one.source: one for one in later_shares(plan.classes, mix, later.earlier)}
    assert told["a"].share_all == 0.5
