"""What laws of draws expect is what all equally likely draws come to, each drawn once."""

from itertools import combinations
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
