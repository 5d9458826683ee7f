"""The order of a reader that holds few shards: each row once, a group of shards after the other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.loading.windowed import WindowOrder

_SHARDS = st.lists(st.integers(0, 40), min_size=1, max_size=12).filter(sum)


@given(rows=_SHARDS, window=st.integers(1, 14), seed=st.integers(0, 2**63), epoch=st.integers(0, 99))
def test_each_row_comes_once_and_a_group_reads_its_own_shards(
    rows: list[int], window: int, seed: int, epoch: int
) -> None:
    order = WindowOrder(rows, window=window, seed=seed, epoch=epoch)
    found = order.rows(np.arange(sum(rows)))
    assert np.array_equal(np.sort(found), np.arange(sum(rows)))
    shards = np.searchsorted(np.cumsum(rows), found, side="right")
    seen: list[int] = []
    for shard in shards.tolist():
        if shard not in seen:
            seen.append(shard)
    filled = [shard for shard in seen if rows[shard]]
    for shard in filled:  # at most a window of shards is at hand
        places = np.flatnonzero(shards == shard)
        between = len({*shards[places[0] : places[-1] + 1].tolist()})
        assert between <= window


@given(rows=_SHARDS, window=st.integers(1, 14), seed=st.integers(0, 2**63))
def test_any_position_is_computed_alone(rows: list[int], window: int, seed: int) -> None:
    whole = WindowOrder(rows, window=window, seed=seed, epoch=3).rows(np.arange(sum(rows)))
    for position in range(0, sum(rows), 7):
        one = WindowOrder(rows, window=window, seed=seed, epoch=3).rows(np.array([position]))
        assert one[0] == whole[position]


@pytest.mark.parametrize("window", [1, 3, 8])
def test_epochs_and_seeds_have_orders_of_their_own(window: int) -> None:
    rows = [100] * 8
    orders = [
        tuple(WindowOrder(rows, window=window, seed=seed, epoch=epoch).rows(np.arange(800)))
        for seed in (1, 2)
        for epoch in (0, 1)
    ]
    assert len(set(orders)) == len(orders)


def test_shards_are_mixed_within_a_group() -> None:
    found = WindowOrder([1_000] * 6, window=3, seed=5, epoch=0).rows(np.arange(6_000))
    shards = found // 1_000
    for group in (shards[:3_000], shards[3_000:]):
        for part in np.split(group, 10):
            counts = np.bincount(part, minlength=6)[np.unique(group)]
            assert counts.min() > 60, "each tenth has a good share of each shard"
