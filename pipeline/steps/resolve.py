"""Resolve: the last phase of dedup, once and in rank order: who goes, for whom, and the evidence.

What is needed of every document (26 bytes) lies in mapped files of the task's folder, so that the system
holds of it what memory it has to spare; everything else passes by unit or by block of evidence.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.steps.dedup import equal_texts, repeats_of
from pipeline.steps.pairs import pairs_key, unit_runs
from pipeline.steps.units import Unit, fixed_bytes, hex_strings
from pipeline.tasks import Workspace
from stages.columns import CLUSTERS, REMOVED
from stages.dedup.survivors import (
    KEPT,
    Decisions,
    decide,
    join_clusters,
    settle_clusters,
    undecided,
)
from stages.identity import ID_BYTES
from stages.store.arrays import write_array

EVIDENCE_ROWS = 1 << 16
"""Rows of evidence that are looked up and written together."""


@dataclass(frozen=True)
class Resolution:
    """What resolve works on."""

    units: tuple[Unit, ...]
    pieces: int
    """Pieces of the exact phase; 0 without deduplication."""
    near: bool


def resolve(workspace: Workspace, work: Resolution) -> dict[str, Any]:
    """Decide about every document and write keep masks, removals and clusters."""
    total = work.units[-1].last if work.units else 0
    with workspace.scratch() as scratch:
        decisions = undecided(total, scratch)
        for number, (start, end) in enumerate(unit_runs(work.units)):
            _decide_run(workspace, work, number, work.units[start:end], decisions)
        for pairs in () if work.pieces else equal_texts(workspace, work.units):
            join_clusters(decisions, pairs)
        removed = 0
        for unit in work.units:
            kept = decisions.witness[unit.first : unit.last] == KEPT
            write_array(workspace.create(unit.keep), kept)
            removed += int(np.count_nonzero(~kept))
        same_text = _write_evidence(workspace, work, decisions, scratch)
    return {
        "kept": total - removed,
        "removed": {"exact": same_text, "minhash": removed - same_text},
        "languages": _languages(workspace, work.units),
    }


def _decide_run(
    workspace: Workspace, work: Resolution, number: int, run: Sequence[Unit], decisions: Decisions
) -> None:
    """Decide about the documents of a run of units."""
    edges, similarities = np.empty((0, 2), np.int64), np.empty(0)
    if work.near:
        folder = workspace.path(pairs_key(number))
        edges = np.load(folder / "edges.npy")
        similarities = np.load(folder / "similarity.npy")
    repeats = [repeats_of(workspace, unit, work.pieces) for unit in run]
    decide(decisions, np.concatenate(repeats), edges, similarities=similarities)


def _languages(workspace: Workspace, units: Sequence[Unit]) -> dict[str, dict[str, int]]:
    """Give the kept documents and bytes of each language."""
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for unit in units:
        table = pq.read_table(workspace.path(unit.table), columns=["language", "text_bytes"])
        table = table.filter(pa.array(np.load(workspace.create(unit.keep))))
        grouped = table.group_by("language").aggregate([("text_bytes", "sum"), ([], "count_all")])
        for row in grouped.to_pylist():
            counts[row["language"]][0] += row["count_all"]
            counts[row["language"]][1] += row["text_bytes_sum"]
    return {name: {"documents": n, "bytes": b} for name, (n, b) in sorted(counts.items())}


class _Names:
    """Ids, own ids and sources of the documents that have a duplicate, by number.

    Args:
        workspace: where the units are.
        units: all units.
        clustered: (N,) whether a document has a duplicate.
        scratch: a folder for the names and for each document's row among them.
    """

    def __init__(
        self, workspace: Workspace, units: Sequence[Unit], clustered: NDArray[np.bool_], scratch: Path
    ) -> None:
        self._path = scratch / "names.arrow"
        self._row = _mapped(scratch / "row", np.int32, len(clustered))
        schema = pa.schema([("id", pa.string()), ("own_id", pa.string()), ("source", pa.string())])
        rows = 0
        with pa.OSFile(str(self._path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for unit in units:
                members = np.flatnonzero(clustered[unit.first : unit.last])
                if len(members):
                    self._row[unit.first + members] = np.arange(rows, rows + len(members))
                    writer.write_table(_names_of(workspace, unit, schema).take(pa.array(members)))
                    rows += len(members)

    def __enter__(self) -> Self:
        self._table = pa.ipc.open_file(pa.memory_map(str(self._path))).read_all()
        return self

    def __exit__(self, *_: object) -> None:
        del self._table

    def take(self, numbers: NDArray[np.int64]) -> pa.Table:
        """Give the names of some of the documents."""
        return self._table.take(pa.array(self._row[numbers]))


def _names_of(workspace: Workspace, unit: Unit, schema: pa.Schema) -> pa.Table:
    table = pq.read_table(workspace.path(unit.table), columns=["id", "own_id"])
    ids = hex_strings(fixed_bytes(table.column("id"), ID_BYTES))
    columns = {
        "id": ids,
        "own_id": table.column("own_id"),
        "source": [unit.source] * len(ids),
    }
    return pa.table(columns, schema=schema)


def _write_evidence(workspace: Workspace, work: Resolution, decisions: Decisions, scratch: Path) -> int:
    """Write removed.parquet and clusters.parquet in canonical order; give the exact removals."""
    roots = settle_clusters(decisions)
    clustered = _mapped(scratch / "clustered", np.bool_, len(roots))
    for unit in work.units:
        own = roots[unit.first : unit.last]
        others = own != np.arange(unit.first, unit.last)
        clustered[unit.first : unit.last] |= others
        clustered[own[others]] = True
    same_text = 0

    def removed(names: _Names) -> Iterator[pa.Table]:
        nonlocal same_text
        for unit in work.units:
            repeats = repeats_of(workspace, unit, work.pieces)
            exact = repeats[decisions.witness[repeats[:, 0]] == repeats[:, 1], 0]
            same_text += len(exact)
            gone = decisions.witness[unit.first : unit.last] != KEPT
            for rows in _blocks(np.flatnonzero(gone) + unit.first):
                yield _removed(names, rows, decisions, exact)

    def members(names: _Names) -> Iterator[pa.Table]:
        for unit in work.units:
            for rows in _blocks(np.flatnonzero(clustered[unit.first : unit.last]) + unit.first):
                yield _members(names, rows, decisions)

    with _Names(workspace, work.units, clustered, scratch) as names:
        _write_table(workspace.create("dedup/removed.parquet"), REMOVED, removed(names))
        _write_table(workspace.create("dedup/clusters.parquet"), CLUSTERS, members(names))
    return same_text


def _write_table(path: Path, schema: pa.Schema, parts: Iterator[pa.Table]) -> None:
    """Write tables end to end, in row groups that do not show where one ended."""
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        held = schema.empty_table()
        for part in parts:
            held = pa.concat_tables([held, part])
            while held.num_rows >= EVIDENCE_ROWS:
                writer.write_table(held.slice(0, EVIDENCE_ROWS).combine_chunks())
                held = held.slice(EVIDENCE_ROWS)
        if held.num_rows:
            writer.write_table(held.combine_chunks())


def _members(names: _Names, rows: NDArray[np.int64], decisions: Decisions) -> pa.Table:
    columns = {
        "number": rows,
        "id": names.take(rows).column("id"),
        "cluster": names.take(decisions.cluster[rows].astype(np.int64)).column("id"),
        "kept": decisions.witness[rows] == KEPT,
    }
    return pa.table(columns, schema=CLUSTERS)


def _mapped(path: Path, kind: type[np.generic], length: int) -> NDArray[Any]:
    """Give an array of zeros in a mapped file."""
    if not length:
        return np.zeros(0, kind)
    return np.memmap(path, kind, "w+", shape=(length,)).view(np.ndarray)


def _blocks(rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    for start in range(0, len(rows), EVIDENCE_ROWS):
        yield rows[start : start + EVIDENCE_ROWS]


def _removed(
    names: _Names, rows: NDArray[np.int64], decisions: Decisions, same_text: NDArray[np.int64]
) -> pa.Table:
    gone, kept = names.take(rows), names.take(decisions.witness[rows].astype(np.int64))
    return pa.table(
        {
            "id": gone.column("id"),
            "own_id": gone.column("own_id"),
            "source": gone.column("source"),
            "kept_id": kept.column("id"),
            "kept_own_id": kept.column("own_id"),
            "kept_source": kept.column("source"),
            "similarity": decisions.similarity[rows],
            "method": np.where(np.isin(rows, same_text), "exact", "minhash").astype(object),
            "cluster": names.take(decisions.cluster[rows].astype(np.int64)).column("id"),
        },
        schema=REMOVED,
    )
