"""What the windows of a mix promise.

Sums over rows and windows equal plain loops, however rows are cut into shards. The standard deviation is
that of windows as they are drawn, and no draw passes the bound of the gate, also where few rows have a
source.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stages.loading.order import shuffled
from stages.mixing.windows import (
    MOST_WINDOWS,
    WINDOW,
    RowEntries,
    add_sums,
    add_windows,
    largest_sum,
    row_entries,
    sigma_of,
    sum_rows,
    sum_windows,
    variance_of,
    window_positions,
    window_size,
    window_starts,
)
from tests.campaign import examples

NAMES = ("web", "old")


def entries_of(table: NDArray[np.int64]) -> RowEntries:
    """Return the entries of rows from their tokens, (R, S)."""
    row, source = np.nonzero(table)
    return row_entries(len(table), row, source, table[row, source])


def pure_rows(share: float, rows: int) -> NDArray[np.int64]:
    """Return rows of 64 tokens, each of one source: (rows, 2)."""
    old = np.random.default_rng(5).random(rows) < share
    return np.stack([np.where(old, 0, 64), np.where(old, 64, 0)], axis=1)


def test_segments_of_one_source_in_a_row_are_one_entry() -> None:
    entries = row_entries(
        3, np.array([0, 0, 0, 2]), np.array([1, 0, 1, 1]), np.array([5, 3, 2, 7], np.int64)
    )
    assert entries.row.tolist() == [0, 0, 2]
    assert entries.source.tolist() == [0, 1, 1]
    assert entries.tokens.tolist() == [3, 7, 7]


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 90)), min_size=1, max_size=40), st.data())
def test_sums_equal_a_loop_however_rows_are_cut(
    rows: list[tuple[int, int]], data: st.DataObject
) -> None:
    table = np.array(rows, np.int64)
    cut = data.draw(st.integers(0, len(rows)))
    sums = add_sums(sum_rows(entries_of(part), NAMES) for part in (table[:cut], table[cut:]))
    assert sums.rows == len(rows)
    assert sums.tokens == table.sum()
    assert sums.longest == table.sum(axis=1).max()
    for number, name in enumerate(NAMES):
        share = table[:, number].sum() / max(table.sum(), 1)
        off = table[:, number] - share * table.sum(axis=1)
        assert variance_of(sums, name) == pytest.approx((off**2).mean(), abs=1e-6)


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 60), st.integers(1, 7), st.integers(0, 9))
def test_windows_equal_a_loop_however_rows_are_cut(cut: int, size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 9, (60, 2))
    order = rng.permutation(60)[: 5 * size]
    found = add_windows(
        (
            sum_windows(entries_of(part), NAMES, order=order, first=first, size=size)
            for first, part in ((0, table[:cut]), (cut, table[cut:]))
        ),
        5,
    )
    for number, name in enumerate(NAMES):
        plain = [int(table[order[w * size : (w + 1) * size], number].sum()) for w in range(5)]
        assert found.get(name, [0] * 5) == plain


@pytest.mark.parametrize(
    ("rows", "starts", "size"),
    [(0, [], 0), (1, [0], 1), (999, [0], 999), (1_999, [0], 1_000), (3_000, [0, 1_000, 2_000], 1_000)],
)
def test_few_windows_are_all_looked_at(rows: int, starts: list[int], size: int) -> None:
    assert (window_starts(rows), window_size(rows)) == (starts, size)
    assert len(window_positions(rows)) == len(starts) * size


def test_many_windows_are_spread_over_the_epoch() -> None:
    starts = window_starts(1_000_000)
    assert len(set(starts)) == MOST_WINDOWS
    assert starts[-1] + WINDOW <= 1_000_000
    assert starts[-1] > 980_000
    assert set(np.diff(starts).tolist()) == {15_000, 16_000}


@pytest.mark.parametrize("share", [0.3, 0.02])
def test_sigma_is_that_of_windows_as_the_loader_draws_them(share: float) -> None:
    rows = 20_000
    table = pure_rows(share, rows)
    sums = sum_rows(entries_of(table), NAMES)
    found = [
        table[order, 1].sum()
        for seed in range(20)
        for order in shuffled(np.arange(rows), rows, seed=seed, epoch=0).reshape(-1, WINDOW)
    ]
    shares = np.array(found) / (64 * WINDOW)
    assert len(shares) == 400
    assert shares.std() == pytest.approx(sigma_of(sums, "old", WINDOW), rel=0.12)


@pytest.mark.parametrize("share", [0.3, 0.02, 0.0005])
def test_no_draw_passes_the_bound_of_the_gate(share: float) -> None:
    rows = 20_000
    table = pure_rows(share, rows)
    sums = sum_rows(entries_of(table), NAMES)
    bound = largest_sum(sums, "old", size=WINDOW, windows=20)
    whole = sums.sources["old"].tokens / sums.tokens
    off = [
        abs(int(table[order, 1].sum()) - whole * 64 * WINDOW)
        for seed in range(20)
        for order in shuffled(np.arange(rows), rows, seed=seed, epoch=0).reshape(-1, WINDOW)
    ]
    assert max(off) < bound
    assert bound < 64 * WINDOW * (sigma_of(sums, "old", WINDOW) * 8 + 0.02)  # and it can be passed


def test_windows_of_one_source_or_of_all_rows_have_no_spread() -> None:
    table = np.array([[64, 0]] * 3000)
    sums = sum_rows(entries_of(table), NAMES)
    assert sigma_of(sums, "web", WINDOW) == 0
    assert sigma_of(sum_rows(entries_of(pure_rows(0.5, 900)), NAMES), "old", 900) == 0
