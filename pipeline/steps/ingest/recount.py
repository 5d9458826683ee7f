"""Recount: documents and drops of a unit of ingest against its flow."""

import pyarrow.parquet as pq

from pipeline.engine.tasks import Workspace
from pipeline.steps.findings import CheckRecord
from pipeline.steps.recount import Found, UnitRecount, differs, recounted
from pipeline.steps.units import tally_of_texts
from stages.identity import document_id
from stages.ledger import IdSum, Tally


def recount_ingested(workspace: Workspace, work: UnitRecount) -> CheckRecord:
    """Count the documents and the drops of a unit again."""
    unit = work.unit
    drops = f"ingest/{unit.name}/drops.parquet"

    def documents() -> Found:
        table = pq.read_table(
            workspace.path(unit.table), columns=["id", "text_bytes"], use_threads=False
        )
        yield from differs(unit.table, tally_of_texts(table), work.flow.output)

    def dropped() -> Found:
        """The records that it dropped, by reason: each named by where it stands."""
        sums = {reason: IdSum() for reason in work.flow.gone}
        with pq.ParquetFile(workspace.path(drops)) as file:
            for batch in file.iter_batches(
                columns=["source", "path", "position", "reason"], use_threads=False
            ):
                for row in batch.to_pylist():
                    identity = document_id(row["source"], row["path"], row["position"])
                    sums.setdefault(row["reason"], IdSum()).add(identity)
        for reason, total in sums.items():
            yield from differs(drops, total.tally(), work.flow.gone.get(reason, Tally()), what=reason)

    return recounted((unit.table, documents), (drops, dropped))
