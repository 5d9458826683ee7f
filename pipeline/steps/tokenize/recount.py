"""Recount: the documents of a unit of the token store against its flow."""

import pyarrow.parquet as pq

from pipeline.engine.tasks import Workspace
from pipeline.steps.findings import CheckRecord
from pipeline.steps.recount import Found, UnitRecount, differs, recounted
from pipeline.steps.units import fixed_bytes
from stages.identity import ID_BYTES
from stages.ledger import tally_of


def recount_stored(workspace: Workspace, work: UnitRecount) -> CheckRecord:
    """Count the documents and the tokens that the store lists."""
    key = f"{work.unit.tokens}/documents.parquet"

    def stored() -> Found:
        table = pq.read_table(workspace.path(key), columns=["id", "tokens"], use_threads=False)
        tokens = int(table.column("tokens").to_numpy().sum())
        tally = tally_of(fixed_bytes(table.column("id"), ID_BYTES), tokens=tokens)
        yield from differs(key, tally, work.flow.output)

    return recounted((key, stored))
