"""What slices promise: they cover a file without gap or overlap, and each knows what is before it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.reading.slices import Slice, byte_slices, slices_of_blocks
from tests.campaign import examples


@pytest.mark.parametrize(
    ("size", "line_feeds", "slices"),
    [
        (0, [0], [Slice(0, 0, 0)]),
        (9, [2], [Slice(0, 9, 0)]),
        (10, [2], [Slice(0, 10, 0)]),
        (25, [2, 3, 1], [Slice(0, 10, 0), Slice(10, 20, 2), Slice(20, 25, 5)]),
    ],
)
def test_a_plain_file_is_cut_by_bytes(size: int, line_feeds: list[int], slices: list[Slice]) -> None:
    assert byte_slices(size, 10, line_feeds) == slices


@pytest.mark.parametrize(
    ("pieces", "slices"),
    [
        ([], [Slice(0, 0, 0)]),
        ([(0, 0)], [Slice(0, 1, 0)]),
        ([(5, 40), (5, 40), (9, 300)], [Slice(0, 2, 0), Slice(2, 3, 10)]),
        ([(1, 300), (5, 40), (0, 0), (5, 60)], [Slice(0, 1, 0), Slice(1, 4, 1)]),
    ],
)
def test_row_groups_are_joined_to_runs(pieces: list[tuple[int, int]], slices: list[Slice]) -> None:
    assert slices_of_blocks(pieces, 100) == slices


@settings(deadline=None, derandomize=True, max_examples=examples(100))
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 250)), max_size=12))
def test_runs_cover_all_pieces_and_only_a_single_piece_passes_the_bound(
    pieces: list[tuple[int, int]],
) -> None:
    slices = slices_of_blocks(pieces, 100)
    numbers = [number for part in slices for number in range(part.first, part.last)]
    assert numbers == list(range(len(pieces)))
    for part in slices:
        run = pieces[part.first : part.last]
        assert part.before == sum(rows for rows, _ in pieces[: part.first])
        assert len(run) <= 1 or sum(size for _, size in run) <= 100
