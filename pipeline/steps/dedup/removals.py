"""Removals: dedup/removed.parquet and dedup/clusters.parquet, of which each task writes some row groups.

A row group belongs to the part in which its first row lies, so the tables do not show how the work was
cut. Where there is more than one file of row groups, `join_rows` puts them end to end.

    dedup/rows/TABLE/NUMBER.parquet   row groups, where there is more than one file
    dedup/rows/marks/NUMBER.npy       (M,) uint64: of each row of clusters, half the name of its cluster;
                                      in place of the last bit stands whether the document goes
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.dedup.decided_parts import DecidedRows, read_decided
from pipeline.steps.dedup.member_names import RUN, MemberNames
from pipeline.steps.earlier_runs import KEPT_RUN
from pipeline.steps.evidence import EVIDENCE_ROWS, write_tables
from pipeline.steps.names import READ_ROWS
from pipeline.steps.records import UnitRecord
from pipeline.steps.units import hex_strings
from stages.columns import CLUSTERS, removed_schema
from stages.dedup.survivors import KEPT
from stages.store.arrays import array_writer
from stages.store.parquet_groups import join_parquet

_KEPT_RUN = pa.field(KEPT_RUN, pa.string())
Table = Literal["removed", "clusters"]
MARKS = "dedup/rows/marks"
GONE = np.uint64(1)
"""The last bit of a mark."""
TABLES: tuple[Table, ...] = ("removed", "clusters")


@dataclass(frozen=True)
class EvidenceTables:
    """What all tasks of the tables know."""

    firsts: tuple[int, ...]
    """The number of the first document of each part."""
    earlier: int
    """Parts of earlier runs; they come first, and their documents have no rows."""
    methods: tuple[str, ...]
    """By number."""
    unmeasured: tuple[int, ...]
    """Numbers of the methods that compare other values than texts."""
    before: int = 0
    """Documents of earlier runs."""
    with_runs: bool = False
    """Whether there are earlier runs, with documents or without."""

    def schema(self, table: Table) -> pa.Schema:
        """Return the columns of a table."""
        if table == "clusters":
            return CLUSTERS
        schema = removed_schema(measured=not self.unmeasured)
        return schema.append(_KEPT_RUN) if self.with_runs else schema


@dataclass(frozen=True)
class RowsWork:
    """Some row groups of a table."""

    evidence: EvidenceTables
    table: Table
    key: str
    """Of the file that they are written to."""
    marks: str
    """Of the marks of their clusters."""
    first: int
    """Number of their first row in the table."""
    last: int
    parts: tuple[tuple[int, int], ...]
    """The parts that have them, and the number of the first row of each in the table."""


@dataclass(frozen=True)
class JoinWork:
    """A table in files."""

    table: Table
    keys: tuple[str, ...]
    """Of its row groups, in order."""


def table_key(table: Table) -> str:
    """Return the key of a table."""
    return f"dedup/{table}.parquet"


def rows_works(evidence: EvidenceTables, table: Table, counts: tuple[int, ...]) -> list[RowsWork]:
    """Cut a table into files of whole row groups; one without rows is one file.

    Args:
        evidence: of all.
        table: which one.
        counts: the documents of each part that would be rows; those of earlier runs have none.
    """
    counts = (*[0] * evidence.earlier, *counts[evidence.earlier :])
    begins = list(accumulate(counts, initial=0))
    found = list[RowsWork]()
    for number, (low, high) in enumerate(pairwise(begins)):
        first, last = (-(-row // EVIDENCE_ROWS) * EVIDENCE_ROWS for row in (low, high))
        last = min(last, begins[-1])
        if first < last:
            has = [n for n in range(number, len(counts)) if begins[n] < last and begins[n + 1] > first]
            name, parts = f"{len(found):05d}", tuple((n, begins[n]) for n in has)
            key, marks = f"dedup/rows/{table}/{name}.parquet", f"{MARKS}/{name}.npy"
            found.append(RowsWork(evidence, table, key, marks, first, last, parts))
    if len(found) > 1:
        return found
    parts = found[0].parts if found else ()
    return [RowsWork(evidence, table, table_key(table), f"{MARKS}/00000.npy", 0, begins[-1], parts)]


def write_rows(workspace: Workspace, work: RowsWork) -> UnitRecord:
    """Write some row groups of a table."""
    evidence = work.evidence
    names = MemberNames(workspace, evidence.firsts, earlier=evidence.earlier)
    write, size = (_removed, READ_ROWS) if work.table == "removed" else (_members, EVIDENCE_ROWS)
    tables = (write(names, rows, evidence) for rows in _rows_of(workspace, work, size))
    write_tables(workspace.create(work.key), evidence.schema(work.table), tables, rows=EVIDENCE_ROWS)
    if work.table == "clusters":
        with array_writer(workspace.create(work.marks), dtype="<u8") as append:
            for rows in _rows_of(workspace, work, size):
                append(cluster_marks(names.clusters(rows.root), rows.witness == KEPT))
    return UnitRecord()


def cluster_marks(clusters: NDArray[np.uint8], kept: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Return of each document half the name of its cluster, and in the last bit whether it goes: (M,).

    Args:
        clusters: (M, 16) names.
        kept: (M,).
    """
    halves: NDArray[np.uint64] = np.ascontiguousarray(clusters).view("<u8")[:, 0] | GONE
    return halves - kept


def join_rows(workspace: Workspace, work: JoinWork) -> UnitRecord:
    """Write a table of files of row groups."""
    join_parquet(workspace.create(table_key(work.table)), [workspace.path(key) for key in work.keys])
    return UnitRecord()


def _rows_of(workspace: Workspace, work: RowsWork, size: int) -> Iterator[DecidedRows]:
    """Yield what is decided of the documents of some rows of a table, some at a time."""
    for part, begin in work.parts:
        decided = read_decided(workspace, part)
        gone = decided.witness != KEPT
        rows = np.flatnonzero(gone) if work.table == "removed" else np.arange(len(gone))
        rows = rows[max(0, work.first - begin) : work.last - begin]
        for start in range(0, len(rows), size):
            yield decided.take(rows[start : start + size])


def _members(names: MemberNames, rows: DecidedRows, evidence: EvidenceTables) -> pa.Table:
    columns = {
        "number": rows.number - evidence.before,
        "id": names.ids(rows.number),
        "cluster": hex_strings(names.clusters(rows.root)),
        "kept": rows.witness == KEPT,
    }
    return pa.table(columns, schema=CLUSTERS)


def _removed(names: MemberNames, rows: DecidedRows, evidence: EvidenceTables) -> pa.Table:
    gone, kept = rows.number, rows.witness
    unmeasured = np.isin(rows.method, evidence.unmeasured)
    columns = {
        "id": names.ids(gone),
        "own_id": names.strings("own_id", gone),
        "source": names.strings("source", gone),
        "kept_id": names.ids(kept),
        "kept_own_id": names.strings("own_id", kept),
        "kept_source": names.strings("source", kept),
        "similarity": pa.array(rows.similarity, mask=unmeasured),
        "method": pa.DictionaryArray.from_arrays(pa.array(rows.method), list(evidence.methods)),
        "cluster": hex_strings(names.clusters(rows.root)),
    }
    if evidence.with_runs:
        columns[KEPT_RUN] = names.strings(RUN, kept)
    return pa.table(columns, schema=evidence.schema("removed"))
