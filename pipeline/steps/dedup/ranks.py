"""Ranks: which documents outrank which, written once where the survivor is not simply the first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.run_file.config import RunFile
from pipeline.steps.earlier_runs import ORDER, RANKS, EarlierRun, earlier_documents, earlier_order
from pipeline.steps.records import UnitRecord
from pipeline.steps.units import Unit, row_groups
from stages.dedup.ranking import KeepColumn, KeepPolicy, best_first
from stages.errors import ConfigError
from stages.store.arrays import open_array, write_array
from stages.store.mapped import mapped_zeros


@dataclass(frozen=True)
class Ranking:
    """All documents, and what ranks them."""

    units: tuple[Unit, ...]
    keep: KeepPolicy
    sources: tuple[str, ...]
    """All of them, the best-ranked first; none if sources rank nothing."""
    earlier: tuple[EarlierRun, ...] = ()
    """Runs whose documents outrank those of the units, each in its own order."""


class RanksRecord(UnitRecord):
    """What was ranked."""

    last: int
    """Documents that have no value to rank by."""


_MAX_RANKED = (1 << 32) - 1
"""Ranks are uint32."""


def ranked_sources(file: RunFile) -> tuple[str, ...]:
    """Return all sources of a run, the best-ranked first; none if sources rank nothing."""
    named = file.dedup.source_order
    others = [source.name for source in file.file_sources if source.name not in named]
    return (*named, *others) if named else ()


def rank_documents(workspace: Workspace, work: Ranking) -> RanksRecord:
    """Write the rank of each document, and the documents by rank: (N,) uint32 each."""
    total = work.units[-1].last if work.units else 0
    documents = total + earlier_documents(work.earlier)
    if documents > _MAX_RANKED:
        raise ConfigError(
            f"dedup.keep, dedup.source_order: {documents:,} documents, and at most {_MAX_RANKED:,} can"
            ' be ranked by more than their order; use keep = "first" without source_order'
        )
    with workspace.scratch() as scratch:
        values = mapped_zeros(scratch / "values", np.float64, (total,))
        for unit in work.units:
            _fill(workspace, unit, work.keep, values[unit.first : unit.last])
        last = sum(
            int(np.count_nonzero(np.isnan(values[unit.first : unit.last]))) for unit in work.units
        )
        lowest = isinstance(work.keep, KeepColumn) and work.keep.order == "lowest"
        own = best_first(values, _groups(work.units, work.sources), lowest=lowest)
        before = earlier_order(workspace, work.earlier)
        order = np.empty(len(before) + total, "<u4")
        order[: len(before)] = before
        np.add(own, len(before), out=order[len(before) :], casting="unsafe")
        del own, before
    ranks = np.empty(len(order), "<u4")
    ranks[order] = np.arange(len(order), dtype="<u4")
    write_array(workspace.create(ORDER), order)
    write_array(workspace.create(RANKS), ranks)
    return RanksRecord(last=last)


def _fill(workspace: Workspace, unit: Unit, keep: KeepPolicy, values: NDArray[np.float64]) -> None:
    """Fill in what the documents of a unit rank by."""
    if isinstance(keep, KeepColumn):
        ranking: Any = open_array(workspace.path(unit.ranking), dtype="<f8", shape=(unit.documents,))
        values[:] = ranking
    elif keep == "longest":
        for first, table in row_groups(workspace, unit, ["text_bytes"]):
            start = first - unit.first
            values[start : start + table.num_rows] = table.column("text_bytes").to_numpy()
    else:
        values[:] = 0.0


def _groups(units: Sequence[Unit], sources: Sequence[str]) -> list[tuple[int, int]]:
    """Return the numbers of each source's documents, the best-ranked first; or one group of all."""
    if not sources:
        return [(0, units[-1].last if units else 0)]
    own = {name: [unit for unit in units if unit.source == name] for name in sources}
    return [(parts[0].first, parts[-1].last) for parts in own.values() if parts]
