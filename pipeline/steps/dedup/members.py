"""Members: of each part of what is decided, keep masks, counts, and the names of its documents.

A task reads what resolve has decided of one part, and the documents of its units.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.dedup.decided_parts import DecidedPart, DecidedRows, read_decided
from pipeline.steps.dedup.earlier_decisions import earlier_names
from pipeline.steps.dedup.member_names import NamedRows, write_names
from pipeline.steps.earlier_runs import EarlierRun
from pipeline.steps.selection import COUNTED, KeptCounts, SelectedRecord
from pipeline.steps.units import Unit, fixed_bytes, kept_mask, row_groups
from stages.dedup.survivors import KEPT
from stages.identity import ID_BYTES
from stages.ledger import Flow
from stages.store.arrays import write_array


@dataclass(frozen=True)
class MembersWork:
    """A part of what is decided."""

    part: DecidedPart
    methods: tuple[str, ...]
    """By number."""
    kept: bool = False
    """Whether every document stays, and the masks are written."""


class MembersRecord(SelectedRecord):
    """What is kept of a part; nothing is counted of an earlier run."""

    clusters: Flow | None = None
    """Its documents that have a duplicate: kept, and removed."""


@dataclass(frozen=True)
class _UnitMarks:
    """What is decided of all N documents of a unit."""

    member: NDArray[np.bool_]
    """Whether each has a duplicate."""
    kept: NDArray[np.bool_]
    method: NDArray[np.uint8]
    """Why each goes, if it does."""


def describe_members(workspace: Workspace, work: MembersWork) -> MembersRecord:
    """Write the keep masks of a part, count its documents, and name those that have a duplicate."""
    part, decided = work.part, read_decided(workspace, work.part.number)
    if part.earlier is not None:
        names = _earlier_members(workspace, part.earlier, decided.number - part.first)
        write_names(workspace, part.number, names, earlier=True)
        return MembersRecord(flows={}, languages={})
    every, clusters = KeptCounts(part.units, work.methods), KeptCounts(part.units, ["removed"])

    def members() -> Iterator[NamedRows]:
        for unit in part.units:
            marks = _marks_of(workspace, work, unit, decided)
            gone = {
                name: ~marks.kept & (marks.method == number) for number, name in enumerate(work.methods)
            }
            removed = {"removed": marks.member & ~marks.kept}
            kept = marks.member & marks.kept
            named = marks.member.any()
            for first, table in row_groups(workspace, unit, [*COUNTED, *(["own_id"] if named else [])]):
                every.count(unit, first, table, kept=marks.kept, gone=gone)
                clusters.count(unit, first, table, kept=kept, gone=removed, before=marks.member)
                if named:
                    yield _named(unit, table, marks.member[first - unit.first :][: table.num_rows])

    write_names(workspace, part.number, members(), earlier=False)
    return MembersRecord(flows=every.flows, languages=every.languages, clusters=clusters.total)


def _marks_of(workspace: Workspace, work: MembersWork, unit: Unit, decided: DecidedRows) -> _UnitMarks:
    """Return what is decided of a unit, and write its keep mask unless all are kept."""
    rows = decided.take(slice(*np.searchsorted(decided.number, (unit.first, unit.last))))
    places = rows.number - unit.first
    member, kept = np.zeros(unit.documents, np.bool_), np.ones(unit.documents, np.bool_)
    method = np.zeros(unit.documents, np.uint8)
    member[places], kept[places], method[places] = True, rows.witness == KEPT, rows.method
    if work.kept:
        kept = kept_mask(workspace, unit)
    else:
        write_array(workspace.create(unit.keep_mask), kept)
    return _UnitMarks(member, kept, method)


def _named(unit: Unit, table: pa.Table, member: NDArray[np.bool_]) -> NamedRows:
    """Return the names of those documents of a row group that have a duplicate."""
    rows = np.flatnonzero(member)
    sources = pa.array([unit.source], pa.string()).take(pa.array(np.zeros(len(rows), np.int64)))
    return NamedRows(
        fixed_bytes(table.column("id"), ID_BYTES)[rows],
        {
            "own_id": table.column("own_id").take(pa.array(rows)),
            "source": pa.chunked_array([sources]),
        },
    )


def _earlier_members(
    workspace: Workspace, run: EarlierRun, numbers: NDArray[np.int64]
) -> Iterator[NamedRows]:
    """Yield the names of some documents of an earlier run, by their numbers there."""
    wanted = np.zeros(run.documents, np.bool_)
    wanted[numbers] = True
    for names in earlier_names(workspace, run, wanted):
        columns = {"own_id": names.own_ids, "source": names.sources, "run": names.runs}
        strings = {name: pa.chunked_array([pa.array(one, pa.string())]) for name, one in columns.items()}
        yield NamedRows(names.ids, strings, names.clusters)
