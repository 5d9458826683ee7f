"""The table of what is cut from a unit's documents: read as it was written, or refused."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.steps.cut_texts import read_cuts
from stages.columns import CUT_RANGES
from stages.errors import FormatError

Ranges = list[tuple[int, list[int], list[int]]]
"""Of each document its row, and where its ranges start and end."""


def written(folder: Path, ranges: Ranges) -> Path:
    """Write a table of ranges."""
    size = CUT_RANGES.field("digest").type.byte_width
    rows = [
        {"row": row, "starts": starts, "ends": ends, "text_bytes": 9, "digest": bytes(size)}
        for row, starts, ends in ranges
    ]
    pq.write_table(pa.Table.from_pylist(rows, CUT_RANGES), folder / "ranges.parquet")
    return folder / "ranges.parquet"


@pytest.mark.parametrize(
    "ranges",
    [[], [(0, [0], [1])], [(2, [0, 5], [4, 6]), (3, [1], [2])]],
    ids=["none", "one byte", "two documents"],
)
def test_ranges_are_read_as_they_were_written(ranges: Ranges, tmp_path: Path) -> None:
    cuts = read_cuts(written(tmp_path, ranges))
    assert cuts.rows.tolist() == [row for row, _, _ in ranges]
    assert cuts.starts.values.tolist() == [start for _, starts, _ in ranges for start in starts]
    assert cuts.ends.values.tolist() == [end for _, _, ends in ranges for end in ends]


def test_of_documents_behind_others_what_is_cut_is_theirs(tmp_path: Path) -> None:
    ranges: Ranges = [(1, [0], [9]), (5, [1, 6], [4, 8]), (7, [0], [5])]
    cuts = read_cuts(written(tmp_path, ranges))
    table = pa.table(
        {"id": [5, 6, 7], "text": pa.array(["0123456789", "all", "01234"], pa.large_string())}
    )
    assert cuts.apply(table, 5).column("text").to_pylist() == ["04589", "all", ""]
    assert cuts.apply(table, 2).column("text").to_pylist() == ["0123456789", "all", "01234"]
    with pytest.raises(FormatError, match="a range of the cuts ends after its text"):
        cuts.apply(table, 6)


@pytest.mark.parametrize(
    "ranges",
    [
        [(0, [3], [3])],
        [(0, [4], [3])],
        [(0, [-1], [3])],
        [(0, [1, 3], [3, 5])],
        [(0, [4, 1], [5, 2])],
        [(0, [1, 4], [3])],
        [(0, [], [])],
        [(1, [1], [2]), (1, [4], [5])],
        [(1, [1], [2]), (0, [4], [5])],
    ],
    ids=[
        "nothing within it",
        "ends before it starts",
        "starts before the text",
        "touches the next",
        "descending",
        "without an end",
        "a document without ranges",
        "a row twice",
        "descending rows",
    ],
)
def test_ranges_that_are_none_are_refused(ranges: Ranges, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="its ranges do not ascend, or overlap"):
        read_cuts(written(tmp_path, ranges))
