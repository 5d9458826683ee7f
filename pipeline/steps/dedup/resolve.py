"""Resolve: the last phase of dedup, once and in rank order: who goes, for whom, and the evidence.

What is needed of every document (26 bytes) lies in mapped files of the task's folder, so that the system
holds of it what memory it has to spare; everything else passes by unit or by block of evidence.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.state.ledger import ledger_key, write_flows
from pipeline.steps.dedup.earlier import MemberNames, mapped, take_decisions, write_sides
from pipeline.steps.dedup.pairs import pairs_key
from pipeline.steps.dedup.pieces import equal_texts, repeats_of
from pipeline.steps.dedup.runs import UnitRun, unit_runs
from pipeline.steps.earlier import KEPT_RUN, EarlierRun, earlier_documents, numbered
from pipeline.steps.names import READ_ROWS
from pipeline.steps.records import UnitRecord
from pipeline.steps.units import (
    LanguageSize,
    Unit,
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
    earlier: tuple[EarlierRun, ...] = ()
    """Runs whose documents are numbered before those of the units, and outrank them."""

    @property
    def runs(self) -> list[UnitRun]:
        """Runs of the units, numbered behind those of earlier runs."""
        before = earlier_documents(self.earlier)
        return [run for run in unit_runs((*numbered(self.earlier), *self.units)) if run.first >= before]


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
    before = earlier_documents(work.earlier)
    with workspace.scratch() as scratch:
        decisions = undecided(total, scratch)
        same_text: NDArray[np.bool_] = mapped(scratch / "same-text", np.bool_, total)
        take_decisions(workspace, work.earlier, decisions, same_text=same_text)
        for run in work.runs:
            _decide_run(workspace, work, run, decisions)
        for pairs in () if work.pieces else equal_texts(workspace, work.units):
            join_clusters(decisions, pairs)
        for unit in () if work.kept else work.units:
            kept = decisions.witness[unit.first : unit.last] == KEPT
            write_array(workspace.create(unit.keep), kept)
        clustered = _write_evidence(workspace, work, decisions, same_text=same_text, scratch=scratch)
        flows, languages, clusters = _flows(workspace, work, same_text, clustered)
    write_flows(workspace.create(ledger_key("dedup")), flows)
    ledger = total_flow(flows.values()) or Flow(input=Tally(), output=Tally())
    assert ledger.input.documents == total - before, (
        "a unit has other documents than it was counted with"
    )
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


def _write_evidence(
    workspace: Workspace,
    work: Resolution,
    decisions: Decisions,
    *,
    same_text: NDArray[np.bool_],
    scratch: Path,
) -> NDArray[np.bool_]:
    """Write removed.parquet and clusters.parquet in canonical order.

    Args:
        workspace: where the units are.
        work: of all units.
        decisions: about all documents.
        same_text: (N,) of each whether it went as an exact duplicate; filled in place.
        scratch: a folder for mapped files.

    Returns:
        Of each document whether it has a duplicate: (N,) bool, in a mapped file.
    """
    before = earlier_documents(work.earlier)
    roots = settle_clusters(decisions)
    clustered = mapped(scratch / "clustered", np.bool_, len(roots))
    for run in unit_runs((*numbered(work.earlier), *work.units)):
        own = roots[run.first : run.last]
        others = own != np.arange(run.first, run.last)
        clustered[run.first : run.last] |= others
        clustered[own[others]] = True

    def removed(names: MemberNames) -> Iterator[pa.Table]:
        for run in work.runs:
            repeats = repeats_of(workspace, run.first, run.last, pieces=work.pieces)
            named = repeats[decisions.witness[repeats[:, 0]] == repeats[:, 1]]
            stays = decisions.witness[named[:, 1]] == KEPT  # if not, an earlier run removed it
            same_text[named[:, 0]] = stays | same_text[named[:, 1]]
            gone = decisions.witness[run.first : run.last] != KEPT
            for rows in _blocks(np.flatnonzero(gone) + run.first, READ_ROWS):
                removal = _removed(names, rows, decisions, same_text[rows])
                yield _with_runs(removal, names, decisions.witness[rows]) if work.earlier else removal

    def members(names: MemberNames) -> Iterator[pa.Table]:
        for run in work.runs:
            own = np.flatnonzero(clustered[run.first : run.last])
            for rows in _blocks(own + run.first, EVIDENCE_ROWS):
                yield _members(names, rows, decisions, before=before)

    names = MemberNames(workspace, work.earlier, units=work.units, clustered=clustered, scratch=scratch)
    schema = REMOVED.append(pa.field(KEPT_RUN, pa.string())) if work.earlier else REMOVED
    _write_table(workspace.create("dedup/removed.parquet"), schema, removed(names))
    _write_table(workspace.create("dedup/clusters.parquet"), CLUSTERS, members(names))
    if work.earlier:
        write_sides(workspace, work.earlier, clustered=clustered, roots=roots, names=names)
    return clustered


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


def _with_runs(removal: pa.Table, names: MemberNames, kept: NDArray[np.int32]) -> pa.Table:
    """Return removals with the earlier run of each kept document; null if it is of this run."""
    return removal.append_column(pa.field(KEPT_RUN, pa.string()), names.runs(kept))


def _members(
    names: MemberNames, rows: NDArray[np.int64], decisions: Decisions, *, before: int
) -> pa.Table:
    columns = {
        "number": rows - before,
        "id": names.ids(rows),
        "cluster": hex_strings(names.clusters(decisions.cluster[rows])),
        "kept": decisions.witness[rows] == KEPT,
    }
    return pa.table(columns, schema=CLUSTERS)


def _blocks(rows: NDArray[np.int64], size: int) -> Iterator[NDArray[np.int64]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _removed(
    names: MemberNames, rows: NDArray[np.int64], decisions: Decisions, same_text: NDArray[np.bool_]
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
            "cluster": hex_strings(names.clusters(decisions.cluster[rows])),
        },
        schema=REMOVED,
    )
