"""Ranges: rows of committed arrays, brought without the files that they stand in.

A task of a partition needs a small part of a file of every group. Where the run lies in a folder, these
are mapped. In a store a large file is not brought for it: the rows are read, held to the XXH3-64 that a
committed file gives for them, and written one after the other into a file on the cache's disk, which is
mapped and has no name. So no more of them is held in memory than of files that are here.
"""

import errno
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from stages.errors import DataError, Stopped
from stages.store.arrays import HEADER_BYTES, open_array
from stages.stores.mounts import mounted_at
from stages.stores.store import Store

WHOLE_BYTES = 1 << 20
"""A file up to this size is brought whole, since it is asked for again soon."""
_AT_ONCE = 16
_REQUEST = 16 << 20


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


def rows_here(root: Path, wanted: Sequence[ArrayRows]) -> list[NDArray[np.generic]]:
    """Return rows of arrays of a run, mapped.

    Args:
        root: the run's folder, or its tree.
        wanted: the rows.

    Raises:
        DataError: an object is gone, or the rows have other bytes than were committed.
        FormatError: a file is no such array.
        Stopped: the store has no answer, or the cache's disk is full.
    """
    found = mounted_at(root)
    if found is None:
        return [_mapped(root / one.key, one) for one in wanted]
    tree, mounted = found
    begin = "" if tree == root else f"{root.relative_to(tree).as_posix()}/"
    whole = [one.xxh3 is None or mounted.brings_whole(f"{begin}{one.key}") for one in wanted]
    for key in dict.fromkeys(one.key for one, is_whole in zip(wanted, whole, strict=True) if is_whole):
        mounted.bring(f"{begin}{key}")
    parts = [one for one, is_whole in zip(wanted, whole, strict=True) if not is_whole]
    stored = mounted.stored
    brought = iter(fetch_rows(stored.store, stored.cache.folder, begin, parts))
    return [
        _mapped(root / one.key, one) if is_whole else next(brought)
        for one, is_whole in zip(wanted, whole, strict=True)
    ]


def fetch_rows(
    store: Store, folder: Path, begin: str, wanted: Sequence[ArrayRows]
) -> list[NDArray[np.generic]]:
    """Read rows of objects into one file without a name, and return them, mapped.

    Args:
        store: where the objects are.
        folder: on whose disk the file is.
        begin: what stands before the keys in the store.
        wanted: the rows; each has some.

    Raises:
        DataError: an object is gone, or the rows have other bytes than were committed.
        Stopped: the store has no answer, or the disk is full.
    """
    if not wanted:
        return []
    places = np.concatenate([[0], np.cumsum([-(-one.nbytes // 64) * 64 for one in wanted])]).tolist()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        try:
            file.truncate(places[-1])
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                works = [
                    pool.submit(_read_rows, store, f"{begin}{one.key}", one, file, place)
                    for one, place in zip(wanted, places, strict=False)
                ]
                for work in works:
                    work.result()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise Stopped(
                f"{folder}: the disk of the cache is full; a task needs {places[-1]:,} bytes there for"
                f" parts of {len(wanted):,} files of {store.place}. Free some, and run again"
            ) from error
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


def _mapped(path: Path, rows: ArrayRows) -> NDArray[np.generic]:
    array = open_array(path, dtype=rows.dtype)
    return array.reshape(-1, *rows.row)[rows.first : rows.last]
