"""What earlier runs decided, as the last phase of dedup takes it: decisions and names.

    kept earlier     a document of this run may go for it
    removed earlier  counts for nothing, but a repeat of its text goes for the document it went for

Earlier documents are numbered before all of this run. One that is removed has itself as its witness:
what stands in the table of its own run is read when the evidence is written.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.earlier_runs import (
    KEPT_RUN,
    EarlierRun,
    OrderedRows,
    clusters_before,
    removed_before,
)
from pipeline.steps.units import Unit, fixed_bytes, from_hex, row_groups
from stages.dedup.survivors import KEPT, Decisions, Ranks, keep_first
from stages.identity import ID_BYTES

_WHY = ("similarity", "method")
_KEPT = ("kept_id", "kept_own_id", "kept_source", KEPT_RUN)
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
        for rows, table in removed_before(workspace, run, _WHY):
            numbers, method = first + rows, table.column("method")
            for taken in (decisions, decisions.texts):
                taken.witness[numbers] = numbers
                taken.similarity[numbers] = table.column("similarity").to_numpy()
                taken.method[numbers] = pc.index_in(method, known).to_numpy()
        first += run.documents
    for start in range(0, first, _BLOCK):
        block = ranks.at(np.arange(start, min(start + _BLOCK, first)))
        keep_first(decisions, block[decisions.witness[block] == KEPT])


@dataclass(frozen=True)
class EarlierNames:
    """Names of documents of one earlier unit; of a removed one, those of the document it went for."""

    ids: NDArray[np.uint8]
    own_ids: pa.Array
    sources: list[str]
    runs: list[str]
    clusters: NDArray[np.uint8]
    """(M, 16) the name of the cluster that each document itself is of, in its run."""


def earlier_names(
    workspace: Workspace, run: EarlierRun, wanted: NDArray[np.bool_]
) -> Iterator[EarlierNames]:
    """Yield the names of some documents of an earlier run, unit by unit.

    Args:
        workspace: of this run.
        run: the earlier one.
        wanted: (N,) of each document of that run, whether it is named.
    """
    removed = OrderedRows(removed_before(workspace, run, _KEPT, wanted=wanted))
    clusters = OrderedRows(clusters_before(workspace, run, wanted))
    for unit in run.units:
        members = np.flatnonzero(wanted[unit.first : unit.last]) + unit.first
        if len(members):
            yield _of_unit(workspace, run, unit, members, (removed, clusters))


def _of_unit(
    workspace: Workspace,
    run: EarlierRun,
    unit: Unit,
    members: NDArray[np.int64],
    rows: tuple[OrderedRows, OrderedRows],
) -> EarlierNames:
    """Return the names of some documents of a unit.

    Args:
        workspace: of this run.
        run: the earlier one.
        unit: of it.
        members: (M,) numbers of documents in their run, ascending.
        rows: what their run says of those of them that it removed, and of their clusters.
    """
    parts = []
    for start, table in row_groups(workspace, unit, ["id", "own_id"]):
        low, high = np.searchsorted(members, (start, start + table.num_rows))
        parts.append(table.take(pa.array(members[low:high] - start)))
    table = pa.concat_tables(parts)
    ids, own_ids = fixed_bytes(table.column("id"), ID_BYTES).copy(), table.column("own_id").to_pylist()
    removed, clustered = rows
    clusters = ids.copy()
    for numbers, found in clustered.before(unit.last):
        clusters[np.searchsorted(members, numbers)] = from_hex(found.column("cluster"))
    sources, names = [unit.source] * len(members), [run.dedup] * len(members)
    for numbers, found in removed.before(unit.last):
        places = np.searchsorted(members, numbers)
        ids[places] = from_hex(found.column("kept_id"))
        for row, kept in zip(places.tolist(), found.drop_columns(["kept_id"]).to_pylist(), strict=True):
            own_ids[row], sources[row] = kept["kept_own_id"], kept["kept_source"]
            names[row] = kept.get(KEPT_RUN) or run.dedup
    return EarlierNames(ids, pa.array(own_ids, pa.string()), sources, names, clusters)
