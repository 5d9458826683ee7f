"""Resolve: the last phase of dedup, once and in rank order: who goes, for whom, and the evidence.

What is needed of every document (31 bytes, and 8 of ranks) lies in mapped files, so that the system
holds of it what memory it has to spare; everything else passes by unit or by block of evidence.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.state.ledger import ledger_key, write_flows
from pipeline.steps.dedup.earlier_decisions import MemberNames, take_decisions
from pipeline.steps.dedup.edges import FoundEdges, ranks_of, read_edges
from pipeline.steps.dedup.equal import EXACT, equal_texts
from pipeline.steps.dedup.minhash import NEAR
from pipeline.steps.dedup.sides import write_sides
from pipeline.steps.dedup.unit_groups import UnitGroup, unit_groups
from pipeline.steps.earlier_runs import KEPT_RUN, EarlierRun, earlier_documents, numbered
from pipeline.steps.evidence import EVIDENCE_ROWS, write_tables
from pipeline.steps.names import READ_ROWS
from pipeline.steps.records import UnitRecord
from pipeline.steps.selection import COUNTED, KeptCounts
from pipeline.steps.units import LanguageSize, Unit, hex_strings, row_groups
from stages.columns import CLUSTERS, removed_schema
from stages.dedup.survivors import (
    KEPT,
    Decisions,
    decide,
    final_clusters,
    join_clusters,
    link_repeats,
    undecided,
)
from stages.ledger import Flow
from stages.store.arrays import open_array, write_array
from stages.store.mapped import mapped_zeros

_KEPT_RUN = pa.field(KEPT_RUN, pa.string())


@dataclass(frozen=True)
class Resolution:
    """What resolve works on."""

    units: tuple[Unit, ...]
    partitions: int
    """That digests are cut into."""
    found: tuple[FoundEdges, ...]
    """What methods found, in the order of preference; none without deduplication."""
    ranked: bool = False
    """Whether ranks are an array, and not the numbers of documents."""
    kept: bool = False
    """Whether every document stays, and the masks are written."""
    alike: bool = False
    """Whether equal texts may stay: they belong to one side of the split."""
    earlier: tuple[EarlierRun, ...] = ()
    """Runs whose documents are numbered before those of the units, and outrank them."""

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods by number; those of earlier runs too, since a repeat goes as its text went."""
        names = [one.method for one in self.found]
        before = [method for run in self.earlier for method in run.methods]
        return tuple(dict.fromkeys([*names, EXACT, NEAR, *before]))

    @property
    def every(self) -> list[UnitGroup]:
        """Groups of the units of earlier runs and of this one."""
        return unit_groups((*numbered(self.earlier), *self.units))

    @property
    def groups(self) -> list[UnitGroup]:
        """Groups of the units of this run."""
        return [group for group in self.every if group.first >= earlier_documents(self.earlier)]


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
    total, before = work.units[-1].last if work.units else 0, earlier_documents(work.earlier)
    with workspace.scratch() as scratch:
        decisions = _decided(workspace, work, total, scratch)
        for unit in () if work.kept else work.units:
            kept = decisions.witness[unit.first : unit.last] == KEPT
            write_array(workspace.create(unit.keep_mask), kept)
        clustered = _write_evidence(workspace, work, decisions, scratch)
        counts, clusters = _counted(workspace, work, decisions, clustered)
    write_flows(workspace.create(ledger_key("dedup")), counts.flows)
    ledger = counts.total
    assert ledger.input.documents == total - before, "a unit has other documents than it has"
    return ResolveRecord(
        kept=ledger.output.documents,
        removed={name: tally.documents for name, tally in ledger.gone.items()},
        languages=counts.languages,
        ledger=ledger,
        clusters=clusters.total,
    )


def keep_all(workspace: Workspace, unit: Unit) -> UnitRecord:
    """Keep every document of a unit, before what resolve finds of equal texts is known."""
    write_array(workspace.create(unit.keep_mask), np.ones(unit.documents, np.bool_))
    return UnitRecord()


def _decided(workspace: Workspace, work: Resolution, total: int, scratch: Path) -> Decisions:
    """Decide about all documents, range after range of ranks."""
    ranks = ranks_of(workspace, work.ranked)
    equal = [number for number, found in enumerate(work.found) if found.equal]
    decisions = undecided(total, scratch, equal=equal or [0])
    for sort, number in enumerate(equal):
        for partition in range(work.partitions):
            _link(workspace, decisions, sort, f"{work.found[number].folder}/{partition:05d}.npy")
    take_decisions(workspace, work.earlier, decisions, methods=work.methods, ranks=ranks)
    for group in work.groups:
        edges = read_edges(workspace, work.found, group.number, groups=len(work.every), ranks=ranks)
        decide(decisions, group.first, group.last, edges=edges, ranks=ranks)
    every = (*numbered(work.earlier), *work.units)
    for pairs in equal_texts(workspace, every, partitions=work.partitions) if work.alike else ():
        join_clusters(decisions, pairs, ranks=ranks)
    return decisions


def _link(workspace: Workspace, decisions: Decisions, sort: int, key: str) -> None:
    """Link the repeats of a partition to the best-ranked of their values."""
    repeats: Any = open_array(workspace.path(key), dtype="<i8")
    for start in range(0, len(repeats), READ_ROWS):
        link_repeats(decisions, sort, repeats[start : start + READ_ROWS])


def _counted(
    workspace: Workspace,
    work: Resolution,
    decisions: Decisions,
    clustered: NDArray[np.bool_],
) -> tuple[KeptCounts, KeptCounts]:
    """Return what is kept of all documents, and of those that have a duplicate.

    Args:
        workspace: where the units and their keep masks are.
        work: of all units.
        decisions: about all documents.
        clustered: (N,), of each document whether it has a duplicate.
    """
    every, clusters = KeptCounts(work.units, work.methods), KeptCounts(work.units, ["removed"])
    for unit in work.units:
        member = np.array(clustered[unit.first : unit.last])
        why = np.array(decisions.method[unit.first : unit.last])
        kept = np.load(workspace.path(unit.keep_mask) if work.kept else workspace.create(unit.keep_mask))
        gone = {name: ~kept & (why == number) for number, name in enumerate(work.methods)}
        removed = {"removed": member & ~kept}
        for first, table in row_groups(workspace, unit, COUNTED):
            every.count(unit, first, table, kept=kept, gone=gone)
            clusters.count(unit, first, table, kept=member & kept, gone=removed, before=member)
    return every, clusters


def _write_evidence(
    workspace: Workspace, work: Resolution, decisions: Decisions, scratch: Path
) -> NDArray[np.bool_]:
    """Write removed.parquet and clusters.parquet in canonical order.

    Returns:
        Of each document whether it has a duplicate: (N,) bool, in a mapped file.
    """
    roots = final_clusters(decisions)
    clustered = mapped_zeros(scratch / "clustered", np.bool_, (len(roots),))
    for group in work.every:
        own = roots[group.first : group.last]
        others = own != np.arange(group.first, group.last)
        clustered[group.first : group.last] |= others
        clustered[own[others]] = True
    schema = removed_schema(measured=all(not one.equal or one.method == EXACT for one in work.found))

    def removed(names: MemberNames) -> Iterator[pa.Table]:
        for group in work.groups:
            gone = decisions.witness[group.first : group.last] != KEPT
            for rows in _blocks(np.flatnonzero(gone) + group.first, READ_ROWS):
                removal = _removed(names, rows, decisions, work)
                kept = decisions.witness[rows]
                assert clustered[kept].all(), "a document without a duplicate has no name here"
                yield removal.append_column(_KEPT_RUN, names.runs(kept)) if work.earlier else removal

    def members(names: MemberNames) -> Iterator[pa.Table]:
        for group in work.groups:
            own = np.flatnonzero(clustered[group.first : group.last])
            for rows in _blocks(own + group.first, EVIDENCE_ROWS):
                yield _members(names, rows, decisions, before=earlier_documents(work.earlier))

    names = MemberNames(workspace, work.earlier, units=work.units, clustered=clustered, scratch=scratch)
    schema = schema.append(_KEPT_RUN) if work.earlier else schema
    write_tables(workspace.create("dedup/removed.parquet"), schema, removed(names))
    write_tables(workspace.create("dedup/clusters.parquet"), CLUSTERS, members(names))
    if work.earlier:
        write_sides(workspace, work.earlier, clustered=clustered, roots=roots, names=names)
    return clustered


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
    names: MemberNames, rows: NDArray[np.int64], decisions: Decisions, work: Resolution
) -> pa.Table:
    kept, method = decisions.witness[rows], decisions.method[rows]
    values = [number for number, one in enumerate(work.found) if one.equal and one.method != EXACT]
    return pa.table(
        {
            "id": names.ids(rows),
            "own_id": names.own_ids(rows),
            "source": names.sources(rows),
            "kept_id": names.ids(kept),
            "kept_own_id": names.own_ids(kept),
            "kept_source": names.sources(kept),
            "similarity": pa.array(decisions.similarity[rows], mask=np.isin(method, values)),
            "method": pa.DictionaryArray.from_arrays(pa.array(method), list(work.methods)),
            "cluster": hex_strings(names.clusters(decisions.cluster[rows])),
        },
        schema=removed_schema(measured=not values),
    )
