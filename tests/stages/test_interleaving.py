"""What a deal promises.

Every place has one item and every item one place, each computed alone. Every stretch has each kind in
its proportion, within 1 + H(d) items, and of each kind its parts. Numbers are exact for as many rows as
there may be.
"""

import math
from itertools import accumulate

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from stages.interleaving import MAX_ITEMS, Interleaving, NestedInterleaving, SpreadParts

GROUPS = st.integers(1, 6).flatmap(
    lambda kinds: st.lists(
        st.lists(st.integers(0, 40), min_size=kinds, max_size=kinds), min_size=1, max_size=3
    )
)
"""Counts of some groups; kinds that have nothing among them."""
ALL_PARTS = 16


def everywhere(counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the group and place of each item of groups with these counts: (N,) each."""
    sizes = counts.reshape(len(counts), -1).sum(axis=1)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    return groups, np.arange(len(groups)) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def order_of(counts: list[int]) -> NDArray[np.int64]:
    """Return the kind at each place of one group."""
    groups, places = everywhere(np.array([counts]))
    return Interleaving(np.array([counts])).items(groups, places)[0]


def dealt_plainly(counts: list[int], place: int) -> tuple[int, int]:
    """Return the kind and number of the item at a place, as the definition has it."""
    total = sum(counts)
    for kind in sorted(range(len(counts)), key=lambda number: (-counts[number], number)):
        had = place * counts[kind] // total
        if (place + 1) * counts[kind] // total > had:
            return kind, had
        place, total = place - had, total - counts[kind]
    raise AssertionError(place)


def quotients(number: int, size: int) -> list[int]:
    """Return the quotients of the continued fraction number / size."""
    return [size // number, *quotients(size % number, number)] if number else []


def step_of(size: int) -> int:
    """Return the step between the ranks of so many items, as the definition has it."""
    golden = (math.isqrt(5 * size * size) - size) // 2
    near = [step for step in range(golden, min(size, golden + 1000)) if math.gcd(step, size) == 1][:8]
    return min(near, key=lambda step: sum(quotients(step, size)))


def test_it_is_golden() -> None:
    deals = Interleaving(np.array([[4, 2, 1]]))
    kinds, numbers = deals.items(np.zeros(7, np.int64), np.arange(7))
    assert kinds.tolist() == [2, 0, 1, 0, 1, 0, 0]
    assert numbers.tolist() == [0, 0, 0, 1, 1, 2, 3]
    assert order_of([3, 3, 0, 1]).tolist() == [3, 1, 0, 1, 0, 1, 0]
    parts, numbers = SpreadParts(np.array([[2, 5, 1]])).items(np.zeros(8, np.int64), np.arange(8))
    assert parts.tolist() == [0, 1, 2, 1, 1, 0, 1, 1]
    assert numbers.tolist() == [0, 2, 0, 4, 1, 1, 3, 0]


@given(GROUPS)
def test_every_place_has_one_item_and_every_item_its_place(groups: list[list[int]]) -> None:
    counts = np.array(groups)
    of, places = everywhere(counts)
    for dealt in (Interleaving(counts), SpreadParts(counts)):
        kinds, numbers = dealt.items(of, places)
        found = list(zip(of.tolist(), kinds.tolist(), numbers.tolist(), strict=True))
        wanted = [
            (g, k, n) for g, row in enumerate(groups) for k, size in enumerate(row) for n in range(size)
        ]
        assert sorted(found) == wanted
        assert dealt.places(of, kinds, numbers).tolist() == places.tolist()


@given(GROUPS)
def test_the_items_of_a_kind_come_in_their_order_as_the_definition_has_it(
    groups: list[list[int]],
) -> None:
    counts = np.array(groups)
    of, places = everywhere(counts)
    kinds, numbers = Interleaving(counts).items(of, places)
    for group, place, kind, number in zip(of, places, kinds, numbers, strict=True):
        assert (int(kind), int(number)) == dealt_plainly(groups[group], int(place))


@given(st.lists(st.integers(1, 300), min_size=1, max_size=12), st.integers(1, 200))
def test_every_stretch_has_each_kind_within_its_bound(counts: list[int], length: int) -> None:
    order, total = order_of(counts), sum(counts)
    length = min(length, total)
    harmonic = [0.0, *accumulate(1 / n for n in range(1, len(counts)))]
    for depth, kind in enumerate(
        sorted(range(len(counts)), key=lambda number: (-counts[number], number))
    ):
        had = np.concatenate([[0], np.cumsum(order == kind)])
        off = np.abs(had[length:] - had[:-length] - length * counts[kind] / total)
        assert off.max() < 1 + harmonic[depth]


@given(st.integers(1, 5000), st.integers(1, 300), st.floats(0, 1))
def test_every_stretch_has_the_parts_in_their_proportion(size: int, length: int, share: float) -> None:
    first = int(size * share)
    parts, _ = SpreadParts(np.array([[first, size - first]])).items(
        np.zeros(size, np.int64), np.arange(size)
    )
    length = min(length, size)
    had = np.concatenate([[0], np.cumsum(parts == 0)])
    assert np.abs(had[length:] - had[:-length] - length * first / size).max() < 5


@given(
    st.lists(st.integers(0, MAX_ITEMS // 8), min_size=1, max_size=5),
    st.lists(st.floats(0, 1), min_size=1, max_size=20),
)
def test_it_is_exact_for_as_many_rows_as_there_may_be(counts: list[int], at: list[float]) -> None:
    total = sum(counts)
    if not total:
        return
    places = np.array([min(int(total * part), total - 1) for part in at] + [0, total - 1])
    of = np.zeros(len(places), np.int64)
    deals = Interleaving(np.array([counts]))
    kinds, numbers = deals.items(of, places)
    assert deals.places(of, kinds, numbers).tolist() == places.tolist()
    for place, kind, number in zip(places.tolist(), kinds.tolist(), numbers.tolist(), strict=True):
        assert (kind, number) == dealt_plainly(counts, place)
    spreads = SpreadParts(np.array([counts]))
    parts, ranks = spreads.items(of, places)
    assert spreads.places(of, parts, ranks).tolist() == places.tolist()
    step = step_of(total)
    ranked = [*range(0, len(counts), 2), *reversed(range(1, len(counts), 2))]
    begins = dict(zip(ranked, accumulate([0, *(counts[part] for part in ranked)]), strict=False))
    found = [begins[part] + rank for part, rank in zip(parts.tolist(), ranks.tolist(), strict=True)]
    assert found == [place * step % total for place in places.tolist()]


def test_a_class_is_a_part_of_a_kind() -> None:
    counts = np.zeros((2, 3, ALL_PARTS), np.int64)
    counts[0, 0, 15], counts[0, 0, 3], counts[0, 2, 0], counts[1, 1, 7] = 9, 4, 5, 1
    deals = NestedInterleaving(counts)
    of, places = everywhere(counts)
    classes, numbers = deals.items(of, places)
    found = np.zeros_like(counts).reshape(2, -1)
    np.add.at(found, (of, classes), 1)
    assert np.array_equal(found.reshape(counts.shape), counts)
    assert deals.places(of, classes, numbers).tolist() == places.tolist()


def test_no_number_of_items_leaves_a_stretch_far_off() -> None:
    for size in (874, 979, 3042, 4470, 92_823):  # the first step coprime to these is a poor one
        first, places = size // 2, np.arange(size)
        parts, _ = SpreadParts(np.array([[first, size - first]])).items(np.zeros_like(places), places)
        had = np.concatenate([[0], np.cumsum(parts == 0)])
        for length in range(3, 300, 7):
            assert np.abs(had[length:] - had[:-length] - length * first / size).max() < 5, (size, length)


def test_nothing_is_dealt_of_nothing() -> None:
    none = np.zeros(0, np.int64)
    for counts in (np.zeros((1, 0), np.int64), np.zeros((2, 3), np.int64)):
        for dealt in (Interleaving(counts), SpreadParts(counts)):
            assert [len(part) for part in dealt.items(none, none)] == [0, 0]
            assert len(dealt.places(none, none, none)) == 0
