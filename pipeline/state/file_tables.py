"""Tables of files: what a worker knows of the committed files of a run in a store.

    files/STEP-DIGEST.parquet    key, bytes, sha256 and xxh3 of each committed file of a step, by key

The driver puts one when a step begins a phase and when it is whole. A task names the tables that there
are, each by its digest, so that no task grows with the corpus.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from stages.store.digests import FileDigest
from stages.stores.cache import NodeCache
from stages.stores.store import Store

FILES = "files"
_ROWS = 1 << 14
"""Of a row group: what is read to find one key."""
_SCHEMA = pa.schema(
    [("key", pa.string()), ("bytes", pa.uint64()), ("sha256", pa.string()), ("xxh3", pa.string())]
)
_GROUPS_KEPT = 8


class FileTable(NamedTuple):
    """A table of files, as a task names it."""

    key: str
    """Of the table, in the run."""
    digest: FileDigest
    begin: str = ""
    """What stands before the keys in it: `generations/0001/` of a later generation."""


def write_files(path: Path, files: Mapping[str, FileDigest]) -> None:
    """Write a table of files, sorted by key."""
    keys = sorted(files)
    found = [files[key] for key in keys]
    columns = [
        keys,
        [one.bytes for one in found],
        [one.sha256 for one in found],
        [one.xxh3 for one in found],
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(columns, schema=_SCHEMA)
    pq.write_table(table, path, row_group_size=_ROWS, compression="zstd")


@dataclass(eq=False)
class TableFiles:
    """The committed files of a run, as tables and a task tell them.

    Args:
        root: of the tree.
        cache: of this machine.
        store: where the run is.
    """

    root: Path
    cache: NodeCache
    store: Store
    _tables: tuple[FileTable, ...] = ()
    _files: Mapping[str, FileDigest] = field(default_factory=dict)

    def tell(self, tables: tuple[FileTable, ...], files: Mapping[str, FileDigest]) -> None:
        """Take what a task was told."""
        self._tables, self._files = tables, files

    def below(self, key: str) -> Mapping[str, FileDigest]:
        """Return a file of this key, or all files of this folder, by key; none if there are none."""
        found = {}
        for table in self._tables:
            if key.startswith(table.begin):
                rows = self._looked_up(table, key.removeprefix(table.begin))
                found.update({f"{table.begin}{one}": digest for one, digest in rows})
        begin = f"{key}/"
        found |= {
            one: digest for one, digest in self._files.items() if one == key or one.startswith(begin)
        }
        return found

    def _looked_up(self, table: FileTable, key: str) -> Iterator[tuple[str, FileDigest]]:
        path = self.root / table.key
        self.cache.bring(self.store, table.key, table.digest, path)
        return _rows(str(path), table.digest.sha256, key)


class _Opened(NamedTuple):
    file: pq.ParquetFile
    bounds: list[tuple[str, str]]
    """The first and the last key of each row group."""


@lru_cache(64)
def _opened(path: str, sha256: str) -> _Opened:
    del sha256  # another table may come to lie there
    file = pq.ParquetFile(path, memory_map=True)
    groups = (file.metadata.row_group(n).column(0).statistics for n in range(file.num_row_groups))
    return _Opened(file, [(one.min, one.max) for one in groups])


@lru_cache(_GROUPS_KEPT)
def _group(path: str, sha256: str, number: int) -> pa.Table:
    return _opened(path, sha256).file.read_row_group(number, use_threads=False)


def _rows(path: str, sha256: str, key: str) -> Iterator[tuple[str, FileDigest]]:
    """Yield a file of a key, or all files of a folder."""
    after = chr(ord("/") + 1)
    yield from _between(path, sha256, key, f"{key}\0")
    yield from _between(path, sha256, f"{key}/", f"{key}{after}")


def _between(path: str, sha256: str, begin: str, end: str) -> Iterator[tuple[str, FileDigest]]:
    """Yield the files from one key to before another."""
    for number, (least, most) in enumerate(_opened(path, sha256).bounds):
        if least < end and begin <= most:
            table = _group(path, sha256, number)
            keys = table.column("key")
            first, last = _position(keys, begin), _position(keys, end)
            for row in table.slice(first, last - first).to_pylist():
                yield row.pop("key"), FileDigest(**row)


def _position(keys: pa.ChunkedArray, key: str) -> int:
    """Return the place of the first key that is not before another."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys[middle].as_py() < key:
            low = middle + 1
        else:
            high = middle
    return low
