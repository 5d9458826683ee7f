"""Recount: masks, ranges and evidence of the cuts against the ledger."""

from dataclasses import dataclass, replace

import pyarrow.parquet as pq

from pipeline.engine.tasks import Workspace
from pipeline.steps.cut.evidence import CUTS
from pipeline.steps.cut.methods import METHODS
from pipeline.steps.cut.ranges import EMPTIED
from pipeline.steps.findings import CheckRecord
from pipeline.steps.recount import Found, UnitRecount, differs, recounted
from pipeline.steps.selection import CUT_NAME, is_cut
from pipeline.steps.units import kept_groups, tally_of_texts
from stages.findings import Finding
from stages.ledger import Flow, IdSum, Tally

_COUNTED = ["id", "method", "cut_bytes", "emptied"]


@dataclass(frozen=True)
class CutRecount:
    """What was cut of all units together."""

    total: Flow


def recount_cut(workspace: Workspace, work: UnitRecount) -> CheckRecord:
    """Count what the mask and the ranges of a unit leave of its documents."""
    unit = replace(work.unit, kept_by=CUT_NAME, cut=is_cut(work.unit))

    def kept() -> Found:
        tally = Tally(bytes=0)
        for table in kept_groups(workspace, unit, ["id", "text_bytes"]):
            tally += tally_of_texts(table)
        yield from differs(unit.keep, tally, work.flow.output)

    return recounted((unit.keep, kept))


def recount_evidence_of_cuts(workspace: Workspace, work: CutRecount) -> CheckRecord:
    """Count the bytes that the evidence names, by method."""

    def cuts() -> Found:
        found, emptied, last = {method.name: 0 for method in METHODS}, IdSum(), ""
        with pq.ParquetFile(workspace.path(CUTS)) as file:
            for batch in file.iter_batches(columns=_COUNTED, use_threads=False):
                for row in batch.to_pylist():
                    if not row["emptied"]:
                        found[row["method"]] = found.get(row["method"], 0) + row["cut_bytes"]
                    elif row["id"] != last:  # the rows of a document follow each other
                        emptied.add(bytes.fromhex(row["id"]))
                        last = row["id"]
        wanted_gone = work.total.gone.get(EMPTIED, Tally())
        yield from differs(CUTS, emptied.tally(), wanted_gone, what="emptied documents")
        for name, size in found.items():
            wanted = work.total.gone.get(name, Tally(bytes=0)).bytes
            if size != wanted:
                message = f"names {size:,} bytes cut as {name}, not {wanted or 0:,} as the ledger has it"
                yield CUTS, Finding("ledger", message)

    return recounted((CUTS, cuts))
