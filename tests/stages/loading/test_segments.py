"""What dense segments promise.

Each position of the rows asked for says which document of its row it belongs to and where it stands
in it; padding says -1 and 0.
"""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.loading.split_reader import dense_segments
from tests.campaign import examples

ROWS = st.lists(st.lists(st.integers(1, 4), max_size=3), min_size=1, max_size=8)
"""The lengths of the segments of each row, at most 12 tokens."""
LENGTH = 12


def test_rows_are_as_drawn() -> None:
    segment_ids, position_ids = dense_segments(
        np.array([0, 1, 3, 3, 5]), np.array([5, 3, 2, 3, 2]), row_length=7
    )
    assert segment_ids.tolist() == [
        [0, 0, 0, 0, 0, -1, -1],
        [0, 0, 0, 1, 1, -1, -1],
        [-1, -1, -1, -1, -1, -1, -1],
        [0, 0, 0, 1, 1, -1, -1],
    ]
    assert position_ids.tolist() == [
        [0, 1, 2, 3, 4, 0, 0],
        [0, 1, 2, 0, 1, 0, 0],
        [0, 0, 0, 0, 0, 0, 0],
        [0, 1, 2, 0, 1, 0, 0],
    ]
    assert segment_ids.dtype == position_ids.dtype == np.int64


@settings(deadline=None, derandomize=True, max_examples=examples(50))
@given(ROWS)
def test_any_rows_equal_the_plain_loop(rows: list[list[int]]) -> None:
    ptr = np.concatenate([[0], np.cumsum([len(segments) for segments in rows])])
    lengths = np.array([size for segments in rows for size in segments], np.int64)
    segment_ids, position_ids = dense_segments(ptr, lengths, row_length=LENGTH)
    expected_ids, expected_positions = [], []
    for segments in rows:
        ids = [number for number, size in enumerate(segments) for _ in range(size)]
        positions = [place for size in segments for place in range(size)]
        expected_ids.append(ids + [-1] * (LENGTH - len(ids)))
        expected_positions.append(positions + [0] * (LENGTH - len(ids)))
    assert segment_ids.tolist() == expected_ids
    assert position_ids.tolist() == expected_positions


def test_no_rows_give_none() -> None:
    none = np.empty(0, np.int64)
    segment_ids, position_ids = dense_segments(np.array([0]), none, row_length=5)
    assert segment_ids.shape == position_ids.shape == (0, 5)
