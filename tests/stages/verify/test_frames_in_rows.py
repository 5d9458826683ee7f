"""What the check of row frames promises: a frame that is missing or misplaced is named by its row.

Rows of 6, begun by 1 and ended by 2:  [ a a a a ]   [ a E b E .      a has 6 tokens, b has 2
"""

from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from stages.verify.mechanics import SegmentedRows
from stages.verify.row_frames import check_row_frames

FRAME = {"begin": 1, "end": 2}
IDS = np.array([[1, 10, 11, 12, 13, 2], [1, 14, 2, 20, 2, 0]], np.uint16)
SEGMENTS = {
    "row_ptr": np.array([0, 1, 3]),
    "start": np.array([0, 0, 3]),
    "length": np.array([6, 3, 2]),
    "doc": np.array([0, 0, 1]),
    "doc_offset": np.array([0, 4, 0]),
}
ADDED = np.array([1, 0], np.uint8)
LENGTHS = np.array([6, 2])


def found(
    *,
    ids: NDArray[np.integer] = IDS,
    added: NDArray[np.integer] = ADDED,
    frame: Mapping[str, int] = FRAME,
    **segments: list[int],
) -> dict[str, str]:
    """Return what is found of rows that are changed, by check."""
    changed = {name: np.array(values) for name, values in segments.items()}
    rows = SegmentedRows(ids, {**SEGMENTS, **changed})
    findings = check_row_frames(rows, added, lengths=LENGTHS, frame=frame)
    return {finding.check: finding.message for finding in findings}


def with_ids(*places: tuple[int, int, int]) -> NDArray[np.integer]:
    """Return the rows with other ids at some (row, position)."""
    ids = IDS.copy()
    for row, place, number in places:
        ids[row, place] = number
    return ids


def test_nothing_is_found_of_sound_rows() -> None:
    assert found() == {}


def test_nothing_is_found_of_rows_that_nothing_begins() -> None:
    ids = np.array([[10, 11, 12, 13, 2, 0], [14, 2, 20, 2, 0, 0]], np.uint16)
    assert found(ids=ids, frame={"end": 2}, start=[0, 0, 2], length=[5, 2, 2]) == {}


def test_no_row_has_no_frame_to_miss() -> None:
    segments = {name: column[:0] for name, column in SEGMENTS.items()} | {
        "row_ptr": np.zeros(1, np.int64)
    }
    rows = SegmentedRows(np.empty((0, 6), np.uint16), segments)
    assert check_row_frames(rows, ADDED[:0], lengths=LENGTHS, frame=FRAME) == []


@pytest.mark.parametrize("row", [0, 1])
def test_a_row_that_nothing_begins_is_named(row: int) -> None:
    assert found(ids=with_ids((row, 0, 10))) == {
        "row_begin": "1 of 2 rows do not begin with the id 1, which is to begin each, or have it"
        f" elsewhere too; the first is row {row}"
    }


def test_what_begins_rows_stands_nowhere_else() -> None:
    assert "1 of 2 rows" in found(ids=with_ids((1, 3, 1)))["row_begin"]
    assert found(ids=with_ids((1, 5, 1)))["row_begin"].endswith("the first is row 1")


def test_what_begins_a_row_stands_at_its_first_place() -> None:
    assert "1 of 2 rows" in found(ids=with_ids((1, 0, 10), (1, 3, 1)))["row_begin"]


@pytest.mark.parametrize(("row", "place"), [(0, 5), (1, 4)])
def test_an_end_that_was_overwritten_is_named_whoever_it_belongs_to(row: int, place: int) -> None:
    wanted = f"1 of 2 rows do not end in the id 2, which is to end each; the first is row {row}"
    assert found(ids=with_ids((row, place, 30))) == {"row_end": wanted}


@pytest.mark.parametrize("added", [[0, 0], [1, 1], [0, 1], [200, 0]])
def test_an_end_is_added_where_a_document_goes_on_and_nowhere_else(added: list[int]) -> None:
    assert found(added=np.array(added, np.uint8)).keys() & {"added_end", "row_frame"}


def test_a_row_with_a_frame_and_nothing_between_is_named() -> None:
    of_last = found(length=[2, 3, 2])
    assert "1 of 2 rows have a segment without a token" in of_last["row_frame"]
    of_first = found(start=[0, 0, 1], length=[6, 1, 4])
    assert of_first["row_frame"].endswith("the first is row 1")
