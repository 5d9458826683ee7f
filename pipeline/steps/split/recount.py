"""Recount: the clusters that are held out against what the split counted."""

import pyarrow.parquet as pq

from pipeline.engine.tasks import Workspace
from pipeline.steps.findings import CheckRecord
from pipeline.steps.recount import Found, differs, recounted
from pipeline.steps.split.choice import VALIDATION
from pipeline.steps.units import fixed_bytes
from stages.identity import ID_BYTES
from stages.ledger import Tally, tally_of


def recount_held_out(workspace: Workspace, held_out: Tally) -> CheckRecord:
    """Count the clusters, the bytes and the tokens that are held out."""

    def counted() -> Found:
        table = pq.read_table(workspace.path(VALIDATION), use_threads=False)
        size, tokens = (int(table.column(name).to_numpy().sum()) for name in ("text_bytes", "tokens"))
        tally = tally_of(fixed_bytes(table.column("cluster"), ID_BYTES), bytes=size, tokens=tokens)
        yield from differs(VALIDATION, tally, held_out)

    return recounted((VALIDATION, counted))
