"""Evidence: tables for people of what a step removed, with the names of the documents by number.

Names are as long as the input makes them, so they lie in mapped files and are taken some at a time.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.names import Names
from pipeline.steps.units import Unit, fixed_bytes, hex_strings, named_table, row_groups
from stages.dedup.survivors import NARROW
from stages.identity import ID_BYTES
from stages.store.mapped import mapped_zeros

EVIDENCE_ROWS = 1 << 16
"""Rows of evidence that are written together."""
EVIDENCE_BYTES = 64 << 20
"""Bytes of evidence that are written together: more than those rows have, unless own ids are long."""


class DocumentNames:
    """Ids, own ids and sources of the documents that evidence names, by number.

    Args:
        wanted: (N,) whether a document is named.
        scratch: a folder for the names and for each document's row among them.
    """

    def __init__(self, wanted: NDArray[np.bool_], scratch: Path) -> None:
        self._wanted, self._count = wanted, 0
        count = int(np.count_nonzero(wanted))
        self._row: NDArray[np.integer] = mapped_zeros(
            scratch / "row", np.int32 if count <= NARROW else np.int64, (len(wanted),)
        )
        self._id = mapped_zeros(scratch / "id", np.uint8, (count, ID_BYTES))
        self._source = mapped_zeros(scratch / "source", np.int32, (count,))
        self._sources: dict[str, int] = {}
        self._own = Names(scratch / "names", ["own_id"])

    def number_of(self, source: str) -> int:
        """Return the number by which a source is held."""
        return self._sources.setdefault(source, len(self._sources))

    def add(
        self,
        numbers: NDArray[np.int64],
        ids: NDArray[np.uint8],
        own_ids: Any,
        sources: Sequence[int] | int,
    ) -> slice:
        """Add the names of some documents, and return their rows; sources are numbers, one or each."""
        rows = slice(self._count, self._count + len(numbers))
        self._row[numbers] = np.arange(rows.start, rows.stop)
        self._id[rows], self._source[rows] = ids, sources
        self._own.add(pa.table({"own_id": own_ids}))
        self._count = rows.stop
        return rows

    def finish(self, workspace: Workspace, units: Sequence[Unit]) -> None:
        """Add the names of the documents of some units, which are the last."""
        for unit in units:
            if not self._wanted[unit.first : unit.last].any():
                continue
            for first, table in row_groups(workspace, unit, ["id", "own_id"]):
                members = np.flatnonzero(self._wanted[first : first + table.num_rows])
                if len(members):
                    ids = fixed_bytes(table.column("id"), ID_BYTES)[members]
                    own = table.column("own_id").take(pa.array(members))
                    self.add(first + members, ids, own, self.number_of(unit.source))
        self._own.finish()

    def ids(self, numbers: NDArray[np.integer]) -> pa.Array:
        """Return the ids of some of the documents."""
        return hex_strings(self._id[self._row[numbers]])

    def own_ids(self, numbers: NDArray[np.integer]) -> pa.Array:
        """Return the own ids of some of the documents."""
        return self._own.take("own_id", self._row[numbers].astype(np.int64))

    def sources(self, numbers: NDArray[np.integer]) -> pa.Array:
        """Return the sources of some of the documents."""
        return strings_at(self._source[self._row[numbers]], list(self._sources))


def strings_at(numbers: NDArray[np.integer], strings: Sequence[str | None]) -> pa.Array:
    """Return strings by their numbers."""
    return pa.array(strings, pa.string()).take(pa.array(numbers))


def write_tables(
    path: Path,
    schema: pa.Schema,
    parts: Iterator[pa.Table],
    *,
    rows: int = EVIDENCE_ROWS,
    size: float = EVIDENCE_BYTES,
) -> None:
    """Write tables end to end, in row groups that do not show where one ended.

    Args:
        path: the file.
        schema: of all.
        parts: the tables.
        rows: of a row group.
        size: bytes from which rows are written though they are fewer.
    """
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        buffer = schema.empty_table()
        for part in parts:
            buffer = pa.concat_tables([buffer, part])
            while buffer.num_rows >= rows or buffer.nbytes >= size:
                writer.write_table(buffer.slice(0, rows).combine_chunks())
                buffer = buffer.slice(rows)
        if buffer.num_rows:
            writer.write_table(buffer.combine_chunks())


def rows_of_unit(
    workspace: Workspace, key: str, unit: Unit, columns: Sequence[str] | None = None
) -> pa.Table:
    """Return the rows of a table that are of a unit's documents, by its first column, `number`.

    Raises:
        FormatError: the table is missing or damaged.
    """
    path = workspace.path(key)
    with named_table(path), pq.ParquetFile(path) as file:
        known = [file.metadata.row_group(n).column(0).statistics for n in range(file.num_row_groups)]
        groups = [n for n, one in enumerate(known) if one.max >= unit.first and one.min < unit.last]
        table = file.read_row_groups(groups, columns=columns, use_threads=False)
    numbers = table.column("number").to_numpy()
    return table.filter(pa.array((numbers >= unit.first) & (numbers < unit.last)))
