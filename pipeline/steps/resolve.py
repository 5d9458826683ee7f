"""Resolve: the last phase of dedup, once and in rank order: who goes, for whom, and the evidence.

What is needed of every document (26 bytes) lies in mapped files of the task's folder, so that the system
holds of it what memory it has to spare; everything else passes by unit or by block of evidence.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.steps.dedup import repeats_of
from pipeline.steps.names import READ_ROWS, Names
from pipeline.steps.pairs import pairs_key, unit_runs
from pipeline.steps.units import Unit, fixed_bytes, hex_strings, row_groups
from pipeline.tasks import Workspace
from stages.columns import CLUSTERS, REMOVED
from stages.dedup.survivors import KEPT, Decisions, decide, settle_clusters, undecided
from stages.identity import ID_BYTES
from stages.store.arrays import write_array

EVIDENCE_ROWS = 1 << 16
"""Rows of evidence that are written together."""
EVIDENCE_BYTES = 64 << 20
"""Bytes of evidence that are written together: more than those rows have, unless own ids are long."""


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
        kept = np.load(workspace.create(unit.keep))
        for first, table in row_groups(workspace, unit, ["language", "text_bytes"]):
            start = first - unit.first
            table = table.filter(pa.array(kept[start : start + table.num_rows]))  # noqa: PLW2901
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
        self._row = _mapped(scratch / "row", np.int32, len(clustered))
        count = int(np.count_nonzero(clustered))
        self._id = _mapped(scratch / "id", np.uint8, ID_BYTES * count).reshape(-1, ID_BYTES)
        self._source = _mapped(scratch / "source", np.int32, count)
        self._sources = sorted({unit.source for unit in units})
        self._own = Names(scratch / "names", ["own_id"])
        rows = 0
        for unit in units:
            for first, table in row_groups(workspace, unit, ["id", "own_id"]):
                members = np.flatnonzero(clustered[first : first + table.num_rows])
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
            for rows in _blocks(np.flatnonzero(gone) + unit.first, READ_ROWS):
                yield _removed(names, rows, decisions, exact)

    def members(names: _Names) -> Iterator[pa.Table]:
        for unit in work.units:
            own = np.flatnonzero(clustered[unit.first : unit.last])
            for rows in _blocks(own + unit.first, EVIDENCE_ROWS):
                yield _members(names, rows, decisions)

    names = _Names(workspace, work.units, clustered, scratch)
    _write_table(workspace.create("dedup/removed.parquet"), REMOVED, removed(names))
    _write_table(workspace.create("dedup/clusters.parquet"), CLUSTERS, members(names))
    return same_text


def _write_table(path: Path, schema: pa.Schema, parts: Iterator[pa.Table]) -> None:
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


def _members(names: _Names, rows: NDArray[np.int64], decisions: Decisions) -> pa.Table:
    columns = {
        "number": rows,
        "id": names.ids(rows),
        "cluster": names.ids(decisions.cluster[rows]),
        "kept": decisions.witness[rows] == KEPT,
    }
    return pa.table(columns, schema=CLUSTERS)


def _mapped(path: Path, kind: type[np.generic], length: int) -> NDArray[Any]:
    """Give an array of zeros in a mapped file."""
    if not length:
        return np.zeros(0, kind)
    return np.memmap(path, kind, "w+", shape=(length,)).view(np.ndarray)


def _blocks(rows: NDArray[np.int64], size: int) -> Iterator[NDArray[np.int64]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _removed(
    names: _Names, rows: NDArray[np.int64], decisions: Decisions, same_text: NDArray[np.int64]
) -> pa.Table:
    kept = decisions.witness[rows]
    return pa.table(
        {
            "id": names.ids(rows),
            "own_id": names.own_ids(rows),
            "source": names.sources(rows),
            "kept_id": names.ids(kept),
            "kept_own_id": names.own_ids(kept),
            "kept_source": names.sources(kept),
            "similarity": decisions.similarity[rows],
            "method": np.where(np.isin(rows, same_text), "exact", "minhash").astype(object),
            "cluster": names.ids(decisions.cluster[rows]),
        },
        schema=REMOVED,
    )
