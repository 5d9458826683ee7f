"""Selection: the steps that decide what of the ingested documents is kept, and which one decides last.

    dedup -> ...        each reads the masks of the one before, and writes masks of its own

Later steps read units as the last of them left them: `kept_units`. What each of these steps keeps is
counted here (`KeptCounts`), and counted again from its masks (`recount_kept`).

Where nothing is decided of all units (no deduplication and no validation, an existing tokenizer, a fixed
number of shards), each unit goes on to the token store as soon as it is read: `streams`, `each_unit`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.engine.tasks import FollowingTasks, Phase, Task, Workspace
from pipeline.run_file.config import RunFile
from pipeline.state.commit_object import Commit
from pipeline.steps.ingest.record import PartRecord
from pipeline.steps.ingest.step import INGEST, size_of
from pipeline.steps.records import CheckRecord, StepRecord, UnitRecord
from pipeline.steps.recount import Found, UnitRecount, differs, of_units, recounted
from pipeline.steps.step import Evidence, Job, Scope
from pipeline.steps.units import (
    LanguageSize,
    Unit,
    kept_groups,
    kept_mask,
    only_unit,
    tally_of_texts,
    units_of,
)
from stages.findings import Finding
from stages.ledger import Flow, Tally, total_flow

DEDUP_NAME = "dedup"
DECONTAMINATE_NAME = "decontaminate"
CUT_NAME = "cut"
_SELECTING: tuple[tuple[str, Callable[[RunFile], bool]], ...] = (
    (DEDUP_NAME, lambda _: True),
    (DECONTAMINATE_NAME, lambda file: file.decontamination is not None),
    (CUT_NAME, lambda file: file.dedup.cuts),
)
"""The steps in the order of the flow, each with whether a run has it."""

SELECTING = tuple(name for name, _ in _SELECTING)
"""Their names, for what takes documents from the last one that a run has."""


class SelectionRecord(StepRecord):
    """What is kept."""

    kept: int
    removed: dict[str, int]
    """Documents by reason."""
    languages: dict[str, LanguageSize]
    """Of what is kept."""


class SelectedRecord(UnitRecord):
    """What is kept of some units."""

    flows: dict[str, Flow]
    """By unit."""
    languages: dict[str, LanguageSize]
    """Of what is kept."""


COUNTED = ["id", "language", "text_bytes"]
"""The columns by which documents are counted."""


class KeptCounts:
    """What is kept of some units, as it is counted.

    Args:
        units: all of them.
        reasons: for which documents may go.
    """

    def __init__(self, units: Iterable[Unit], reasons: Iterable[str] = ()) -> None:
        none = Tally(bytes=0)
        nothing = Flow(input=none, output=none, gone=dict.fromkeys(reasons, none))
        self.flows = {unit.commit_name: nothing for unit in units}
        """By unit, in the order of the units."""
        self._sizes: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])

    @property
    def total(self) -> Flow:
        """Of all units."""
        return total_flow(self.flows.values()) or Flow(input=Tally(), output=Tally())

    @property
    def languages(self) -> dict[str, LanguageSize]:
        """What is kept of each language."""
        return {n: LanguageSize(documents=d, bytes=b) for n, (d, b) in sorted(self._sizes.items())}

    def count(
        self,
        unit: Unit,
        first: int,
        table: pa.Table,
        *,
        kept: NDArray[np.bool_],
        gone: Mapping[str, NDArray[np.bool_]],
        before: NDArray[np.bool_] | None = None,
        after: pa.Table | None = None,
    ) -> None:
        """Count some documents of a unit.

        Args:
            unit: the unit.
            first: the number of the first of them.
            table: their `COUNTED`.
            kept: (N,) which documents of the unit are kept.
            gone: (N,) likewise which go, by reason.
            before: (N,) likewise which the step before kept; by default all.
            after: as `table`, with the bytes that the step leaves of each; by default all.
        """
        rows = slice(first - unit.first, first - unit.first + table.num_rows)
        left = (table if after is None else after).filter(pa.array(kept[rows]))
        self.flows[unit.commit_name] += Flow(
            input=tally_of_texts(table if before is None else table.filter(pa.array(before[rows]))),
            output=tally_of_texts(left),
            gone={why: tally_of_texts(table.filter(pa.array(m[rows]))) for why, m in gone.items()},
        )
        grouped = left.group_by("language").aggregate([("text_bytes", "sum"), ([], "count_all")])
        for row in grouped.to_pylist():
            self._add(row["language"], row["count_all"], row["text_bytes_sum"])

    def count_cuts(self, unit: Unit, sizes: Mapping[str, int]) -> None:
        """Count the bytes that are cut from the kept documents of a unit, by reason."""
        flow = self.flows[unit.commit_name]
        cut = {name: Tally(bytes=size) for name, size in sizes.items()}
        self.flows[unit.commit_name] = flow.model_copy(update={"gone": flow.gone | cut})

    def include(self, records: Iterable[SelectedRecord]) -> None:
        """Count what others have counted of some of the units."""
        for record in records:
            self.flows.update(record.flows)
            for name, size in record.languages.items():
                self._add(name, size["documents"], size["bytes"])

    def _add(self, language: str, documents: int, size: int) -> None:
        self._sizes[language][0] += documents
        self._sizes[language][1] += size


def recounts_of_kept(
    evidence: Evidence, recount: Callable[[Workspace, UnitRecount], CheckRecord] | None = None
) -> Iterator[Task]:
    """Return a task for each unit that counts again what one of these steps keeps of it.

    Args:
        evidence: of the step.
        recount: does it, in place of `recount_kept`.
    """
    units = tuple(as_kept_by(unit, evidence.name) for unit in evidence.units)
    return of_units(replace(evidence, units=units), recount or recount_kept)


def recount_kept(workspace: Workspace, work: UnitRecount) -> CheckRecord:
    """Count what the keep mask of a unit lets through, and the cuts leave of it."""
    unit = work.unit

    def kept() -> Found:
        marks, rows = (
            len(kept_mask(workspace, unit)),
            pq.read_metadata(workspace.path(unit.table)).num_rows,
        )
        if marks != rows:
            yield unit.keep_mask, Finding("ledger", f"{marks:,} marks for {rows:,} documents")
            return
        tally = Tally(bytes=0)
        for table in kept_groups(workspace, unit, ["id", "text_bytes"]):
            tally += tally_of_texts(table)
        yield from differs(unit.keep_mask, tally, work.flow.output)

    return recounted((unit.keep_mask, kept))


def selecting(file: RunFile) -> tuple[str, ...]:
    """Return the names of the steps of a run that decide what is kept, in the order of the flow."""
    return tuple(name for name, applies in _SELECTING if applies(file))


def last_selecting(file: RunFile) -> str:
    """Return the name of the step whose masks later steps read."""
    return selecting(file)[-1]


def kept_units(job: Job, *, after: str | None = None) -> tuple[Unit, ...]:
    """Return the units of ingest as the last step that decides what is kept left them.

    Args:
        job: of a step that comes later.
        after: the name of a step to read them after, in place of the last.
    """
    return tuple(as_kept(job, unit, after=after) for unit in units_of(job.records.of(INGEST).units))


def as_kept(job: Job, unit: Unit, *, after: str | None = None) -> Unit:
    """Return one unit, as `kept_units` does all of them."""
    return as_kept_by(unit, after or last_selecting(job.file))


def as_kept_by(unit: Unit, name: str) -> Unit:
    """Return a unit as a step of these leaves it."""
    return replace(unit, kept_by=name, cut=name == CUT_NAME and is_cut(unit))


def cut_units(job: Job) -> tuple[Unit, ...]:
    """Return the units as the step cut reads them: those that it may cut say so."""
    units = kept_units(job, after=selecting_before(job.file, CUT_NAME))
    return tuple(replace(unit, cut=is_cut(unit)) for unit in units)


def is_cut(unit: Unit) -> bool:
    """Say whether text may be cut from a unit: from documents of one section."""
    return unit.sections == 1


def selecting_before(file: RunFile, name: str) -> str:
    """Return the name of the step whose masks a step of these reads."""
    return selecting(file)[selecting(file).index(name) - 1]


def selection(job: Job) -> SelectionRecord:
    """Return the record of the last step that decides what is kept."""
    record = job.records.named(last_selecting(job.file))
    assert isinstance(record, SelectionRecord)
    return record


def streams(scope: Scope) -> bool:
    """Say whether units of a run go from file to token store one by one."""
    file = scope.file
    decides = file.dedup.exact or file.dedup.near or len(selecting(file)) > 1
    decided = file.validation.fraction == 0 and file.packing.shards is not None
    return decided and not decides and scope.adopted is not None


def each_unit(job: Job, title: str, task: Callable[[Unit], Task]) -> Phase:
    """Return a phase with a task for each unit of ingest, which may still be at work.

    Args:
        job: of the step.
        title: what people read.
        task: gives the task of a unit; while ingest is at work, of a unit as if there were no other.
    """
    if job.records.get(INGEST) is not None:
        return Phase(title, [task(unit) for unit in kept_units(job)])

    def of(commit: Commit) -> Task:
        return task(as_kept(job, only_unit(size_of(commit.unit, commit.read(PartRecord)))))

    def order() -> list[str]:
        return [task(unit).unit for unit in kept_units(job)]

    return Phase(title, (), each=FollowingTasks(INGEST.name, of, order))
