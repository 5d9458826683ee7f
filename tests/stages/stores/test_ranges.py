"""Rows of arrays in a store are read without the rest of the file, and held to their digests."""

import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from stages.errors import DataError, FormatError, Stopped
from stages.store.arrays import rows_digest, write_array
from stages.stores import ranges
from stages.stores.cache import NodeCache
from stages.stores.mounts import StoredFiles, mount, unmount
from stages.stores.objects import ObjectStore
from stages.stores.ranges import ArrayRows, fetch_rows, rows_here
from stages.stores.url import StoreUrl
from tests.material.store_server import BUCKET, StoreServer

pytest.importorskip("obstore")


@dataclass
class Untouched:
    """A tree of which nobody may ask anything."""

    stored: StoredFiles
    place: str = "s3://no-such-bucket"

    def keys_below(self, key: str) -> list[str]:
        """Fail."""
        raise AssertionError(key)

    def brings_whole(self, key: str) -> bool:
        """Fail."""
        raise AssertionError(key)

    def bring(self, key: str) -> None:
        """Fail."""
        raise AssertionError(key)

    def bring_again(self, key: str) -> None:
        """Fail."""
        raise AssertionError(key)


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
    stored = StoredFiles(tmp_path, store, NodeCache(tmp_path / "cache", 1 << 30))
    brought = iter(fetch_rows(stored, "run/", some))
    for one, mapped in zip(wanted, there, strict=True):
        own = mapped()
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
    stored = StoredFiles(tmp_path, store, NodeCache(tmp_path / "cache", 1 << 30))
    for said, rows in cases.items():
        with pytest.raises(DataError, match=rf"{rows.key}: rows .*{said}"):
            fetch_rows(stored, "", [right, rows])


def test_parts_that_are_all_empty_are_read_nowhere(tmp_path: Path) -> None:
    stored = StoredFiles(
        tmp_path, ObjectStore(StoreUrl("s3", "no-such-bucket", "")), NodeCache(tmp_path, 1)
    )
    wanted = [ArrayRows(f"{number}.npy", "<u8", (2,), 5, 5, 0) for number in range(3)]
    assert [one().shape for one in rows_here(tmp_path, wanted)] == [(0, 2)] * 3
    mount(tmp_path, Untouched(stored))
    try:
        assert [one().shape for one in rows_here(tmp_path, wanted)] == [(0, 2)] * 3
    finally:
        unmount(tmp_path)


def test_a_first_failure_is_the_last_request(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def get(self: ObjectStore, key: str, begin: int, end: int) -> None:
        del begin, end
        asked.append(key)
        time.sleep(0.01)
        raise Stopped(f"{self.place}: no answer")

    monkeypatch.setattr(ObjectStore, "get", get)
    stored = StoredFiles(tmp_path, store, NodeCache(tmp_path / "cache", 1 << 30))
    wanted = [ArrayRows(f"{number}.npy", "<u8", (), 0, 5, 0) for number in range(500)]
    with pytest.raises(Stopped):
        fetch_rows(stored, "", wanted)
    assert len(asked) < len(wanted) / 2


def test_rows_in_a_folder_hold_no_file_until_they_are_asked_for(tmp_path: Path) -> None:
    for number in range(40):
        write_array(tmp_path / f"{number}.npy", np.arange(10, dtype="<u8"))
    before = len(list(Path("/proc/self/fd").iterdir()))
    rows = rows_here(tmp_path, [ArrayRows(f"{n}.npy", "<u8", (), 2, 4, None) for n in range(40)])
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1
    assert [one().tolist() for one in rows] == [[2, 3]] * 40


def test_a_file_with_fewer_rows_is_told(tmp_path: Path) -> None:
    write_array(tmp_path / "a.npy", np.arange(10, dtype="<u8"))
    (rows,) = rows_here(tmp_path, [ArrayRows("a.npy", "<u8", (), 5, 11, None)])
    with pytest.raises(FormatError, match="rows 5 to 11 of 8 bytes are asked for"):
        rows()
