"""Where two versions of a file or a record differ is said by row and value."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.steps.again.differences import difference, differing_values

TABLE = pa.table(
    {
        "name": ["a", "b", None],
        "number": pa.array([1, 2, 3], pa.int64()),
        "alike": [0.5, float("nan"), None],
        "short": pa.array([0.5, float("nan"), None], pa.float32()),
        "ends": [[1], [1, 2], []],
    }
)


def written(folder: Path, name: str, table: pa.Table) -> Path:
    """Write a table."""
    pq.write_table(table, folder / name)
    return folder / name


def changed(column: str, row: int, value: Any) -> pa.Table:
    """Return the table with one value changed."""
    place = TABLE.schema.get_field_index(column)
    values = TABLE.column(column).to_pylist()
    values[row] = value
    return TABLE.set_column(
        place, TABLE.schema.field(column), pa.array(values, TABLE.column(column).type)
    )


@pytest.mark.parametrize(
    ("column", "row", "value", "said"),
    [
        ("name", 1, "c", 'row 1, name: is "b", and made again it is "c"'),
        ("name", 2, "c", 'row 2, name: is null, and made again it is "c"'),
        ("name", 0, None, 'row 0, name: is "a", and made again it is null'),
        ("number", 2, 4, "row 2, number: is 3, and made again it is 4"),
        ("alike", 0, 0.25, "row 0, alike: is 0.5, and made again it is 0.25"),
        ("alike", 1, 0.25, "row 1, alike: is NaN, and made again it is 0.25"),
        ("alike", 2, 0.25, "row 2, alike: is null, and made again it is 0.25"),
        ("short", 1, 0.25, "row 1, short: is NaN, and made again it is 0.25"),
        ("ends", 1, [1, 3], "row 1, ends: is [1, 2], and made again it is [1, 3]"),
    ],
)
def test_a_changed_value_of_a_table_is_named_by_row_and_column(
    column: str, row: int, value: Any, said: str, tmp_path: Path
) -> None:
    own, again = written(tmp_path, "a.parquet", TABLE), changed(column, row, value)
    assert difference(own, written(tmp_path, "b.parquet", again)) == said


def test_tables_that_are_written_otherwise_and_hold_the_same_do_not_differ(tmp_path: Path) -> None:
    own = written(tmp_path, "a.parquet", TABLE)
    pq.write_table(TABLE, tmp_path / "b.parquet", compression="zstd", row_group_size=1)
    assert own.read_bytes() != (tmp_path / "b.parquet").read_bytes()
    assert difference(own, tmp_path / "b.parquet") is None


def test_a_row_or_a_column_more_or_less_is_said(tmp_path: Path) -> None:
    own = written(tmp_path, "a.parquet", TABLE)
    fewer = written(tmp_path, "b.parquet", TABLE.slice(0, 2))
    assert difference(own, fewer) == "has 3 rows, and made again 2"
    assert difference(fewer, own) == "has 2 rows, and made again 3"
    less = written(tmp_path, "c.parquet", TABLE.drop_columns(["ends"]))
    assert str(difference(own, less)).startswith(
        "has the columns name, number, alike, short, ends, not name"
    )
    other = written(tmp_path, "d.parquet", TABLE.set_column(1, "number", TABLE["number"].cast("int32")))
    assert difference(own, other) == "column number is of type int64, not int32"


@pytest.mark.parametrize(
    ("own", "again", "said"),
    [
        ([1, 2, 3], [1, 2, 4], "row 2: is 3, and made again it is 4"),
        ([[1, 2], [3, 4]], [[1, 2], [3, 5]], "row 1, 1: is 4, and made again it is 5"),
        ([1, 2], [1, 2, 3], "has 2 rows, and made again 3"),
        ([1.5, float("nan")], [1.5, float("nan")], None),
        ([1.5, float("nan")], [1.5, 2.5], "row 1: is NaN, and made again it is 2.5"),
        ([[1, 2]], [[1, 2, 3]], "is of int64 and shape (1, 2), and made again of int64 and (1, 3)"),
        (7, 8, "row : is 7, and made again it is 8"),
    ],
)
def test_a_changed_value_of_an_array_is_named_by_row(
    own: Any, again: Any, said: str | None, tmp_path: Path
) -> None:
    for name, values in (("a.npy", own), ("b.npy", again)):
        np.save(tmp_path / name, np.array(values))
    assert difference(tmp_path / "a.npy", tmp_path / "b.npy") == said


def test_a_changed_value_of_json_is_named_by_its_path(tmp_path: Path) -> None:
    own, again = {"a": {"b": [1, 2]}, "c": "x"}, {"a": {"b": [1, 3]}, "c": "x"}
    for name, value in (("a.json", own), ("b.json", again)):
        (tmp_path / name).write_text(json.dumps(value))
    assert difference(tmp_path / "a.json", tmp_path / "b.json") == "a.b[1] is 2, and made again it is 3"
    (tmp_path / "b.json").write_text(json.dumps(own, indent=3))
    assert difference(tmp_path / "a.json", tmp_path / "b.json") is None


def test_other_files_are_held_to_their_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.model").write_bytes(b"1")
    (tmp_path / "b.model").write_bytes(b"2")
    assert difference(tmp_path / "a.model", tmp_path / "b.model") == (
        "holds other bytes than when it is made again"
    )


def test_what_an_earlier_version_did_not_report_is_no_difference() -> None:
    assert list(differing_values({"a": 1}, {"a": 1, "b": 2})) == []
    assert list(differing_values({"a": 1, "b": 2}, {"a": 1})) == [("b", "2", "nothing")]
    inner = differing_values({"a": {"x": 1}}, {"a": {"x": 1, "y": 2}})
    assert list(inner) == [("a.y", "nothing", "2")], "a language that is left out is no earlier version"
    assert list(differing_values({"a": [1]}, {"a": [1, 2]})) == [("a", "[1]", "[1, 2]")]


def test_a_json_file_that_lacks_a_key_differs_unless_that_is_said_to_be_no_matter(
    tmp_path: Path,
) -> None:
    own, again = tmp_path / "own.json", tmp_path / "again.json"
    own.write_text('{"a": 1, "of all": 5}')
    again.write_text('{"a": 1, "b": 2, "of all": 6}')
    assert difference(own, again) == "lacks b, and made again it is 2"
    assert difference(own, again, left_out=frozenset(["of all"])) is None
    own.write_text('{"a": 2, "of all": 5}')
    assert difference(own, again, left_out=frozenset(["of all"])) == "a is 2, and made again it is 1"
    own.write_text('{"a": true, "b": 2, "of all": 6}')
    assert difference(own, again) == "a is true, and made again it is 1"


class _Touches:
    """An object whose pickle makes a file where it is loaded."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self._place,)


def test_no_code_of_an_array_is_run(tmp_path: Path) -> None:
    (tmp_path / "own.npy").write_bytes(pickle.dumps(_Touches(tmp_path / "made")))
    np.save(tmp_path / "again.npy", np.arange(3))
    with pytest.raises(ValueError, match="pickled"):
        difference(tmp_path / "own.npy", tmp_path / "again.npy")
    assert not (tmp_path / "made").exists()
