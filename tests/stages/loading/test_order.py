"""What the order of an epoch promises.

It is a permutation for every size, computed position by position, and another for each epoch and seed.
Of few rows, every order is as likely as any other, over epochs and over seeds; of more, every pair of
places.
"""

from concurrent.futures import ThreadPoolExecutor
from itertools import permutations, product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from stages.loading.order import BLOCK, MAX_SORTED, EpochOrder, shuffled
from tests.campaign import FULL

LARGE = 10_007
GOLDEN = {
    (10, 0): [5, 7, 8, 9, 2, 1, 6, 0, 4, 3],
    (10, 1): [2, 3, 7, 9, 5, 1, 6, 8, 0, 4],
    (MAX_SORTED, 1): [626, 595, 313, 929, 347, 591, 706, 756, 454, 467],
    (MAX_SORTED + 1, 1): [438, 729, 779, 476, 225, 965, 634, 124, 888, 486],
    (LARGE, 1): [936, 1793, 2188, 9875, 4479, 1788, 8833, 6781, 1290, 6463],
}
"""The first rows of (rows, epoch) at seed 7: sorted by draws, and by the network."""


def order(size: int, *, seed: int = 7, epoch: int = 0) -> list[int]:
    """Return a whole epoch."""
    rows: list[int] = shuffled(np.arange(size), size, seed=seed, epoch=epoch).tolist()
    return rows


def test_it_is_golden() -> None:
    for (size, epoch), first in GOLDEN.items():
        assert order(size, epoch=epoch)[:10] == first


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


@pytest.mark.parametrize("size", [1, 2, 3, 64, 65, MAX_SORTED, MAX_SORTED + 1])
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


def many(size: int, over: str, number: int) -> NDArray[np.int64]:
    """Return orders of one seed's epochs, or of one epoch of many seeds: (number, size)."""
    keys = [
        {"seed": n, "epoch": 3} if over == "seeds" else {"seed": 3, "epoch": n} for n in range(number)
    ]
    return np.array([order(size, **key) for key in keys])


def over_both(cases: list[tuple[int, int]]) -> list[tuple[int, int, str]]:
    """Return cases of sizes, over seeds and over epochs: by turns, or each over both in a campaign."""
    both = [(*case, over) for case in cases for over in ("seeds", "epochs")]
    return both if FULL else [pair for n, pair in enumerate(both) if n % 4 in (0, 3)]


def chance(found: NDArray[np.int64], shares: NDArray[np.integer]) -> float:
    """Return how likely counts are so far from their shares, or farther: chi-square."""
    expected = shares / shares.sum() * found.sum()
    return float(chi2.sf(((found - expected) ** 2 / expected).sum(), len(found) - 1))


@pytest.mark.parametrize(
    ("size", "number", "over"),
    over_both([(2, 1000), (3, 1200), (4, 2400), (5, 3600), (6, 5040)]),
)
def test_every_order_of_few_rows_is_as_likely_as_any_other(size: int, number: int, over: str) -> None:
    counts = dict.fromkeys(permutations(range(size)), 0)
    for found in many(size, over, number).tolist():
        counts[tuple(found)] += 1
    assert chance(np.array(list(counts.values())), np.ones(len(counts), np.int64)) > 1e-5


@pytest.mark.parametrize(
    ("size", "number", "over"),
    over_both([(8, 1500), (13, 1500), (16, 1500), (64, 1500), (1030, 300)]),
)
def test_any_row_stands_anywhere_and_next_to_any_other(size: int, number: int, over: str) -> None:
    orders = many(size, over, number)
    eighths = np.arange(size) * 8 // size
    for place in (0, size // 2, size - 1):
        found = np.bincount(eighths[orders[:, place]], minlength=8)
        assert chance(found, np.bincount(eighths)) > 1e-5
    sevenths = np.arange(size - 1) * 7 // (size - 1)
    distances = (orders[:, 1::2] - orders[:, : size - 1 : 2]) % size - 1  # of disjoint pairs
    assert chance(np.bincount(sevenths[distances].ravel(), minlength=7), np.bincount(sevenths)) > 1e-5


@pytest.mark.parametrize("over", ["seeds", "epochs"])
@pytest.mark.parametrize("size", [2, 5, 16, 64])
def test_half_the_orders_of_few_rows_are_odd(size: int, over: str) -> None:
    orders = many(size, over, 400)
    turned = np.triu(orders[:, :, None] > orders[:, None, :], 1).sum(axis=(1, 2))
    assert abs(np.count_nonzero(turned % 2) - 200) < 5 * 10  # 5 sigma; of a network all are even


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


def test_few_rows_are_looked_up_as_each_position_alone_gives() -> None:
    for size in (1, 5, MAX_SORTED):
        expected = shuffled(np.arange(size), size, seed=7, epoch=1)
        looked_up = EpochOrder(size, seed=7, epoch=1)
        for positions in (
            np.array([size - 1]),
            np.arange(size)[::-1],
            np.array([0, size // 2]),
            np.arange(0),
        ):
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
