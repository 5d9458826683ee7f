"""What an interleaved shard promises: rows are dealt by class, those of a class in the drawn order."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stages.interleaving import LEVELS, NestedInterleaving
from stages.packing.interleave import interleaved_order


@given(st.lists(st.integers(0, 3 * LEVELS - 1), max_size=80), st.integers(0, 99))
def test_the_rows_of_each_class_stand_in_the_drawn_order(listed: list[int], seed: int) -> None:
    classes = np.array(listed, np.int64)
    counts = np.bincount(classes, minlength=3 * LEVELS).reshape(3, LEVELS)
    drawn = np.random.default_rng(seed).permutation(len(classes))
    order = interleaved_order(drawn, classes, counts)
    assert sorted(order.tolist()) == list(range(len(classes)))
    places = np.arange(len(classes))
    kinds, numbers = NestedInterleaving(counts[None]).items(np.zeros_like(places), places)
    for place, row in enumerate(order.tolist()):
        assert classes[row] == kinds[place]
        assert row == [one for one in drawn.tolist() if classes[one] == classes[row]][numbers[place]]
