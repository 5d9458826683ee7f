"""What classes of a mix promise.

Bins are uniform and fixed, copies are counted as they are defined, and a weight has the nearest level.
"""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.mixing.classes import BINS, NO_WEIGHT, bins_of, copies_of, levels_of, weight_of
from stages.mixing.placement import order_of
from tests.campaign import examples


def test_bins_are_golden_uniform_and_not_in_the_order_of_documents() -> None:
    orders = np.array(
        [order_of(n.to_bytes(16, "big"), 7, copy=0) for n in range(40_960)], dtype=np.uint64
    )
    bins = bins_of(orders)
    assert bins[:6].tolist() == GOLDEN_BINS
    counts = np.bincount(bins >> 8, minlength=16)
    assert len(counts) == BINS >> 8
    assert float(((counts - 2560) ** 2 / 2560).sum()) < 16 + 5 * 32**0.5
    assert abs(float(np.corrcoef(bins, orders.astype(np.float64))[0, 1])) < 5 / len(bins) ** 0.5
    assert bins_of(orders[:0]).shape == (0,)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.integers(0, BINS - 1), max_size=9), st.integers(0, 5 * BINS), st.integers(0, 3 * BINS)
)
def test_copies_are_those_of_a_loop(places: list[int], begin: int, length: int) -> None:
    end = begin + length
    first, number = copies_of(np.array(places, dtype=np.int64), begin, end)
    for row, place in enumerate(places):
        taken = [k for k in range(10) if begin <= place + BINS * k < end]
        assert taken == list(range(first[row], first[row] + number[row]))


@settings(max_examples=examples(60), deadline=None)
@given(st.floats(2.0**-39, 2.0**39))
def test_a_level_is_the_nearest_to_its_weight(weight: float) -> None:
    (level,) = levels_of(np.array([weight])).tolist()
    assert abs(np.log2(weight_of(level) / weight)) <= 1 / 16 + 1e-12


def test_levels_of_all_weights() -> None:
    weights = [0.0, -1.0, 0.5, 1.0, 2.0, 1.04, 1.05, 5e-324, 1.7e308, 2.0**-40]
    assert levels_of(np.array(weights)).tolist() == [
        NO_WEIGHT,
        NO_WEIGHT,
        -8,
        0,
        8,
        0,
        1,
        -320,
        320,
        -320,
    ]
    levels = np.arange(-320, 321)
    assert levels_of(np.array([weight_of(one) for one in levels.tolist()])).tolist() == levels.tolist()
    assert weight_of(NO_WEIGHT) == 0.0
    assert [weight_of(level) for level in (-8, 0, 16)] == [0.5, 1.0, 4.0]


GOLDEN_BINS = [2809, 1414, 2848, 1119, 840, 3435]
