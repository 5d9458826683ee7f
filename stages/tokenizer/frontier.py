"""The frontier: which of several settings are worth a look, where each costs something.

    tokens  of English
    50      9            on the frontier: no other is better at both
    52      8            on the frontier
    53      9            dominated by the first

Source: Pareto's order, as in Kung, Luccio, Preparata 1975, "On finding the maxima of a set of vectors".
"""

from collections.abc import Sequence


def dominating(costs: Sequence[Sequence[float]]) -> list[int | None]:
    """Return for each point the first point on the frontier that is better, or None if none is.

    [(1, 5), (2, 2), (3, 3)] -> [None, None, 1]

    Args:
        costs: of each point, as many numbers for each; less is better.

    Returns:
        The number of a point that costs more in nothing and less in something.
    """
    frontier = [
        number for number, own in enumerate(costs) if not any(_is_better(other, own) for other in costs)
    ]
    return [next((one for one in frontier if _is_better(costs[one], own)), None) for own in costs]


def _is_better(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True)) and tuple(one) != tuple(other)
