"""Evidence: dedup/cuts.parquet, all that was cut, with the names of the documents."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.cut.ranges import found_key
from pipeline.steps.earlier_runs import EarlierRun, numbered
from pipeline.steps.evidence import DocumentNames, strings_at, write_tables
from pipeline.steps.records import UnitRecord
from pipeline.steps.units import Unit
from stages.columns import CUT_EVIDENCE
from stages.store.mapped import mapped_zeros

CUTS = "dedup/cuts.parquet"
_FIRST_RUN = pa.field("first_run", pa.string())
"""The column that names the earlier run of the first copy, if there are earlier runs."""
_ROWS = 8_192
"""Of evidence that is read at a time."""


@dataclass(frozen=True)
class CutEvidence:
    """The evidence of all groups of units."""

    units: tuple[Unit, ...]
    groups: int
    earlier: tuple[EarlierRun, ...] = ()
    """Runs whose documents are numbered before those of the units."""


class CutEvidenceRecord(UnitRecord):
    """What the table holds."""

    rows: int


def write_cuts(workspace: Workspace, work: CutEvidence) -> CutEvidenceRecord:
    """Write dedup/cuts.parquet, in canonical order."""
    rows = 0
    with workspace.scratch() as scratch:
        named = mapped_zeros(scratch / "named", np.bool_, (work.units[-1].last,))
        for part in _parts(workspace, work):
            rows += part.num_rows
            for column in ("document", "first_document"):
                named[part.column(column).to_numpy()] = True
        units = (*numbered(work.earlier), *work.units)
        names = DocumentNames(named, scratch)
        names.finish(workspace, units)
        tables = (_named(part, names, work.earlier) for part in _parts(workspace, work))
        schema = CUT_EVIDENCE.append(_FIRST_RUN) if work.earlier else CUT_EVIDENCE
        write_tables(workspace.create(CUTS), schema, tables)
    return CutEvidenceRecord(rows=rows)


def _parts(workspace: Workspace, work: CutEvidence) -> Iterator[pa.Table]:
    for group in range(work.groups):
        with pq.ParquetFile(workspace.path(found_key(group))) as file:
            for batch in file.iter_batches(_ROWS, use_threads=False):
                yield pa.Table.from_batches([batch])


def _named(part: pa.Table, names: DocumentNames, earlier: Sequence[EarlierRun]) -> pa.Table:
    documents, firsts = (part.column(name).to_numpy() for name in ("document", "first_document"))
    columns = {
        "id": names.ids(documents),
        "own_id": names.own_ids(documents),
        "source": names.sources(documents),
        "first_id": names.ids(firsts),
        "first_own_id": names.own_ids(firsts),
        "first_source": names.sources(firsts),
    }
    every = columns | {name: part.column(name) for name in CUT_EVIDENCE.names if name not in columns}
    table = pa.table([every[name] for name in CUT_EVIDENCE.names], schema=CUT_EVIDENCE)
    return table.append_column(_FIRST_RUN, _runs(firsts, earlier)) if earlier else table


def _runs(numbers: NDArray[np.int64], earlier: Sequence[EarlierRun]) -> pa.Array:
    """Return the name of the earlier run of each document; null of this run."""
    ends = np.cumsum([run.documents for run in earlier])
    return strings_at(
        np.searchsorted(ends, numbers, side="right"), [*(run.dedup for run in earlier), None]
    )
