"""What the compiled law of segments says, beside the same law in numpy, a line a promise."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from stages.objectives.laws.kernels import check_segments
from tests.campaign import examples

LENGTH = 6
SEGMENTS = arrays.arrays(np.int32, (8, LENGTH), elements=st.integers(-1, 2))
FLAGS = arrays.arrays(np.bool_, (8, LENGTH))


def in_numpy(
    segments: NDArray[np.int32],
    positions: NDArray[np.int32],
    counts: NDArray[np.int64],
    borders: NDArray[np.bool_],
    covered: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Return which rows break the law of segments, and which that of positions."""
    inside, places = segments >= 0, np.arange(LENGTH)
    opens = inside.copy()
    opens[:, 1:] &= segments[:, 1:] != segments[:, :-1]
    begun = np.maximum.accumulate(np.where(opens, places, 0), axis=1)
    wrong = (np.where(inside, np.cumsum(opens, axis=1) - 1, -1) != segments).any(axis=1)
    wrong |= (inside[:, 1:] & ~inside[:, :-1]).any(axis=1)
    wrong |= np.count_nonzero(opens, axis=1) != counts
    if len(borders):
        wrong |= (borders != opens).any(axis=1) | (covered != inside).any(axis=1)
    return np.stack([wrong, (positions != np.where(inside, places - begun, 0)).any(axis=1)])


def right_rows(lengths: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return segments and positions of rows whose segments have some lengths."""
    segments = np.full((len(lengths), LENGTH), -1, np.int32)
    positions = np.zeros_like(segments)
    for row, parts in enumerate(lengths):
        ends = np.minimum(np.cumsum(parts), LENGTH)
        for number, (begin, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            segments[row, begin:end] = number
            positions[row, begin:end] = np.arange(end - begin)
    return segments, positions


@settings(deadline=None, derandomize=True, max_examples=examples(300))
@given(
    SEGMENTS,
    arrays.arrays(np.int64, (8, 3), elements=st.integers(1, 3)),
    arrays.arrays(np.int8, (8, LENGTH), elements=st.integers(0, 9)),
    FLAGS,
    st.booleans(),
)
def test_rows_that_break_the_law_are_those_of_numpy(
    drawn: NDArray[np.int32],
    lengths: NDArray[np.int64],
    changes: NDArray[np.int8],
    flags: NDArray[np.bool_],
    whole: bool,  # noqa: FBT001  # hypothesis gives it
) -> None:
    right, positions = right_rows(lengths)
    segments = np.where(changes == 0, drawn, right)
    positions = np.where(changes == 1, drawn, positions)
    counts = np.array([len(set(row[row >= 0])) for row in right], np.int64) + (changes[:, 0] == 2)
    opens = right >= 0
    opens[:, 1:] &= right[:, 1:] != right[:, :-1]
    borders = (opens ^ (flags & (changes == 3)))[: 8 if whole else 0]
    covered = (right >= 0) ^ (flags & (changes == 4))
    found = np.zeros((2, 8), np.bool_)
    check_segments(segments, positions, counts, borders, covered, found)
    assert np.array_equal(found, in_numpy(segments, positions, counts, borders, covered))


def test_right_rows_break_no_law() -> None:
    lengths = np.array([[3, 1, 1], [1, 1, 1], [3, 3, 1], [2, 2, 2]], np.int64)
    segments, positions = right_rows(lengths)
    counts = np.array([3, 3, 2, 3], np.int64)
    found = np.zeros((2, 4), np.bool_)
    check_segments(segments, positions, counts, np.zeros((0, 0), np.bool_), segments >= 0, found)
    assert not found.any()


def test_a_segment_behind_padding_breaks_the_law() -> None:
    segments = np.array([[0, 0, 1, -1, -1, -1], [-1, 0, 0, 1, -1, -1], [0, 0, -1, 1, 1, 1]], np.int32)
    positions = np.array([[0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0], [0, 1, 0, 0, 1, 2]], np.int32)
    nowhere = np.zeros((0, 0), np.bool_)
    found = np.zeros((2, 3), np.bool_)
    check_segments(segments, positions, np.full(3, 2, np.int64), nowhere, nowhere, found)
    assert found.tolist() == [[False, True, True], [False] * 3]
