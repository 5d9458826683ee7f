"""Resolve: the last phase of dedup, once and in rank order: who goes, for whom, and the evidence.

Holds 16 bytes a document for the decisions, 16 for each exact repeat and, while evidence is written,
about 15 more a document for masks and numbers; everything else passes by unit.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.steps.dedup import exact_key, pairs_key
from pipeline.steps.units import Unit, fixed_bytes
from pipeline.tasks import Workspace
from stages.columns import CLUSTERS, REMOVED
from stages.dedup.survivors import KEPT, Decisions, cluster_roots, decide, undecided
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
    decisions = undecided(total)
    repeats = [np.load(workspace.path(exact_key(piece))) for piece in range(work.pieces)]
    exact = np.concatenate([np.empty((0, 2), np.int64), *repeats])
    exact = exact[np.argsort(exact[:, 0], kind="stable")]
    for unit in work.units:
        _decide_unit(workspace, work, unit, decisions, exact)
    kept = decisions.witness == KEPT
    for unit in work.units:
        write_array(workspace.create(unit.keep), kept[unit.first : unit.last])
    same_text = exact[decisions.witness[exact[:, 0]] == exact[:, 1], 0]
    _write_evidence(workspace, work.units, decisions, same_text)
    removed = int(np.count_nonzero(~kept))
    return {
        "kept": total - removed,
        "removed": {"exact": len(same_text), "minhash": removed - len(same_text)},
        "languages": _languages(workspace, work.units, kept),
    }


def _decide_unit(
    workspace: Workspace,
    work: Resolution,
    unit: Unit,
    decisions: Decisions,
    exact: NDArray[np.int64],
) -> None:
    edges, similarities = np.empty((0, 2), np.int64), np.empty(0)
    if work.near:
        folder = workspace.path(pairs_key(unit))
        edges = np.load(folder / "edges.npy")
        similarities = np.load(folder / "similarity.npy")
    low, high = np.searchsorted(exact[:, 0], (unit.first, unit.last))
    decide(decisions, exact[low:high], edges, similarities=similarities)


def _languages(
    workspace: Workspace, units: Sequence[Unit], kept: NDArray[np.bool_]
) -> dict[str, dict[str, int]]:
    """Give the kept documents and bytes of each language."""
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for unit in units:
        table = pq.read_table(workspace.path(unit.table), columns=["language", "text_bytes"])
        table = table.filter(pa.array(kept[unit.first : unit.last]))
        grouped = table.group_by("language").aggregate([("text_bytes", "sum"), ([], "count_all")])
        for row in grouped.to_pylist():
            counts[row["language"]][0] += row["count_all"]
            counts[row["language"]][1] += row["text_bytes_sum"]
    return {name: {"documents": n, "bytes": b} for name, (n, b) in sorted(counts.items())}


class _Names:
    """Ids, own ids and sources of some documents, by number.

    Args:
        workspace: where the units are.
        units: all units.
        numbers: (N,) ascending and distinct.
    """

    def __init__(self, workspace: Workspace, units: Sequence[Unit], numbers: NDArray[np.int64]) -> None:
        self._numbers = numbers
        self._path = workspace.create("names.arrow")
        schema = pa.schema([("id", pa.string()), ("own_id", pa.string()), ("source", pa.string())])
        with pa.OSFile(str(self._path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for unit in units:
                low, high = np.searchsorted(numbers, (unit.first, unit.last))
                if low < high:
                    rows = pa.array(numbers[low:high] - unit.first)
                    writer.write_table(_names_of(workspace, unit, schema).take(rows))

    def __enter__(self) -> Self:
        self._table = pa.ipc.open_file(pa.memory_map(str(self._path))).read_all()
        return self

    def __exit__(self, *_: object) -> None:
        del self._table
        self._path.unlink()

    def take(self, numbers: NDArray[np.int64]) -> pa.Table:
        """Give the names of some of the documents."""
        return self._table.take(pa.array(np.searchsorted(self._numbers, numbers)))


def _names_of(workspace: Workspace, unit: Unit, schema: pa.Schema) -> pa.Table:
    table = pq.read_table(workspace.path(unit.table), columns=["id", "own_id"])
    ids = [row.tobytes().hex() for row in fixed_bytes(table.column("id"), ID_BYTES)]
    columns = {
        "id": ids,
        "own_id": table.column("own_id"),
        "source": [unit.source] * len(ids),
    }
    return pa.table(columns, schema=schema)


def _write_evidence(
    workspace: Workspace,
    units: Sequence[Unit],
    decisions: Decisions,
    same_text: NDArray[np.int64],
) -> None:
    """Write removed.parquet and clusters.parquet, in canonical order."""
    roots = cluster_roots(decisions)
    numbers = np.arange(len(roots))
    clustered = np.zeros(len(roots), np.bool_)
    clustered[roots[roots != numbers]] = True
    clustered |= roots != numbers
    members = np.flatnonzero(clustered)
    gone = np.flatnonzero(decisions.witness != KEPT)
    with _Names(workspace, units, members) as names:
        with pq.ParquetWriter(
            workspace.create("dedup/removed.parquet"), REMOVED, compression="zstd"
        ) as writer:
            for rows in _blocks(gone):
                writer.write_table(_removed(names, rows, decisions, roots, same_text))
        with pq.ParquetWriter(
            workspace.create("dedup/clusters.parquet"), CLUSTERS, compression="zstd"
        ) as writer:
            for rows in _blocks(members):
                columns = {
                    "number": rows,
                    "id": names.take(rows).column("id"),
                    "cluster": names.take(roots[rows].astype(np.int64)).column("id"),
                    "kept": decisions.witness[rows] == KEPT,
                }
                writer.write_table(pa.table(columns, schema=CLUSTERS))


def _blocks(rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    for start in range(0, len(rows), EVIDENCE_ROWS):
        yield rows[start : start + EVIDENCE_ROWS]


def _removed(
    names: _Names,
    rows: NDArray[np.int64],
    decisions: Decisions,
    roots: NDArray[np.int32],
    same_text: NDArray[np.int64],
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
            "cluster": names.take(roots[rows].astype(np.int64)).column("id"),
        },
        schema=REMOVED,
    )
