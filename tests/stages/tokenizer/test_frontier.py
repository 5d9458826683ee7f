"""What the frontier promises: a setting is out only if another is at least as good in everything."""

import itertools

import pytest

from stages.tokenizer.frontier import dominating


@pytest.mark.parametrize(
    ("costs", "better"),
    [
        ([], []),
        ([(3, 1)], [None]),
        ([(1, 5), (2, 2), (3, 3)], [None, None, 1]),
        ([(2, 2), (2, 2)], [None, None]),
        ([(1, 1), (1, 2), (2, 3)], [None, 0, 0]),
        ([(3, 3), (2, 2), (1, 1)], [2, 2, None]),
    ],
)
def test_settings_are_dominated_by_one_on_the_frontier(
    costs: list[tuple[float, ...]], better: list[int | None]
) -> None:
    assert dominating(costs) == better


def test_it_is_the_rule_in_plain_loops() -> None:
    costs = [*list(itertools.product(range(3), repeat=3))[::-2], (2, 0, 1), (0, 2, 0)]
    found = dominating(costs)
    assert None in found
    assert any(found)
    for own, better in zip(costs, found, strict=True):
        others = [one for one in costs if one != own and all(a <= b for a, b in zip(one, own))]  # noqa: B905
        assert (better is None) == (not others)
        if better is not None:
            assert costs[better] in others
            assert found[better] is None
