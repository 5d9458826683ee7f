"""What laws of draws expect is what all equally likely draws come to, each drawn once."""

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from stages.objectives.laws.draws import Draws
from stages.objectives.laws.targets import _count_part


@pytest.mark.parametrize(("total", "parts"), [(7, 3), (6, 2), (9, 5), (8, 7)])
def test_a_part_of_every_composition_is_on_average_what_is_expected(total: int, parts: int) -> None:
    first = [cuts[0] for cuts in combinations(range(1, total), parts - 1)]
    number, draws = len(first), Draws()
    _count_part(draws, "part", np.array(first), np.full(number, total), np.full(number, parts))
    mean, squares = (line for line in draws.lines() if line.sigmas is not None)
    assert (mean.n, squares.n) == (number, number)
    assert mean.sigmas == squares.sigmas == 0.0
    sums: Any = draws._laws  # noqa: SLF001
    spread = number * np.var(np.array(first) / total)
    assert sums[mean.law].variance == pytest.approx(spread)
    far = (np.array(first) - total / parts) ** 2
    assert sums[squares.law].variance == pytest.approx(number * np.var(far / far.max()))


def test_draws_of_a_group_that_may_not_happen_vary_as_all_their_outcomes_do() -> None:
    chance, rates, draws = 0.4, np.array([0.2, 0.5, 0.9]), Draws()
    shares, odds = [0.0], [1 - chance]
    for happened in product((0, 1), repeat=len(rates)):
        shares.append(sum(happened) / len(rates))
        odds.append(chance * float(np.prod(np.where(happened, rates, 1 - rates))))
    mean = float(np.dot(odds, shares))
    spread = float(np.dot(odds, (np.array(shares) - mean) ** 2))
    draws.grouped("law", np.zeros(3, np.int64), np.array([1, 0, 1]) > 0, rates, number=1, chance=chance)
    draws.close_shard()
    (line,) = draws.lines()
    sums: Any = draws._laws  # noqa: SLF001
    assert line.n == 1
    assert line.found == pytest.approx(2 / 3)
    assert line.expected == pytest.approx(mean)
    assert sums["law"].variance == pytest.approx(spread)
