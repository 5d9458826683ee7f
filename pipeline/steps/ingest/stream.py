"""Streams: work unit by unit, where nothing that is decided of all units stands before it.

Without deduplication and validation, with an existing tokenizer and a fixed number of shards, each unit
goes on to the token store as soon as it is read.
"""

from collections.abc import Callable

from pipeline.engine.tasks import Each, Phase, Task
from pipeline.state.commit_object import Commit
from pipeline.steps.ingest.record import PartRecord
from pipeline.steps.ingest.step import INGEST, size_of
from pipeline.steps.selection import as_kept, kept_units, selecting
from pipeline.steps.step import Job, Scope
from pipeline.steps.units import Unit, alone


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
        return task(as_kept(job, alone(size_of(commit.unit, commit.read(PartRecord)))))

    def order() -> list[str]:
        return [task(unit).unit for unit in kept_units(job)]

    return Phase(title, (), each=Each(INGEST.name, of, order))
