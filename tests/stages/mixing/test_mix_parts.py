"""Parts of the plan of a mix: each is what its sentence says, where whole plans seldom show it."""

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from stages.errors import ConfigError
from stages.mixing.audit import _tolerance
from stages.mixing.classes import ClassCounts, ClassKey
from stages.mixing.config import DatasetMix, SourceMix
from stages.mixing.plan import plan_mix
from stages.mixing.pools import ClassTokens, Pool, drawn_sources, epochs_of, without_missing


def counts(source: str, *tokens: int, language: str = "en") -> ClassCounts:
    """Return a class of documents, each in a bin of its own."""
    numbers = np.arange(len(tokens), dtype=np.int64)
    sizes = np.array(tokens, np.int64)
    return ClassCounts(ClassKey(source=source, language=language), numbers, np.ones_like(sizes), sizes)


@pytest.mark.parametrize(("alpha", "tokens"), [(1.0, (60.0, 80.0)), (0.5, (15.0, 120.0))])
def test_with_a_temperature_a_source_is_to_have_what_its_classes_have(
    alpha: float, tokens: tuple[float, float]
) -> None:
    classes = [counts("code", 10, 20), counts("news", 40)]
    mix = DatasetMix(
        sources={"code": SourceMix(epochs=2), "news": SourceMix(epochs=2)}, language_alpha=alpha
    )
    epochs = {
        one.key.order: often for one, often in zip(classes, (Fraction(1, 2), Fraction(3)), strict=True)
    }
    code, news = drawn_sources(classes, mix, epochs)
    assert (code.tokens, news.tokens) == tokens
    assert (code.available, news.available, code.largest) == (30, 40, 20)


def test_epochs_give_in_proportion_what_shares_leave_of_the_total() -> None:
    classes = [counts("code", 10, 20), counts("news", 40), counts("web", 500)]
    sources = {
        "code": SourceMix(epochs=2),
        "news": SourceMix(epochs=1),
        "web": SourceMix(share=0.5),
    }
    epochs = {one.key.order: Fraction(1) for one in classes}
    mix = DatasetMix(sources=sources, total_tokens=400)
    found = {one.source: one.tokens for one in drawn_sources(classes, mix, epochs)}
    assert found == {"code": 120, "news": 80}


def test_a_class_is_seen_as_often_as_it_may_be_even_if_it_is_to_be_seen_more() -> None:
    classes = tuple(ClassTokens(ClassKey(source=name, language="en"), 100) for name in "ab")
    pool = Pool(
        (0, 1),
        classes,
        (Fraction(1),) * 2,
        (Fraction(1, 2), Fraction(4)),
        Fraction(350),
        least=Fraction(1),
    )
    assert epochs_of(pool) == [Fraction(1, 2), Fraction(3)]


def test_of_shares_that_nothing_fills_the_sum_is_one() -> None:
    sources = {"wiki": SourceMix(share=0.3), "code": SourceMix(share=0.2), "web": SourceMix()}
    mix = DatasetMix(sources=sources, missing="leave_out")
    there = [ClassTokens(ClassKey(source=name, language="en"), 100) for name in ("wiki", "code")]
    found = without_missing(there, mix).sources
    assert (found["wiki"].share, found["code"].share, found["web"].epochs) == (0.6, 0.4, 0.0)
    web = ClassTokens(ClassKey(source="web", language="en"), 100)
    found = without_missing([there[1], web], mix).sources
    assert found["code"].share == pytest.approx(0.2 / 0.7)


def test_a_total_that_a_source_allows_is_named() -> None:
    classes = [counts("code", *(10,) * 100), counts("news", *(10,) * 100)]
    sources = {"code": SourceMix(max_epochs=2), "news": SourceMix(max_epochs=10)}
    with pytest.raises(ConfigError) as error:
        plan_mix(classes, DatasetMix(sources=sources, total_tokens=10_000), dataset="d")
    assert "lower mix.total_tokens to 4,000" in str(error.value)
    assert "raise its max_epochs to 5," in str(error.value)


@pytest.mark.parametrize(
    ("missing", "later", "bound"),
    [("refuse", False, 0.01), ("leave_out", True, 0.01), ("leave_out", False, 0.06)],
)
def test_rows_may_be_off_by_as_much_as_a_plan_without_some_sources(
    missing: str,
    later: bool,  # noqa: FBT001  # a parameter of the test
    bound: float,
) -> None:
    mix = DatasetMix.model_validate({"sources": {"a": {}}, "tolerance": 0.01, "missing": missing})
    counted: Any = SimpleNamespace(mix=mix, later=later)
    sources: Any = [
        SimpleNamespace(planned_tokens=250, share_asked=0.3),
        SimpleNamespace(planned_tokens=750, share_asked=None),
    ]
    assert _tolerance(counted, sources) == pytest.approx(bound)
