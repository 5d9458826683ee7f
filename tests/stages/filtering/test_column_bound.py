"""What a bound on a column promises: each value on its side, texts that spell numbers, missing ones."""

from decimal import Decimal

import pytest
from pydantic import ValidationError

from stages.filtering.column import ColumnBound
from stages.filtering.filter import Document, Removal
from stages.filtering.table import columns_for, filter_of


def judged(value: object, **settings: object) -> str | None:
    """Return the rule that a value breaks, or None."""
    config = ColumnBound.model_validate({"column": "score", **settings})
    verdict = filter_of(config).open(config)(Document(b"text", 4, values={"score": value}))
    assert verdict is None or isinstance(verdict, Removal)
    return None if verdict is None else verdict.rule


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (0.5, None), (2, None), (1, None), ("1.5", None), (" 1e0 ", None),
        (0.49, "below_min"), (-7, "below_min"), ("0", "below_min"), (float("-inf"), "below_min"),
        (2.001, "above_max"), (10**400, "not_a_number"), (float("inf"), "above_max"),
        (True, "not_a_number"), ("high", "not_a_number"), ([1], "not_a_number"), ("nan", "not_a_number"),
        (Decimal("1.5"), None), (Decimal(3), "above_max"), (Decimal("nan"), "not_a_number"),
        (None, "missing"), ("", "missing"), (float("nan"), "missing"),
    ],
)  # fmt: skip
def test_a_value_is_held_to_both_bounds(value: object, rule: str | None) -> None:
    assert judged(value, min=0.5, max=2) == rule


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("mit", None),
        (7, None),
        (True, None),
        ("MIT", "not_among"),
        (7.0, "not_among"),
        (None, "missing"),
    ],
)
def test_a_value_is_compared_as_text_with_those_to_keep(value: object, rule: str | None) -> None:
    assert judged(value, one_of=["mit", "7", "true"]) == rule


@pytest.mark.parametrize("value", [None, "", float("nan")])
def test_a_missing_value_is_kept_if_asked_for(value: object) -> None:
    assert judged(value, min=1, missing="keep") is None


def test_the_verdict_says_what_was_found() -> None:
    config = ColumnBound(column="score", min=0.5)
    verdict = filter_of(config).open(config)(Document(b"text", 4, values={"score": 0.25}))
    assert verdict == Removal("below_min", "column 'score': 0.25; min = 0.5")
    assert columns_for([config], "any") == ("score",)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "needs min, max or both, or else one_of"),
        ({"min": 1, "one_of": ["1"]}, "needs min, max or both, or else one_of"),
        ({"min": 2, "max": 1}, r"min = 2.0: over max = 1.0"),
        ({"min": float("nan")}, "finite"),
        ({"one_of": []}, "at least 1 item"),
    ],
)
def test_bounds_that_say_nothing_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ColumnBound.model_validate({"column": "score", **settings})


@pytest.mark.parametrize("value", ["\xe9t\xe9", "e\u0301te\u0301"])
def test_values_are_compared_in_one_form_of_unicode(value: str) -> None:
    for listed in ("\xe9t\xe9", "e\u0301te\u0301"):
        assert judged(value, one_of=[listed]) is None
    assert judged(value, one_of=["ete"]) == "not_among"
