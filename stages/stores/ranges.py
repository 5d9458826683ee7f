"""Ranges: rows of committed arrays, brought without the files that they stand in.

A task of a partition needs a small part of a file of every group. Where the run lies in a folder, these
are mapped. In a store a large file is not brought for it: the rows are read, held to the XXH3-64 that a
committed file gives for them, and written one after the other into a file on the cache's disk, which is
mapped and has no name. So no more of them is held in memory than of files that are here.
"""

import errno
import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from stages.errors import DataError, FormatError, Stopped
from stages.store.arrays import HEADER_BYTES, open_array
from stages.stores.mounts import StoredFiles, mounted_at
from stages.stores.store import Store

WHOLE_BYTES = 1 << 20
"""A file up to this size is brought whole, since it is asked for again soon."""
_AT_ONCE = 16
_REQUEST = 2 << 20
"""Each thread holds two at the most, which the reserve for buffers has room for."""


class ArrayRows(NamedTuple):
    """Rows of an array of a run, with the digest that they must have."""

    key: str
    """Of its file; the array's data begin after `HEADER_BYTES`."""
    dtype: str
    row: tuple[int, ...]
    """Shape of a row; the array is cut into rows of this shape, whatever its own."""
    first: int
    last: int
    """After the last row."""
    xxh3: int | None
    """XXH3-64 of their bytes; None if it is not known, and then the file is brought whole."""

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return int(np.prod(self.row, dtype=np.int64)) * np.dtype(self.dtype).itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return (self.last - self.first) * self.row_bytes


RowsReader = Callable[[], NDArray[np.generic]]
"""Maps rows when it is called: a mapped file holds a file descriptor, and there may be thousands."""


def rows_here(root: Path, wanted: Sequence[ArrayRows]) -> list[RowsReader]:
    """Bring rows of arrays of a run; return what maps them, one after the other.

    Args:
        root: the run's folder, or its tree.
        wanted: the rows.

    Raises:
        DataError: an object is gone, or the rows have other bytes than were committed.
        Stopped: the store has no answer, or the cache's disk is full.
    """
    found = mounted_at(root)
    if found is None:
        return [partial(_mapped, root / one.key, one) for one in wanted]
    tree, mounted = found
    begin = "" if tree == root else f"{root.relative_to(tree).as_posix()}/"
    there = [one for one in wanted if one.nbytes]
    whole = {
        key
        for key, xxh3 in {(one.key, one.xxh3) for one in there}
        if xxh3 is None or mounted.brings_whole(f"{begin}{key}")
    }
    for key in sorted(whole):
        mounted.bring(f"{begin}{key}")
    parts = [one for one in there if one.key not in whole]
    brought = dict(zip(parts, fetch_rows(mounted.stored, begin, parts), strict=True))
    return [
        partial(_brought, brought[one]) if one in brought else partial(_mapped, root / one.key, one)
        for one in wanted
    ]


def fetch_rows(
    stored: StoredFiles, begin: str, wanted: Sequence[ArrayRows]
) -> list[NDArray[np.generic]]:
    """Read rows of objects into one file without a name, and return them, mapped.

    Args:
        stored: where the objects are, and the cache on whose disk the file is.
        begin: what stands before the keys in the store.
        wanted: the rows; each has some.

    Raises:
        DataError: an object is gone, or the rows have other bytes than were committed.
        Stopped: the store has no answer, or the disk is full.
    """
    if not wanted:
        return []
    try:
        return _fetch(stored, begin, wanted)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    needed, folder = sum(one.nbytes for one in wanted), stored.cache.folder
    stored.cache.make_room(needed)
    try:
        return _fetch(stored, begin, wanted)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise Stopped(
            f"{folder}: the disk of the cache is full; a task needs {needed:,} bytes there for parts of"
            f" {len(wanted):,} files of {stored.store.place}. Free some, and run again"
        ) from error


def _fetch(stored: StoredFiles, begin: str, wanted: Sequence[ArrayRows]) -> list[NDArray[np.generic]]:
    places = np.concatenate([[0], np.cumsum([-(-one.nbytes // 64) * 64 for one in wanted])]).tolist()
    stored.cache.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=stored.cache.folder) as file, ThreadPoolExecutor(_AT_ONCE) as pool:
        file.truncate(places[-1])

        def read(rows: ArrayRows, place: int) -> None:
            _read_rows(stored.store, f"{begin}{rows.key}", rows, file, place)

        for _ in pool.map(read, wanted, places[:-1]):  # the first that fails ends those that wait
            pass
        data = np.memmap(file, np.uint8, "r")
    return [
        np.asarray(data[place : place + one.nbytes]).view(one.dtype).reshape(-1, *one.row)
        for one, place in zip(wanted, places, strict=False)
    ]


def _read_rows(store: Store, key: str, rows: ArrayRows, file: IO[bytes], place: int) -> None:
    """Read rows of an object and write them at a place of a file, held to their digest."""
    begin = HEADER_BYTES + rows.first * rows.row_bytes
    digest, size = xxhash.xxh3_64(), 0
    while size < rows.nbytes:
        found = store.get(key, begin + size, begin + min(size + _REQUEST, rows.nbytes))
        if found is None or not found.data:
            break
        _write_at(file, found.data, place + size)
        digest.update(found.data)
        size += len(found.data)
        del found  # two are not held at once
    if (size, digest.intdigest()) != (rows.nbytes, rows.xxh3):
        raise DataError(
            f"{store.place}/{key}: rows {rows.first:,} to {rows.last:,} were committed with"
            f" {rows.nbytes:,} bytes and the XXH3-64 {rows.xxh3 or 0:016x}, found {size:,} and"
            f" {digest.intdigest():016x}; run again with --replace to make the step anew"
        )


def _write_at(file: IO[bytes], data: bytes, place: int) -> None:
    """Write at a place, whatever other threads write."""
    rest = memoryview(data)
    while rest:
        written = os.pwrite(file.fileno(), rest, place)
        rest, place = rest[written:], place + written


def _brought(rows: NDArray[np.generic]) -> NDArray[np.generic]:
    return rows


def _mapped(path: Path, rows: ArrayRows) -> NDArray[np.generic]:
    """Map rows of a file.

    Raises:
        FormatError: it is no such array, or has fewer rows.
    """
    if not rows.nbytes:
        return np.empty((0, *rows.row), rows.dtype)
    array = open_array(path, dtype=rows.dtype)
    if array.size * array.itemsize < rows.last * rows.row_bytes or array.nbytes % rows.row_bytes:
        raise FormatError(
            f"{path}: has {array.nbytes:,} bytes of rows, but rows {rows.first:,} to {rows.last:,} of"
            f" {rows.row_bytes:,} bytes are asked for; it is damaged"
        )
    return array.reshape(-1, *rows.row)[rows.first : rows.last]
