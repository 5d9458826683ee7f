"""Evidence: tables for people of what a step removed, with the names of the documents by number.

Names are as long as the input makes them, so they lie in mapped files and are taken some at a time.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.names import Names
from pipeline.steps.units import Unit, fixed_bytes, hex_strings, row_groups
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
        workspace: where the units are.
        units: all units.
        wanted: (N,) whether a document is named.
        scratch: a folder for the names and for each document's row among them.
    """

    def __init__(
        self, workspace: Workspace, units: Sequence[Unit], wanted: NDArray[np.bool_], scratch: Path
    ) -> None:
        count = int(np.count_nonzero(wanted))
        self._row = mapped_rows(scratch / "row", len(wanted), rows=count)
        self._id = mapped_zeros(scratch / "id", np.uint8, (count, ID_BYTES))
        self._source = mapped_zeros(scratch / "source", np.int32, (count,))
        self._sources = sorted({unit.source for unit in units})
        self._own = Names(scratch / "names", ["own_id"])
        rows = 0
        for unit in units:
            if not wanted[unit.first : unit.last].any():
                continue
            for first, table in row_groups(workspace, unit, ["id", "own_id"]):
                members = np.flatnonzero(wanted[first : first + table.num_rows])
                if not len(members):
                    continue
                place = slice(rows, rows + len(members))
                self._row[first + members] = np.arange(place.start, place.stop)
                self._id[place] = fixed_bytes(table.column("id"), ID_BYTES)[members]
                self._source[place] = self._sources.index(unit.source)
                self._own.add(table.select(["own_id"]).take(pa.array(members)))
                rows = place.stop
        self._own.finish()

    def ids(self, numbers: NDArray[np.integer]) -> pa.Array:
        """Return the ids of some of the documents."""
        return hex_strings(self._id[self._row[numbers]])

    def own_ids(self, numbers: NDArray[np.integer]) -> pa.Array:
        """Return the own ids of some of the documents."""
        return self._own.take("own_id", self._row[numbers].astype(np.int64))

    def sources(self, numbers: NDArray[np.integer]) -> pa.Array:
        """Return the sources of some of the documents."""
        found = pa.array(self._source[self._row[numbers]])
        return pa.DictionaryArray.from_arrays(found, pa.array(self._sources)).cast(pa.string())


def write_tables(path: Path, schema: pa.Schema, parts: Iterator[pa.Table]) -> None:
    """Write tables end to end, in row groups that do not show where one ended."""
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        held = schema.empty_table()
        for part in parts:
            held = pa.concat_tables([held, part])
            while held.num_rows >= EVIDENCE_ROWS or held.nbytes >= EVIDENCE_BYTES:
                writer.write_table(held.slice(0, EVIDENCE_ROWS).combine_chunks())
                held = held.slice(EVIDENCE_ROWS)
        if held.num_rows:
            writer.write_table(held.combine_chunks())


def mapped_rows(path: Path, length: int, *, rows: int) -> NDArray[np.integer]:
    """Return room for the row of each of some documents in a table, in a mapped file: zeros, (N,).

    Args:
        path: the file.
        length: N.
        rows: of the table.
    """
    found: NDArray[np.integer] = mapped_zeros(path, np.int32 if rows <= NARROW else np.int64, (length,))
    return found
