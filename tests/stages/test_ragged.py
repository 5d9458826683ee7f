"""What ragged arrays promise: each list comes back, taken, joined or cut into batches."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stages.ragged import Ragged, batches, joined, ragged_of, ranges_of

LISTS = st.lists(st.lists(st.integers(-9, 9), max_size=4), max_size=8)


def lists_of(ragged: Ragged) -> list[list[int]]:
    """Return the lists one by one."""
    return [ragged[number].tolist() for number in range(len(ragged.ptr) - 1)]


@given(LISTS)
def test_lists_come_back(lists: list[list[int]]) -> None:
    assert lists_of(ragged_of(lists)) == lists


@given(LISTS, st.lists(st.integers(0, 99), max_size=6))
def test_lists_are_taken_in_the_order_chosen(lists: list[list[int]], draws: list[int]) -> None:
    chosen = [draw % len(lists) for draw in draws] if lists else []
    taken = ragged_of(lists).take(np.array(chosen, np.int64))
    assert lists_of(taken) == [lists[number] for number in chosen]


@given(st.lists(LISTS, max_size=4))
def test_lists_of_several_follow_each_other(parts: list[list[list[int]]]) -> None:
    assert lists_of(joined([ragged_of(part) for part in parts])) == [
        one for part in parts for one in part
    ]


def test_runs_are_as_written_out() -> None:
    assert ranges_of(np.array([7, 5, 2]), np.array([3, 0, 1])).tolist() == [7, 8, 9, 2]


def test_batches_are_as_written_out() -> None:
    assert list(batches(np.array([2, 3, 9, 1]), 5)) == [(0, 2), (2, 3), (3, 4)]
    assert list(batches(np.array([0, 5, 0, 1]), 5)) == [(0, 3), (3, 4)]
    assert list(batches(np.array([], np.int64), 5)) == []


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 12))
def test_batches_hold_as_many_lists_as_fit_and_each_once(lengths: list[int], most: int) -> None:
    found = list(batches(np.array(lengths, np.int64), most))
    assert [n for first, last in found for n in range(first, last)] == list(range(len(lengths)))
    for first, last in found:
        assert last - first == 1 or sum(lengths[first:last]) <= most
        assert last == len(lengths) or sum(lengths[first : last + 1]) > most
