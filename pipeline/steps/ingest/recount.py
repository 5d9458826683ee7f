"""Recount: documents and drops of a unit of ingest against its flow."""

import pyarrow.parquet as pq

from pipeline.engine.tasks import Workspace
from pipeline.steps.findings import CheckRecord
from pipeline.steps.recount import Found, UnitRecount, differs, recounted
from pipeline.steps.units import tally_of_texts
from stages.findings import Finding
from stages.identity import document_id
from stages.ledger import IdSum, Tally
from stages.reading.reader import TableReader, TextSplit
from stages.reading.table import reader_of

_FIRST = (-1, 0)
"""Position and line before the first of a file."""


def _wrong_line(path: str, position: int, line: int, before: tuple[int, int]) -> str | None:
    """Say why a line cannot be that of a position, or None if it can.

    Args:
        path: of the file.
        position: where the record stands: in a table its row, from 0.
        line: that is named.
        before: position and line of the drop before it in that file.
    """
    if isinstance(reader_of(path, TextSplit.FILE), TableReader):
        return None if line == position + 1 else f"and row {position:,} is line {position + 1:,}"
    if line <= before[1] or line - before[1] > position - before[0]:
        return f"and byte {before[0]:,} is in line {before[1]:,}, byte {position:,} in this one"
    return None


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
        before: dict[str, tuple[int, int]] = {}
        rows = 0
        with pq.ParquetFile(workspace.path(drops)) as file:
            for batch in file.iter_batches(
                columns=["source", "path", "line", "position", "reason"], use_threads=False
            ):
                for row in batch.to_pylist():
                    identity = document_id(row["source"], row["path"], row["position"])
                    sums.setdefault(row["reason"], IdSum()).add(identity)
                    place = row["position"], row["line"]
                    if fault := _wrong_line(row["path"], *place, before.get(row["path"], _FIRST)):
                        yield drops, Finding("drops", f"row {rows:,}, line: is {row['line']:,}, {fault}")
                    before[row["path"]] = place
                    rows += 1
        for reason, total in sums.items():
            yield from differs(drops, total.tally(), work.flow.gone.get(reason, Tally()), what=reason)

    return recounted((unit.table, documents), (drops, dropped))
