"""Recount: keep masks, removals and clusters against what dedup counted."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.engine.tasks import Workspace
from pipeline.steps.findings import CheckRecord
from pipeline.steps.recount import Found, UnitRecount, differs, differs_by, recounted
from pipeline.steps.units import kept_mask, tally_of_texts
from stages.findings import Finding
from stages.ledger import Flow

REMOVED = "dedup/removed.parquet"
CLUSTERS = "dedup/clusters.parquet"


@dataclass(frozen=True)
class EvidenceRecount:
    """What dedup counted of all units together."""

    removed: Flow
    clusters: Flow
    """The documents that have a duplicate: kept, and removed."""


def recount_kept(workspace: Workspace, work: UnitRecount) -> CheckRecord:
    """Count the documents that the keep mask of a unit lets through."""
    unit = work.unit

    def kept() -> Found:
        table = pq.read_table(
            workspace.path(unit.table), columns=["id", "text_bytes"], use_threads=False
        )
        mask = kept_mask(workspace, unit)
        if len(mask) != table.num_rows:
            held = f"{len(mask):,} marks for {table.num_rows:,} documents"
            yield unit.keep, Finding("ledger", held)
            return
        yield from differs(unit.keep, tally_of_texts(table.filter(pa.array(mask))), work.flow.output)

    return recounted((unit.keep, kept))


def recount_evidence(workspace: Workspace, work: EvidenceRecount) -> CheckRecord:
    """Count removals by method, and the members of clusters, kept and removed."""
    methods = work.removed.gone
    members = {True: work.clusters.output, False: work.clusters.gone["removed"]}
    return recounted(
        (REMOVED, lambda: differs_by(workspace, REMOVED, "method", methods)),
        (CLUSTERS, lambda: differs_by(workspace, CLUSTERS, "kept", members)),
    )
