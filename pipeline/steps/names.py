"""Names: own ids, languages, paths and values of the records of many documents, in mapped files.

All are as long as the input makes them, so a column of them may be larger than any worker; what is held
of a document is 17 bytes a column, and the strings of those that are taken. On the way from one order of
documents to another their strings lie in a scratch folder.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stages.columns import keep_columns_of
from stages.ragged import batches
from stages.store.ranges import copy_ranges

COLUMNS = ("own_id", "language")
TABLE_BYTES = 128 << 20
"""Names in a row group of a table of documents: more than a million of them have, as a rule."""
READ_ROWS = 8_192
"""Rows that are read at a time: 66 MiB of the longest own ids, languages and paths that there can be."""
KEPT_ROW = 40
"""Of a value of its record, for each document of which names are held: its place, length and null."""
_ORDINARY = 2
"""Columns whose values may have thousands of bytes, own ids and paths; each one more has as many."""


def string_parts(
    column: pa.ChunkedArray,
) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.bool_]]]:
    """Yield the bytes of some strings end to end, the length of each, and whether it is null."""
    for chunk in column.cast(pa.string()).chunks:
        if not len(chunk):
            continue
        _, offsets, data = chunk.buffers()
        ends = np.frombuffer(offsets, np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
        content = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]] if ends[-1] > ends[0] else _NOTHING
        yield content, np.diff(ends).astype(np.int64), chunk.is_null().to_numpy(zero_copy_only=False)


_NOTHING = np.empty(0, np.uint8)


class _Strings:
    """One column, row after row."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.touch()
        self._lengths: list[NDArray[np.int64]] = []
        self._nulls: list[NDArray[np.bool_]] = []

    def add(self, column: pa.ChunkedArray) -> None:
        """Write some rows behind the others."""
        for content, lengths, nulls in string_parts(column):
            if len(content):
                with self._path.open("ab") as file:  # which no error on the way leaves open
                    file.write(content.data)
            self._lengths.append(lengths)
            self._nulls.append(nulls)

    def finish(self) -> None:
        """Write no more, and map what is written."""
        self.lengths = np.concatenate([np.empty(0, np.int64), *self._lengths])
        self.nulls = np.concatenate([np.empty(0, np.bool_), *self._nulls])
        self.begins = np.cumsum(self.lengths) - self.lengths
        size = self._path.stat().st_size
        self._data = np.memmap(self._path, np.uint8, "r") if size else np.empty(0, np.uint8)

    def take(self, rows: NDArray[np.int64]) -> pa.Array:
        """Return some rows, in the order given."""
        lengths = self.lengths[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        found = np.empty(offsets[-1], np.uint8)
        copy_ranges(np.asarray(self._data), found, self.begins[rows], offsets[:-1], lengths)
        nulls = self.nulls[rows]
        present = pa.py_buffer(np.packbits(~nulls, bitorder="little")) if nulls.any() else None
        return pa.StringArray.from_buffers(
            len(rows), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(found), present
        )


class Names:
    """Own ids, languages and paths of documents, added in one order and taken in another.

    Args:
        folder: an empty one, for the files.
        columns: which of them.
    """

    def __init__(self, folder: Path, columns: Sequence[str] = COLUMNS) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._columns = {name: _Strings(folder / name) for name in columns}

    def add(self, table: pa.Table) -> None:
        """Write the names of some documents behind those of the others."""
        for name, strings in self._columns.items():
            strings.add(table.column(name))

    def finish(self) -> None:
        """Write no more."""
        for strings in self._columns.values():
            strings.finish()

    def take(self, name: str, rows: NDArray[np.int64]) -> pa.Array:
        """Return a column's strings of some documents."""
        return self._columns[name].take(rows)

    def blocks(
        self, order: NDArray[np.int64], *, beside: NDArray[np.int64] | int = 0
    ) -> Iterator[NDArray[np.int64]]:
        """Return the documents of an order in parts whose names have `TABLE_BYTES` together.

        Args:
            order: (N,) rows.
            beside: bytes of other strings of each.
        """
        sizes = sum((strings.lengths[order] for strings in self._columns.values()), start=beside)
        for first, last in batches(np.asarray(sizes, np.int64), TABLE_BYTES):
            yield order[first:last]


def read_rows(path: Path, columns: Sequence[str], first: int, last: int) -> Iterator[pa.Table]:
    """Return rows [first, last) of a table of documents, some at a time."""
    if first >= last:  # a shard has no document of many a small unit
        return
    most = READ_ROWS * _ORDINARY // (_ORDINARY + len(keep_columns_of(columns)))
    with pq.ParquetFile(path) as file:
        start, groups = 0, []
        offset = None
        for group in range(file.num_row_groups):
            end = start + file.metadata.row_group(group).num_rows
            if start < last and end > first:
                groups.append(group)
                offset = start if offset is None else offset
            start = end
        place = offset or 0
        for batch in file.iter_batches(max(most, 1), groups, columns=columns, use_threads=False):
            low, high = max(first - place, 0), min(last - place, batch.num_rows)
            if low < high:
                yield pa.Table.from_batches([batch.slice(low, high - low)]).select(list(columns))
            place += batch.num_rows
