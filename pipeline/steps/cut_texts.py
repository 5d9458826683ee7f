"""Cut texts: what the step cut takes out of a unit's documents, applied to their texts as they are read.

    row          of the document among those of its unit
    starts, ends ranges of bytes that go, ascending and apart
    text_bytes   of what is left
    digest       of what is left

ingest's tables stay as they are.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stages.columns import CUT_RANGES, utf8_of
from stages.errors import FormatError, is_of_the_system
from stages.ragged import Ragged, ranges_of
from stages.store.ranges import copy_ranges


@dataclass(frozen=True)
class Cuts:
    """What goes of the D documents of a unit that lose something."""

    table: pa.Table
    rows: NDArray[np.int64]
    """(D,) ascending."""
    starts: Ragged
    """D lists."""
    ends: Ragged

    def apply(self, table: pa.Table, first: int) -> pa.Table:
        """Return documents of the unit as they are after the cuts.

        Args:
            table: columns of some documents that follow each other.
            first: the row of the first of them in the unit.
        """
        low, high = np.searchsorted(self.rows, (first, first + table.num_rows))
        if low == high:
            return table
        chosen = np.arange(low, high)
        for number, name in enumerate(table.column_names):
            if name == "text":
                column = self._texts(table.column(name), chosen, first)
            elif name in ("text_bytes", "digest"):
                column = self._replaced(table.column(name), chosen, first)
            else:
                continue
            table = table.set_column(number, table.schema.field(number), column)
        return table

    def _texts(self, texts: pa.ChunkedArray, chosen: NDArray[np.int64], first: int) -> pa.Array:
        data, offsets = utf8_of(texts)
        starts, ends = self.starts.take(chosen), self.ends.take(chosen)
        counts = np.diff(starts.ptr)
        sizes = np.diff(offsets)
        if (ends.values > np.repeat(sizes[self.rows[chosen] - first], counts)).any():
            raise FormatError("a range of the cuts ends after its text")
        shift = np.repeat(offsets[self.rows[chosen] - first], counts)
        begins = np.concatenate([[0], ends.values + shift])
        lengths = np.concatenate([starts.values + shift, [len(data)]]) - begins
        left = np.empty(int(lengths.sum()), np.uint8)
        copy_ranges(data, left, begins, np.cumsum(lengths) - lengths, lengths)
        sizes[self.rows[chosen] - first] -= np.add.reduceat(ends.values - starts.values, starts.ptr[:-1])
        places = np.concatenate([[0], np.cumsum(sizes)])
        buffers = [None, pa.py_buffer(places), pa.py_buffer(left)]
        return pa.LargeStringArray.from_buffers(len(sizes), buffers[1], buffers[2])

    def _replaced(self, column: pa.ChunkedArray, chosen: NDArray[np.int64], first: int) -> pa.Array:
        name = "text_bytes" if pa.types.is_integer(column.type) else "digest"
        values = self.table.column(name).take(pa.array(chosen)).combine_chunks()
        mask = np.zeros(len(column), np.bool_)
        mask[self.rows[chosen] - first] = True
        return pa.compute.replace_with_mask(column.combine_chunks(), pa.array(mask), values)


def read_cuts(path: Path) -> Cuts:
    """Return what is cut from a unit's documents.

    Raises:
        FormatError: the table is missing or damaged, or its ranges are none.
    """
    try:
        table = pq.read_table(path, schema=CUT_RANGES, use_threads=False)
    except (OSError, pa.ArrowException) as error:
        if is_of_the_system(error):
            raise
        raise FormatError(f"{path}: cannot be read: {error}") from error
    starts, ends = (_ragged(table.column(name)) for name in ("starts", "ends"))
    rows = table.column("row").to_numpy()
    sound = np.array_equal(starts.ptr, ends.ptr) and (np.diff(starts.ptr) > 0).all()
    if not sound or not (np.diff(rows) > 0).all() or not _apart(starts, ends):
        raise FormatError(f"{path}: its ranges do not ascend, or overlap")
    return Cuts(table, rows, starts, ends)


def _ragged(column: pa.ChunkedArray) -> Ragged:
    lists = column.combine_chunks()
    lengths = lists.value_lengths().to_numpy() if len(lists) else np.empty(0, np.int64)
    return Ragged(np.concatenate([[0], np.cumsum(lengths)]), lists.flatten().to_numpy())


def _apart(starts: Ragged, ends: Ragged) -> bool:
    """Say whether the ranges of each document ascend and are apart."""
    if not len(starts.values):
        return True
    inner = ranges_of(starts.ptr[:-1] + 1, np.diff(starts.ptr) - 1)  # all but the first of each document
    ascending = (starts.values < ends.values).all() and starts.values.min() >= 0
    return bool(ascending and (starts.values[inner] > ends.values[inner - 1]).all())
