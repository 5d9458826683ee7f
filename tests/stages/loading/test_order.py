"""What the order of an epoch promises.

It is a permutation for every size, computed position by position, and another for each epoch and seed.
"""

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest

from stages.loading.order import BLOCK, EpochOrder, shuffled

LARGE = 10_007
GOLDEN = [1, 3, 5, 7, 8, 4, 6, 9, 2, 0]
GOLDEN_NEXT_EPOCH = [0, 4, 7, 5, 9, 3, 6, 8, 1, 2]


def order(size: int, *, seed: int = 7, epoch: int = 0) -> list[int]:
    """Give a whole epoch."""
    rows: list[int] = shuffled(np.arange(size), size, seed=seed, epoch=epoch).tolist()
    return rows


def test_it_is_golden() -> None:
    assert order(10) == GOLDEN
    assert order(10, epoch=1) == GOLDEN_NEXT_EPOCH


@pytest.mark.parametrize("epoch", [0, 1, 2, 1_000_000, 2**32 - 1])
def test_every_epoch_can_be_asked_for(epoch: int) -> None:
    assert sorted(order(100, epoch=epoch)) == list(range(100))


@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1])
def test_it_is_a_permutation_for_every_size(seed: int) -> None:
    for size in [*range(1, 201), LARGE]:
        assert sorted(order(size, seed=seed)) == list(range(size)), size


def test_an_empty_dataset_has_an_empty_order() -> None:
    assert order(0) == []


def test_every_epoch_and_every_seed_has_its_own() -> None:
    orders = {
        tuple(order(LARGE, seed=seed, epoch=epoch)) for seed, epoch in product((0, 1, 7, 2**62), (0, 1))
    }
    assert len(orders) == 8
    assert tuple(range(LARGE)) not in orders


@pytest.mark.parametrize("size", [1, 2, 3, 64, 65, 1000])
def test_a_position_alone_gives_the_row_it_gives_among_others(size: int) -> None:
    alone = [int(shuffled(np.array([n]), size, seed=7, epoch=1)[0]) for n in range(size)]
    assert alone == order(size, epoch=1)


def test_the_positions_asked_for_stay_as_they_are() -> None:
    positions = np.arange(100)
    shuffled(positions, 100, seed=7, epoch=0)
    assert (positions == np.arange(100)).all()


def test_neighbours_are_torn_apart_and_places_even() -> None:
    rows = np.array(order(LARGE))
    assert np.count_nonzero(np.diff(rows) == 1) < 10
    assert abs(np.corrcoef(rows, np.arange(LARGE))[0, 1]) < 0.05
    counts = np.zeros((8, 8), np.int64)
    for seed in range(800):
        counts[np.arange(8), order(8, seed=seed)] += 1
    assert float(((counts - 100) ** 2 / 100).sum()) < 100.9  # chi-square, 49 degrees, p = 0.00002


def test_blocks_give_what_each_position_alone_gives() -> None:
    size = 3 * BLOCK + 100
    expected = shuffled(np.arange(size), size, seed=7, epoch=1)
    looked_up = EpochOrder(size, seed=7, epoch=1)
    at = 0
    while at < size:
        positions = np.arange(at, min(at + 1000, size))
        assert np.array_equal(looked_up.rows(positions), expected[positions])
        at += 1000
    jumps = np.array([size - 1, 0, BLOCK, 2 * BLOCK - 1, 5])
    for positions in (jumps, jumps[:1], jumps[:0], jumps[::-1], np.array([BLOCK, BLOCK - 1])):
        for _ in range(3):
            assert np.array_equal(looked_up.rows(positions), expected[positions])


def test_threads_that_look_elsewhere_change_nothing() -> None:
    size = 8 * BLOCK
    order = EpochOrder(size, seed=7, epoch=1)
    wanted = shuffled(np.arange(size), size, seed=7, epoch=1)

    def look(thread: int) -> int:
        wrong = 0
        for turn in range(60):
            positions = np.arange(16) + (2 * thread + turn // 30) * BLOCK
            wrong += not np.array_equal(order.rows(positions), wanted[positions])
        return wrong

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(look, range(4))) == [0] * 4
