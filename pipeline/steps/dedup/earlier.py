"""What earlier runs decided, as the last phase of dedup takes it: decisions, names and sides.

    kept earlier     a document of this run may go for it
    removed earlier  counts for nothing, but a repeat of its text goes for the document it went for

Earlier documents are numbered before all of this run. One that is removed has itself as its witness:
what stands in the table of its own run is read when the evidence is written.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.earlier import KEPT_RUN, EarlierRun, held_out_before, removed_before
from pipeline.steps.evidence import mapped_zeros
from pipeline.steps.names import Names
from pipeline.steps.units import (
    NAME,
    Unit,
    clusters_of,
    fixed_array,
    fixed_bytes,
    from_hex,
    hex_strings,
    kept_mask,
    row_groups,
)
from stages.dedup.survivors import KEPT, Decisions, Ranks, keep_first
from stages.identity import ID_BYTES

_WHY = ("similarity", "method")
_KEPT = ("kept_id", "kept_own_id", "kept_source", KEPT_RUN)
SIDES = "dedup/sides.parquet"
_SIDES = pa.schema(
    [
        pa.field("cluster", pa.binary(ID_BYTES), nullable=False),
        pa.field("held_out", pa.bool_(), nullable=False),
    ]
)
_BLOCK = 1 << 20
"""Documents that are looked at together."""


def take_decisions(
    workspace: Workspace,
    runs: Sequence[EarlierRun],
    decisions: Decisions,
    *,
    methods: Sequence[str],
    ranks: Ranks,
) -> None:
    """Fill in, in place, what earlier runs decided about their documents.

    Args:
        workspace: of this run.
        runs: in the order of their documents.
        decisions: of all documents, with repeats linked.
        methods: by number.
        ranks: of all documents.
    """
    first, known = 0, pa.array(methods)
    for run in runs:
        removed = 0
        for unit in run.units:
            mask = kept_mask(workspace, unit)
            for rows, table in removed_before(workspace, unit, _WHY, mask=mask, before=removed):
                numbers, method = first + unit.first + rows, table.column("method")
                for taken in (decisions, decisions.texts):
                    taken.witness[numbers] = numbers
                    taken.similarity[numbers] = table.column("similarity").to_numpy()
                    taken.method[numbers] = pc.index_in(method, known).to_numpy()
            removed += int(np.count_nonzero(~mask))
        first += run.documents
    for start in range(0, first, _BLOCK):
        block = ranks.at(np.arange(start, min(start + _BLOCK, first)))
        keep_first(decisions, block[decisions.witness[block] == KEPT])


@dataclass(frozen=True)
class _EarlierNames:
    """Names of documents of one earlier unit; of a removed one, those of the document it went for."""

    numbers: NDArray[np.int64]
    ids: NDArray[np.uint8]
    own_ids: pa.Array
    sources: list[str]
    runs: list[str]
    clusters: NDArray[np.uint8]
    """(M, 16) the name of the cluster that each document itself is of, in its run."""


def _earlier_names(
    workspace: Workspace, runs: Sequence[EarlierRun], wanted: NDArray[np.bool_]
) -> Iterator[_EarlierNames]:
    """Yield the names of some earlier documents, unit by unit."""
    first = 0
    for run in runs:
        removed = 0
        for unit in run.units:
            mask = kept_mask(workspace, unit)
            begin = first + unit.first
            members = np.flatnonzero(wanted[begin : begin + unit.documents])
            if len(members):
                yield _of_unit(workspace, run, unit, members, mask=mask, removed=removed, begin=begin)
            removed += int(np.count_nonzero(~mask))
        first += run.documents


def _removals(
    workspace: Workspace,
    unit: Unit,
    members: NDArray[np.int64],
    *,
    mask: NDArray[np.bool_],
    removed: int,
) -> Iterator[tuple[NDArray[np.int64], pa.Table]]:
    """Yield for what the removed documents of a unit went, if one of some members is removed."""
    if not mask[members].all():
        yield from removed_before(workspace, unit, _KEPT, mask=mask, before=removed)


def _of_unit(  # a unit, and what of it
    workspace: Workspace,
    run: EarlierRun,
    unit: Unit,
    members: NDArray[np.int64],
    *,
    mask: NDArray[np.bool_],
    removed: int,
    begin: int,
) -> _EarlierNames:
    parts = []
    for start, table in row_groups(workspace, unit, ["id", "own_id"]):
        low, high = np.searchsorted(members, np.array([0, table.num_rows]) + start - unit.first)
        parts.append(table.take(pa.array(members[low:high] - (start - unit.first))))
    table = pa.concat_tables(parts)
    ids, own_ids = fixed_bytes(table.column("id"), ID_BYTES), table.column("own_id").to_pylist()
    clusters = clusters_of(workspace, unit).of(ids)
    ids, sources, names = ids.copy(), [unit.source] * len(members), [run.dedup] * len(members)
    for gone, removals in _removals(workspace, unit, members, mask=mask, removed=removed):
        _, rows, places = np.intersect1d(members, gone, assume_unique=True, return_indices=True)
        chosen = removals.take(pa.array(places))
        ids[rows] = from_hex(chosen.column("kept_id"))
        for row, kept in zip(rows.tolist(), chosen.drop_columns(["kept_id"]).to_pylist(), strict=True):
            own_ids[row], sources[row] = kept["kept_own_id"], kept["kept_source"]
            names[row] = kept.get(KEPT_RUN) or run.dedup
    return _EarlierNames(begin + members, ids, pa.array(own_ids, pa.string()), sources, names, clusters)


class MemberNames:
    """Ids, own ids, sources and clusters of the documents that have a duplicate, by number.

    Args:
        workspace: where the units are.
        runs: earlier runs.
        units: of this run, numbered behind those of earlier ones.
        clustered: (N,) whether a document has a duplicate.
        scratch: a folder for the names and for each document's row among them.
    """

    def __init__(
        self,
        workspace: Workspace,
        runs: Sequence[EarlierRun],
        *,
        units: Sequence[Unit],
        clustered: NDArray[np.bool_],
        scratch: Path,
    ) -> None:
        self._row = mapped_zeros(scratch / "row", np.int32, len(clustered))
        count = int(np.count_nonzero(clustered))
        self._id = mapped_zeros(scratch / "id", np.uint8, ID_BYTES * count).reshape(-1, ID_BYTES)
        self._source = mapped_zeros(scratch / "source", np.int32, count)
        self._run = mapped_zeros(scratch / "run", np.int32, count)
        self._sources: dict[str, int] = {}
        self._runs: dict[str, int] = {}
        self._own = Names(scratch / "names", ["own_id"])
        self._count = 0
        clusters = [np.empty((0, ID_BYTES), np.uint8)]
        for names in _earlier_names(workspace, runs, clustered):
            sources = [self._sources.setdefault(name, len(self._sources)) for name in names.sources]
            of_runs = [1 + self._runs.setdefault(name, len(self._runs)) for name in names.runs]
            self._add(names.numbers, names.ids, names.own_ids, sources, of_runs)
            clusters.append(names.clusters)
        self._clusters: NDArray[np.uint8] = np.concatenate(clusters)
        for unit in units:
            source = self._sources.setdefault(unit.source, len(self._sources))
            for first, table in row_groups(workspace, unit, ["id", "own_id"]):
                members = np.flatnonzero(clustered[first : first + table.num_rows])
                if len(members):
                    ids = fixed_bytes(table.column("id"), ID_BYTES)[members]
                    own = table.column("own_id").take(pa.array(members))
                    self._add(first + members, ids, own, source, 0)
        self._own.finish()

    def _add(  # one column each
        self, numbers: NDArray[np.int64], ids: NDArray[np.uint8], own: Any, sources: Any, runs: Any
    ) -> None:
        place = slice(self._count, self._count + len(numbers))
        self._row[numbers] = np.arange(place.start, place.stop)
        self._id[place], self._source[place], self._run[place] = ids, sources, runs
        self._own.add(pa.table({"own_id": own}))
        self._count = place.stop

    def ids(self, numbers: NDArray[np.integer]) -> pa.Array:
        """Return the ids of some of the documents."""
        return hex_strings(self._id[self._row[numbers]])

    def clusters(self, numbers: NDArray[np.integer]) -> NDArray[np.uint8]:
        """Return the names of the clusters of which some of the documents are the roots: (M, 16)."""
        rows = self._row[numbers]
        found: NDArray[np.uint8] = self._id[rows]
        earlier = np.flatnonzero(rows < len(self._clusters))
        found[earlier] = self._clusters[rows[earlier]]
        return found

    def own_ids(self, numbers: NDArray[np.integer]) -> pa.Array:
        """Return the own ids of some of the documents."""
        return self._own.take("own_id", self._row[numbers].astype(np.int64))

    def sources(self, numbers: NDArray[np.integer]) -> pa.Array:
        """Return the sources of some of the documents."""
        return _named(self._source[self._row[numbers]], list(self._sources))

    def runs(self, numbers: NDArray[np.integer]) -> pa.Array:
        """Return the names of the earlier runs of some of the documents; null of this run."""
        return _named(self._run[self._row[numbers]], [None, *self._runs])


def _named(numbers: NDArray[np.int32], names: Sequence[str | None]) -> pa.Array:
    return pa.array(names, pa.string()).take(pa.array(numbers))


def write_sides(
    workspace: Workspace,
    runs: Sequence[EarlierRun],
    *,
    clustered: NDArray[np.bool_],
    roots: NDArray[np.int32],
    names: MemberNames,
) -> None:
    """Write the clusters that an earlier run put on one side; the validation side outranks the other."""
    clusters, sides = [np.empty((0, ID_BYTES), np.uint8)], [np.empty(0, np.bool_)]
    first = 0
    for run in runs:
        members = np.flatnonzero(clustered[first : first + run.documents]) + first
        first += run.documents
        if run.split is None or not len(members):
            continue
        held, own = held_out_before(run), names.clusters(members).view(NAME).reshape(-1)
        places = np.minimum(np.searchsorted(held, own), max(len(held) - 1, 0))
        sides.append(held[places] == own if len(held) else np.zeros(len(own), np.bool_))
        clusters.append(names.clusters(roots[members]))
    joined = np.concatenate(clusters).view(NAME).reshape(-1)
    distinct, place = np.unique(joined, return_inverse=True)
    held_out = np.zeros(len(distinct), np.bool_)
    np.logical_or.at(held_out, place, np.concatenate(sides))
    rows = fixed_array(np.ascontiguousarray(distinct).view(np.uint8).reshape(-1, ID_BYTES))
    pq.write_table(pa.table([rows, held_out], schema=_SIDES), workspace.create(SIDES))
