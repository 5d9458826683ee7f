"""What ranking promises: numbers and dates in their order, ties canonical, what says nothing last."""

import math
from decimal import Decimal

import numpy as np
import pytest

from stages.dedup.ranking import best_first, rank_value


@pytest.mark.parametrize(
    ("worse", "better"),
    [
        (1, 2),
        (0.5, "0.75"),
        ("-3", -2.5),
        (Decimal("0.1"), 0.2),
        ("2023-12-31", "2024-01-01"),
        ("2024-01-01T23:59:59+02:00", "2024-01-01T22:00:00Z"),
        ("2024-01-01", "2024-01-01T00:00:01"),
    ],
)
def test_values_rank_as_numbers_and_dates(worse: object, better: object) -> None:
    assert rank_value(worse) < rank_value(better)


@pytest.mark.parametrize(
    "value", ["good", "", None, True, [1], math.nan, math.inf, "1e999", "2024-13-01", 10**400, "nan"]
)
def test_what_says_nothing_has_no_rank(value: object) -> None:
    assert math.isnan(rank_value(value))


@pytest.mark.parametrize("seed", range(30))
def test_the_order_is_that_of_pythons_stable_sort(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.choice([1.0, 2.0, -1.0, 0.0, -0.0, math.nan], int(rng.integers(0, 40)))
    cut = int(rng.integers(0, len(values) + 1))
    groups = [(cut, len(values)), (0, cut)]
    for sign, lowest in ((-1, False), (1, True)):
        keys = [(math.isnan(v), 0.0 if math.isnan(v) else sign * v) for v in values.tolist()]
        expected = [n for a, b in groups for n in sorted(range(a, b), key=keys.__getitem__)]
        assert best_first(values.copy(), groups, lowest=lowest).tolist() == expected
