"""Rows of arrays in a store are read without the rest of the file, and held to their digests."""

import uuid
from pathlib import Path

import numpy as np
import pytest

from stages.errors import DataError
from stages.store.arrays import rows_digest, write_array
from stages.stores import ranges
from stages.stores.objects import ObjectStore
from stages.stores.ranges import ArrayRows, fetch_rows, rows_here
from stages.stores.url import StoreUrl
from tests.material.store_server import BUCKET, StoreServer

pytest.importorskip("obstore")

BOUNDS = [(0, 3), (3, 3), (3, 40), (90, 100)]


@pytest.fixture
def store(store_server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """An empty place in the bucket."""
    for name, value in store_server.environment.items():
        monkeypatch.setenv(name, value)
    return ObjectStore(StoreUrl("s3", BUCKET, uuid.uuid4().hex))


@pytest.mark.parametrize(("dtype", "row"), [("<u8", ()), ("<u4", ()), ("<u8", (2,)), ("|b1", (3,))])
def test_rows_of_a_store_are_those_of_a_folder(
    store: ObjectStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    dtype: str,
    row: tuple[int, ...],
) -> None:
    monkeypatch.setattr(ranges, "_REQUEST", 37)  # so that rows come in more than one answer
    generator = np.random.default_rng(1)
    wanted = []
    for name in ("a", "b"):
        array = generator.integers(0, 2 if dtype == "|b1" else 1 << 31, (100, *row)).astype(dtype)
        write_array(tmp_path / f"{name}.npy", array)
        store.put(f"run/{name}.npy", tmp_path / f"{name}.npy")
        wanted += [
            ArrayRows(f"{name}.npy", dtype, row, low, high, rows_digest(array[low:high]))
            for low, high in BOUNDS
        ]
    there = rows_here(tmp_path, wanted)
    some = [one for one in wanted if one.nbytes]
    brought = iter(fetch_rows(store, tmp_path / "cache", "run/", some))
    for one, own in zip(wanted, there, strict=True):
        assert len(own) == one.last - one.first
        if one.nbytes:
            found = next(brought)
            assert found.dtype == own.dtype
            assert np.array_equal(found, own)
    assert not list((tmp_path / "cache").iterdir()), "the file has no name"


def test_rows_that_changed_or_went_are_named(store: ObjectStore, tmp_path: Path) -> None:
    array = np.arange(100, dtype="<u8")
    write_array(tmp_path / "a.npy", array)
    store.put("a.npy", tmp_path / "a.npy")
    right = ArrayRows("a.npy", "<u8", (), 10, 20, rows_digest(array[10:20]))
    cases = {
        "XXH3-64": right._replace(first=11, last=21),
        "found 0": right._replace(first=200, last=210),
        "found 0 ": right._replace(key="b.npy"),
    }
    for said, rows in cases.items():
        with pytest.raises(DataError, match=rf"{rows.key}: rows .*{said}"):
            fetch_rows(store, tmp_path, "", [right, rows])
