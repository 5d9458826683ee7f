"""Recounts: the evidence of the ledger, counted again from the tables.

Each step has its own (`recount.py` in its room); what they share is here. Findings, never exceptions: a
damaged file is what they look for.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.engine.tasks import Task, Workspace
from pipeline.steps.records import CheckRecord, found_in
from pipeline.steps.step import Evidence
from pipeline.steps.units import Unit, from_hex
from stages.errors import FormatError, is_of_the_system
from stages.findings import Finding
from stages.ledger import Flow, Tally, tally_of

Found = Iterator[tuple[str, Finding]]
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class UnitRecount:
    """One unit of ingest, and what went through it in one step."""

    unit: Unit
    flow: Flow


def of_units(
    evidence: Evidence, recount: Callable[[Workspace, UnitRecount], CheckRecord]
) -> Iterator[Task]:
    """Return a task for each unit of ingest that the step has a flow of."""
    for unit in evidence.units:
        flow = evidence.flows.get(unit.commit_name)
        if flow is not None:
            name = f"recount-{evidence.name}-{unit.commit_name}"
            yield Task(evidence.name, name, recount, UnitRecount(unit, flow), "")


def recounted(*looks: tuple[str, Callable[[], Found]]) -> CheckRecord:
    """Return what looks at tables find, each given with the key of its table."""
    found = [item for key, look in looks for item in _read(key, look)]
    return CheckRecord(findings=found_in(found))


def differs(key: str, found: Tally, wanted: Tally, *, what: str = "") -> Found:
    """Say where a table holds something else than the ledger has it."""
    differences = found.differences(wanted)
    if differences:
        rows = f" of {what}" if what else ""
        yield key, Finding("ledger", f"holds {', '.join(differences)}{rows} as the ledger has it")


def differs_by(workspace: Workspace, key: str, column: str, wanted: Mapping[_Value, Tally]) -> Found:
    """Say likewise of the documents of a table by the value of a column."""
    sums = {value: Tally() for value in wanted}
    with pq.ParquetFile(workspace.path(key)) as file:
        for batch in file.iter_batches(columns=["id", column], use_threads=False):
            values = np.array(batch.column(column).to_pylist(), object)
            for value in set(values.tolist()):
                ids = pa.chunked_array([batch.column("id").filter(pa.array(values == value))])
                sums[value] = sums.get(value, Tally()) + tally_of(from_hex(ids))
    for value, tally in sums.items():
        yield from differs(key, tally, wanted.get(value, Tally()), what=f"{column} = {value}")


def _read(key: str, look: Callable[[], Found]) -> Found:
    """Yield what a look at a table finds, or that the table cannot be read."""
    try:
        yield from list(look())
    except (FormatError, OSError, pa.ArrowException, KeyError, ValueError) as error:
        if is_of_the_system(error):  # which says nothing of the file
            raise
        yield key, Finding("readable", str(error).splitlines()[0])
