"""Decision: the last phases of dedup, from what its methods found to masks, counts and evidence."""

from dataclasses import dataclass

import numpy as np

from pipeline.engine.tasks import Phase, Phases, TaskPlace, Workspace
from pipeline.steps.dedup.decided_parts import DecidedPart, read_decided
from pipeline.steps.dedup.member_names import MemberNames
from pipeline.steps.dedup.members import MembersRecord, MembersWork, describe_members
from pipeline.steps.dedup.removals import (
    TABLES,
    EvidenceTables,
    JoinWork,
    join_rows,
    rows_works,
    write_rows,
)
from pipeline.steps.dedup.resolve import Resolution, ResolveRecord, resolve
from pipeline.steps.dedup.sides import write_sides
from pipeline.steps.earlier_runs import EarlierRun, earlier_documents
from pipeline.steps.records import UnitRecord, read_all
from pipeline.steps.selection import KeptCounts
from pipeline.steps.step import Job
from stages.ledger import Flow, Tally, total_flow
from stages.store.mapped import mapped_zeros

DECIDE_UNIT = "decide"
"""Name of the unit that decides."""
DECIDED_BEFORE = ("resolve",)
"""Names of units of earlier versions: one task decided, and wrote the masks and all evidence, too."""


@dataclass(frozen=True)
class Decided:
    """What was decided of all documents."""

    counts: KeptCounts
    clusters: Flow
    """The documents that have a duplicate: kept, and removed."""
    marks: tuple[str, ...]
    """The keys of the marks of the rows of clusters.parquet, in order."""


@dataclass(frozen=True)
class SidesWork:
    """The parts of earlier runs, and how the names of all clusters are found."""

    runs: tuple[EarlierRun, ...]
    parts: tuple[DecidedPart, ...]
    """Of these runs."""
    firsts: tuple[int, ...]
    """The number of the first document of every part."""


def decide_all(job: Job, work: Resolution, where: TaskPlace) -> Phases[Decided]:
    """Decide about all documents, write masks and evidence, and count what is kept.

    Args:
        job: of the step.
        work: what its methods found.
        where: who decides.
    """
    task = job.task(DECIDE_UNIT, resolve, work)
    record = (yield Phase("decide what stays", [task], where))[task.unit].read(ResolveRecord)
    parts = work.parts
    tasks = [
        job.task(
            f"members-{part.number:05d}", describe_members, MembersWork(part, work.methods, work.kept)
        )
        for part in parts
    ]
    counted = yield Phase("count what stays", tasks)
    found = read_all(counted, MembersRecord).values()
    marks = yield from _write_tables(job, work, record)
    counts = KeptCounts(work.units, work.methods)
    counts.include(found)
    clusters = total_flow(one.clusters for one in found if one.clusters is not None)
    return Decided(counts, clusters or Flow(input=Tally(), output=Tally()), marks)


def _write_tables(job: Job, work: Resolution, record: ResolveRecord) -> Phases[tuple[str, ...]]:
    """Write the tables, and which side earlier runs' clusters are on; return the keys of the marks."""
    parts = work.parts
    firsts = tuple(part.first for part in parts)
    earlier = tuple(part for part in parts if part.earlier is not None)
    before = earlier_documents(work.earlier)
    evidence = EvidenceTables(
        firsts, len(earlier), work.methods, work.unmeasured, before, with_runs=bool(work.earlier)
    )
    counts = {"removed": record.removed, "clusters": record.members}
    works = {table: rows_works(evidence, table, counts[table]) for table in TABLES}
    tasks = [
        job.task(f"rows-{table}-{number:05d}", write_rows, one)
        for table in TABLES
        for number, one in enumerate(works[table])
    ]
    if work.earlier:
        tasks.append(job.task("sides", write_earlier_sides, SidesWork(work.earlier, earlier, firsts)))
    yield Phase("write the evidence", tasks)
    tasks = [
        job.task(f"join-{table}", join_rows, JoinWork(table, tuple(one.key for one in works[table])))
        for table in TABLES
        if len(works[table]) > 1
    ]
    if tasks:
        yield Phase("join the evidence", tasks)
    return tuple(one.marks for one in works["clusters"])


def write_earlier_sides(workspace: Workspace, work: SidesWork) -> UnitRecord:
    """Write which clusters earlier runs put on a side."""
    total = earlier_documents(work.runs)
    with workspace.scratch() as scratch:
        clustered = mapped_zeros(scratch / "clustered", np.bool_, (total,))
        roots = mapped_zeros(scratch / "roots", np.int64, (total,))
        for part in work.parts:
            decided = read_decided(workspace, part.number)
            clustered[decided.number], roots[decided.number] = True, decided.root
        names = MemberNames(workspace, work.firsts, earlier=len(work.parts))
        write_sides(workspace, work.runs, clustered=clustered, roots=roots, names=names)
    return UnitRecord()
