"""What the estimate of removed shares promises: true where the sample tells, wide where it does not."""

from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray

from stages.dedup.removed_share import removed_share
from tests.campaign import FULL, some_of

SIZES: dict[str, NDArray[np.int64]] = {
    "no duplicates": np.ones(100_000, np.int64),
    "some pairs": np.repeat([1, 2], [80_000, 10_000]),
    "ten of each": np.full(10_000, 10),
    "all alike": np.array([100_000]),
    "many sizes": np.repeat([25_000, 10, 2, 1], [1, 2_500, 12_500, 25_000]),
    "a power law": np.repeat([1, 3, 9, 27, 81, 243, 729], [9_000, 3_000, 1_000, 333, 111, 37, 12]),
}


def thinned(sizes: NDArray[np.int64], share: float, seed: int) -> dict[int, int]:
    """Return the groups by what a sample sees of them."""
    seen = np.random.default_rng(seed).binomial(sizes, share)
    return dict(Counter(seen[seen > 0].tolist()))


SHARES = (0.01, 0.05, 0.2, 0.5)
CASES = [(name, SHARES[(n + turn) % 4]) for turn in range(4) for n, name in enumerate(SIZES)]
"""Every share of every corpus; of a quarter of them, each corpus once, and all shares."""


@pytest.mark.parametrize(("name", "share"), CASES if FULL else CASES[: len(SIZES)])
def test_the_truth_is_in_the_interval(name: str, share: float) -> None:
    sizes = SIZES[name]
    truth = 1 - len(sizes) / sizes.sum()
    found = [removed_share(thinned(sizes, share, seed), share=share) for seed in range(4)]
    inside = [one.low - 1e-3 <= truth <= one.high + 1e-3 for one in found]
    assert sum(inside) >= 3, (truth, found)
    assert all(0 <= one.low <= one.likely <= one.high <= 1 for one in found)


@pytest.mark.parametrize("name", some_of([*SIZES], 3))
def test_a_larger_sample_says_more(name: str) -> None:
    widths = [
        one.high - one.low
        for share in (0.01, 0.1, 0.5)
        for one in [removed_share(thinned(SIZES[name], share, 1), share=share)]
    ]
    assert widths[0] >= widths[1] >= widths[2]
    assert widths[2] < 0.02


def test_scaling_the_share_of_a_sample_would_be_wrong() -> None:
    sizes = SIZES["ten of each"]
    groups = thinned(sizes, 0.01, 2)
    seen = sum(size * count for size, count in groups.items())
    naive = 1 - sum(groups.values()) / seen
    assert naive < 0.1
    assert removed_share(groups, share=0.01).high > 0.85


def test_all_documents_are_no_sample() -> None:
    found = removed_share({1: 6, 2: 1, 4: 1}, share=1.0)
    assert found.low == found.likely == found.high == pytest.approx(4 / 12)


def test_a_few_documents_say_nothing() -> None:
    found = removed_share({1: 3}, share=0.01)
    assert found.low < 0.01
    assert found.high > 0.9
    nothing = removed_share({}, share=0.5)
    assert (nothing.low, nothing.high) == (0.0, 1.0)


def test_it_is_the_same_whenever_it_is_asked() -> None:
    groups = thinned(SIZES["many sizes"], 0.05, 3)
    again = dict(reversed(groups.items()))
    assert removed_share(groups, share=0.05) == removed_share(again, share=0.05)
