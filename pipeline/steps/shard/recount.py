"""Recount: the documents that a shard lists against its flow."""

from dataclasses import dataclass

import pyarrow.parquet as pq

from pipeline.engine.tasks import Workspace
from pipeline.steps.findings import CheckRecord
from pipeline.steps.recount import Found, differs, recounted
from pipeline.steps.units import from_hex
from stages.ledger import Flow, tally_of


@dataclass(frozen=True)
class ShardRecount:
    """One shard of one dataset."""

    folder: str
    flow: Flow


def recount_shard(workspace: Workspace, work: ShardRecount) -> CheckRecord:
    """Count the documents of a shard again."""
    key = f"{work.folder}/documents.parquet"

    def listed() -> Found:
        table = pq.read_table(workspace.path(key), columns=["id", "copy"], use_threads=False)
        copies = table.column("copy").to_numpy()
        yield from differs(key, tally_of(from_hex(table.column("id")), copy=copies), work.flow.output)

    return recounted((key, listed))
