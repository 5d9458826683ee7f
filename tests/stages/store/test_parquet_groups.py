"""What joined parquet files promise: the bytes that one writer makes of all rows."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.errors import FormatError
from stages.store.parquet_groups import join_parquet
from stages.store.thrift import decode, encode

ROWS = 50


def table_of(rows: int, seed: int) -> pa.Table:
    """Return a table of strings with nulls, numbers and flags."""
    rng = np.random.default_rng(seed)
    names = [None if one % 5 == 0 else f"name {one}" for one in rng.integers(0, 99, rows).tolist()]
    return pa.table(
        {
            "name": pa.array(names, pa.string()),
            "kind": pa.array([f"k{one}" for one in rng.integers(0, 3, rows).tolist()]),
            "number": rng.integers(-(1 << 40), 1 << 40, rows),
            "alike": rng.random(rows),
            "kept": rng.integers(0, 2, rows) > 0,
        }
    )


def write(path: Path, table: pa.Table) -> Path:
    """Write a table in row groups of `ROWS` rows."""
    with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for start in range(0, table.num_rows, ROWS):
            writer.write_table(table.slice(start, ROWS).combine_chunks())
    return path


CUTS: list[tuple[int, ...]] = [(), (1,), (7, 8), (1, 2, 19), tuple(range(1, 20))]
"""Where 20 row groups are cut into files."""


@pytest.mark.parametrize("cut", CUTS)
def test_the_joined_file_is_what_one_writer_makes_of_all_rows(
    cut: tuple[int, ...], tmp_path: Path
) -> None:
    table = table_of(20 * ROWS - 13, 3)
    whole = write(tmp_path / "whole", table)
    ends = (*cut, 20)
    parts = [
        write(tmp_path / f"{first}", table.slice(first * ROWS, (last - first) * ROWS))
        for first, last in zip((0, *cut), ends, strict=True)
    ]
    join_parquet(tmp_path / "joined", parts)
    assert (tmp_path / "joined").read_bytes() == whole.read_bytes()
    assert pq.read_table(tmp_path / "joined").equals(table)


def test_a_file_without_rows_adds_none(tmp_path: Path) -> None:
    table = table_of(3 * ROWS, 4)
    parts = [
        write(tmp_path / "none", table.slice(0, 0)),
        write(tmp_path / "all", table),
        write(tmp_path / "no more", table.slice(0, 0)),
    ]
    join_parquet(tmp_path / "joined", parts)
    assert (tmp_path / "joined").read_bytes() == parts[1].read_bytes()


def test_files_of_other_columns_are_refused(tmp_path: Path) -> None:
    table = table_of(ROWS, 5)
    parts = [write(tmp_path / "a", table), write(tmp_path / "b", table.drop_columns(["kept"]))]
    with pytest.raises(FormatError, match="its columns are not those of"):
        join_parquet(tmp_path / "joined", parts)


@pytest.mark.parametrize("left", [0, 5, 100, -1])
def test_a_file_that_is_cut_short_is_refused(left: int, tmp_path: Path) -> None:
    part = write(tmp_path / "a", table_of(ROWS, 6))
    part.write_bytes(part.read_bytes()[:left])
    with pytest.raises(FormatError, match="not a whole parquet file"):
        join_parquet(tmp_path / "joined", [part])


def test_the_description_of_a_file_is_written_as_it_was_read(tmp_path: Path) -> None:
    data = write(tmp_path / "a", table_of(17 * ROWS, 7)).read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    description = data[-8 - length : -8]
    assert encode(decode(description)) == description
    with pytest.raises(FormatError, match="cut short"):
        decode(description[:-9])


def test_long_distances_between_fields_and_negative_numbers_are_written_as_they_were_read() -> None:
    struct = [(1, 6, -5), (40, 6, 1 << 50), (41, 1, True), (42, 2, False), (60, 8, b"ab")]
    assert decode(encode(struct)) == struct
