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

from pipeline.engine.tasks import Workspace
from pipeline.state.ledger import ledger_key, write_flows
from pipeline.steps.dedup.pairs import pairs_key
from pipeline.steps.dedup.pieces import equal_texts, repeats_of
from pipeline.steps.dedup.runs import UnitRun, unit_runs
from pipeline.steps.names import READ_ROWS, Names
from pipeline.steps.records import UnitRecord
from pipeline.steps.units import (
    LanguageSize,
    Unit,
    fixed_bytes,
    hex_strings,
    row_groups,
    tally_of_texts,
)
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
from stages.ledger import Flow, Tally, total_flow
from stages.store.arrays import write_array

EXACT, NEAR = "exact", "minhash"
"""Why a document is gone; `method` in the evidence."""
_NONE = Tally(bytes=0)
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
    kept: bool = False
    """Whether every document stays, and the masks are written."""


class ResolveRecord(UnitRecord):
    """Who stays."""

    kept: int
    removed: dict[str, int]
    """By method."""
    languages: dict[str, LanguageSize]
    ledger: Flow
    clusters: Flow
    """The documents that have a duplicate: kept, and removed."""


def resolve(workspace: Workspace, work: Resolution) -> ResolveRecord:
    """Decide about every document and write keep masks, removals and clusters."""
    total = work.units[-1].last if work.units else 0
    with workspace.scratch() as scratch:
        decisions = undecided(total, scratch)
        for run in unit_runs(work.units):
            _decide_run(workspace, work, run, decisions)
        for pairs in () if work.pieces else equal_texts(workspace, work.units):
            join_clusters(decisions, pairs)
        for unit in () if work.kept else work.units:
            kept = decisions.witness[unit.first : unit.last] == KEPT
            write_array(workspace.create(unit.keep), kept)
        same_text, clustered = _write_evidence(workspace, work, decisions, scratch)
        flows, languages, clusters = _flows(workspace, work, same_text, clustered)
    write_flows(workspace.create(ledger_key("dedup")), flows)
    ledger = total_flow(flows.values()) or Flow(input=Tally(), output=Tally())
    assert ledger.input.documents == total, "a unit has other documents than it was counted with"
    return ResolveRecord(
        kept=ledger.output.documents,
        removed={name: tally.documents for name, tally in ledger.gone.items()},
        languages=languages,
        ledger=ledger,
        clusters=clusters,
    )


def keep_all(workspace: Workspace, unit: Unit) -> UnitRecord:
    """Keep every document of a unit, before what resolve finds of equal texts is known."""
    write_array(workspace.create(unit.keep), np.ones(unit.documents, np.bool_))
    return UnitRecord()


def _decide_run(workspace: Workspace, work: Resolution, run: UnitRun, decisions: Decisions) -> None:
    """Decide about the documents of a run of units."""
    edges, similarities = np.empty((0, 2), np.int64), np.empty(0)
    if work.near:
        folder = workspace.path(pairs_key(run.number))
        edges = np.load(folder / "edges.npy")
        similarities = np.load(folder / "similarity.npy")
    repeats = repeats_of(workspace, run.first, run.last, pieces=work.pieces)
    decide(decisions, repeats, edges, similarities=similarities)


def _flows(
    workspace: Workspace,
    work: Resolution,
    same_text: NDArray[np.bool_],
    clustered: NDArray[np.bool_],
) -> tuple[dict[str, Flow], dict[str, LanguageSize], Flow]:
    """Return the flow of each unit, what is kept of each language, and the documents of all clusters.

    Args:
        workspace: where the units and their keep masks are.
        work: of all units.
        same_text: (N,), of each document whether it went as an exact duplicate.
        clustered: (N,), of each document whether it has a duplicate.
    """
    flows: dict[str, Flow] = {}
    stays, goes = _NONE, _NONE
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for unit in work.units:
        same, members = (np.array(mask[unit.first : unit.last]) for mask in (same_text, clustered))
        place = workspace.path(unit.keep) if work.kept else workspace.create(unit.keep)
        keep = np.load(place)
        flow = Flow(input=_NONE, output=_NONE, gone={EXACT: _NONE, NEAR: _NONE})
        for first, table in row_groups(workspace, unit, ["id", "language", "text_bytes"]):
            rows = slice(first - unit.first, first - unit.first + table.num_rows)
            stay, exact, member = keep[rows], same[rows], members[rows]
            kept = table.filter(pa.array(stay))
            gone = {EXACT: exact, NEAR: ~stay & ~exact}
            flow += Flow(
                input=tally_of_texts(table),
                output=tally_of_texts(kept),
                gone={why: tally_of_texts(table.filter(pa.array(rows))) for why, rows in gone.items()},
            )
            stays += tally_of_texts(table.filter(pa.array(member & stay)))
            goes += tally_of_texts(table.filter(pa.array(member & ~stay)))
            grouped = kept.group_by("language").aggregate([("text_bytes", "sum"), ([], "count_all")])
            for row in grouped.to_pylist():
                counts[row["language"]][0] += row["count_all"]
                counts[row["language"]][1] += row["text_bytes_sum"]
        flows[unit.commit_name] = flow
    languages = {name: LanguageSize(documents=n, bytes=b) for name, (n, b) in sorted(counts.items())}
    return flows, languages, Flow(input=stays + goes, output=stays, gone={"removed": goes})


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


def _write_evidence(
    workspace: Workspace, work: Resolution, decisions: Decisions, scratch: Path
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Write removed.parquet and clusters.parquet in canonical order.

    Returns:
        Of each document whether it went as an exact duplicate, and whether it has a duplicate: (N,) bool
        each, in mapped files.
    """
    roots = settle_clusters(decisions)
    clustered = _mapped(scratch / "clustered", np.bool_, len(roots))
    for run in unit_runs(work.units):
        own = roots[run.first : run.last]
        others = own != np.arange(run.first, run.last)
        clustered[run.first : run.last] |= others
        clustered[own[others]] = True
    same_text: NDArray[np.bool_] = _mapped(scratch / "same-text", np.bool_, len(roots))

    def removed(names: _Names) -> Iterator[pa.Table]:
        for run in unit_runs(work.units):
            repeats = repeats_of(workspace, run.first, run.last, pieces=work.pieces)
            exact = repeats[decisions.witness[repeats[:, 0]] == repeats[:, 1], 0]
            same_text[exact] = True
            gone = decisions.witness[run.first : run.last] != KEPT
            for rows in _blocks(np.flatnonzero(gone) + run.first, READ_ROWS):
                yield _removed(names, rows, decisions, same_text[rows])

    def members(names: _Names) -> Iterator[pa.Table]:
        for run in unit_runs(work.units):
            own = np.flatnonzero(clustered[run.first : run.last])
            for rows in _blocks(own + run.first, EVIDENCE_ROWS):
                yield _members(names, rows, decisions)

    names = _Names(workspace, work.units, clustered, scratch)
    _write_table(workspace.create("dedup/removed.parquet"), REMOVED, removed(names))
    _write_table(workspace.create("dedup/clusters.parquet"), CLUSTERS, members(names))
    return same_text, clustered


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
    """Return an array of zeros in a mapped file."""
    if not length:
        return np.zeros(0, kind)
    return np.memmap(path, kind, "w+", shape=(length,)).view(np.ndarray)


def _blocks(rows: NDArray[np.int64], size: int) -> Iterator[NDArray[np.int64]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _removed(
    names: _Names, rows: NDArray[np.int64], decisions: Decisions, same_text: NDArray[np.bool_]
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
            "method": pa.DictionaryArray.from_arrays(pa.array(np.where(same_text, 0, 1)), [EXACT, NEAR]),
            "cluster": names.ids(decisions.cluster[rows]),
        },
        schema=REMOVED,
    )
