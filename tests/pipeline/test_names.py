"""What own ids and languages in mapped files promise.

They come back in any order as they were, nulls too; parts are bounded by bytes; a range of a table's
rows is that range, whatever its row groups; one table is written as pyarrow writes it.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.steps import names as module
from pipeline.steps.names import Names, read_rows
from pipeline.steps.unit_clusters import Clusters
from pipeline.steps.units import from_hex, hex_strings
from stages.store.token_store import write_tables
from tests.campaign import examples

STRINGS = st.lists(st.none() | st.text(max_size=6), max_size=30)


@settings(deadline=None, derandomize=True, max_examples=examples(40))
@given(STRINGS, st.randoms(use_true_random=False), st.integers(1, 7))
def test_strings_come_back_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, values: list[str | None], random: object, cut: int
) -> None:
    own = pa.array(values, pa.string())
    languages = pa.array([f"l{number}" for number in range(len(values))])
    table = pa.table({"own_id": own, "language": languages})
    names = Names(tmp_path_factory.mktemp("names"))
    for start in range(0, len(values), cut):  # slices share the buffers of the whole
        names.add(table.slice(start, cut))
    names.finish()
    order = np.array(random.sample(range(len(values)), len(values)), np.int64)  # type: ignore[attr-defined]
    assert names.take("own_id", order).to_pylist() == [values[row] for row in order]
    assert names.take("language", order).to_pylist() == [f"l{row}" for row in order]


def test_parts_are_bounded_by_the_bytes_of_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TABLE_BYTES", 100)
    lengths = [3, 90, 0, 40, 200, 5, 5]
    names = Names(tmp_path)
    names.add(pa.table({"own_id": ["x" * n for n in lengths], "language": ["en"] * len(lengths)}))
    names.finish()
    order = np.arange(len(lengths))
    parts = [part.tolist() for part in names.blocks(order)]
    assert parts == [[0, 1, 2], [3], [4], [5, 6]]
    assert [part.tolist() for part in names.blocks(order[:2], beside=np.array([9, 9]))] == [[0], [1]]
    assert list(names.blocks(order[:0])) == []


@pytest.mark.parametrize("group", [1, 3, 100])
@pytest.mark.parametrize("rows", [1, 4, 100])
def test_a_range_of_rows_is_that_range(
    tmp_path: Path, group: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READ_ROWS", rows)
    table = pa.table({"a": range(10), "b": [str(n) for n in range(10)]})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=group)
    for first in range(11):
        for last in range(first, 11):
            parts = list(read_rows(tmp_path / "t.parquet", ["b", "a"], first, last))
            assert [n for part in parts for n in part.column("a").to_pylist()] == [*range(first, last)]
            assert all(part.column_names == ["b", "a"] for part in parts)


def test_fewer_rows_are_read_at_a_time_where_values_of_records_go_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READ_ROWS", 12)
    columns = {name: ["x"] * 40 for name in ("own_id", "record.a", "record.b", "record.c", "record.d")}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    for names, rows in ((["own_id"], 12), (["own_id", "record.a"], 8), (list(columns), 4)):
        parts = list(read_rows(tmp_path / "t.parquet", names, 0, 40))
        assert max(part.num_rows for part in parts) == rows
        assert sum(part.num_rows for part in parts) == 40


@pytest.mark.parametrize("count", [0, 5])
def test_one_table_and_none_are_written_as_pyarrow_writes_them(tmp_path: Path, count: int) -> None:
    table = pa.table({"a": pa.array(range(count), pa.int64())})
    pq.write_table(table, tmp_path / "one.parquet", compression="zstd")
    write_tables(tmp_path / "two.parquet", table.schema, [table] if count else [])
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()


def test_a_document_without_duplicates_is_its_own_cluster() -> None:
    rng = np.random.default_rng(3)
    identities = rng.integers(0, 256, (50, 16), np.uint8)
    identities[::7, 8:] = 0  # numpy's strings drop such ends
    roots = identities[rng.integers(0, 50, 20)]
    known = {row.tobytes(): root.tobytes() for row, root in zip(identities[:20], roots, strict=True)}
    found = Clusters(identities[:20], roots).of(identities[::-1])
    expected = [known.get(row.tobytes(), row.tobytes()) for row in identities[::-1]]
    assert [row.tobytes() for row in found] == expected
    assert np.array_equal(Clusters(identities[:0], roots[:0]).of(identities), identities)
    assert np.array_equal(from_hex(pa.chunked_array([hex_strings(identities)])), identities)
