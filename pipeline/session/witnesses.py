"""Witnesses: documents of earlier runs of which this run removed copies, and that nobody can look at.

A finished run stays valid when an earlier run that it names is moved, deleted or made anew. `verify`
says then how many removed documents name a kept document that is not there.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.state.other_runs import folder_of
from pipeline.steps.earlier_runs import KEPT_RUN, EarlierRun
from pipeline.steps.kept_plan import KeptPlan
from pipeline.steps.run_folder import RunFolder
from pipeline.steps.selection import DEDUP_NAME
from stages.store.generations import GENERATIONS, generation_name
from stages.stores.mounts import here
from stages.stores.url import is_store_url

_REMOVED = "dedup/removed.parquet"


def absent_witnesses(output: Path, kept: KeptPlan, *, generation: int) -> Iterator[str]:
    """Yield, for people, how many removed documents name one of a run that is not there.

    Generations of the same folder are there: a folder without one is refused.

    Args:
        output: the run's folder.
        kept: what its run.json says.
        generation: its number.
    """
    named, places = _named(kept, generation)
    absent = {
        run.dedup: place
        for run, place in zip(named, places, strict=True)
        if not place or _dedup_of(_folder_of(place)) != run.dedup
    }
    counted = _counted(here(output / _REMOVED)) if absent else Counter[str | None]()
    for run, place in absent.items():
        if counted[run]:
            where = f"which is not at {place} any more" if place else "whose folder is not known"
            yield (
                f"{DEDUP_NAME}: {counted[run]:,} removed documents name a kept document of the earlier"
                f" run {run} (kept_run), {where}. So no check can look at those kept documents; the rows"
                " of this run stay valid"
            )


def located_runs(output: Path, kept: KeptPlan, *, generation: int) -> tuple[EarlierRun, ...]:
    """Return the runs that run.json names, with the folders of those that are there as they were.

    Args:
        output: the run's folder.
        kept: what its run.json says.
        generation: its number.
    """
    _, places = _named(kept, generation)
    root = output.absolute().parent.parent if generation else output
    later = [root / GENERATIONS / generation_name(number) for number in range(1, generation)]
    found = (_folder_of(place) if place else None for place in places)
    folders = [*found, *[root, *later][:generation]]
    return tuple(
        replace(run, folder=folder) if folder is not None and _dedup_of(folder) == run.dedup else run
        for run, folder in zip(kept.earlier(), folders, strict=False)  # a folder may have been renamed
    )


def _named(kept: KeptPlan, generation: int) -> tuple[tuple[EarlierRun, ...], tuple[str, ...]]:
    """Return the runs that the run file names, and their folders; empty where one is not known.

    Earlier versions did not keep the folders: then a path of the run file counts that is absolute.
    """
    against = kept.earlier()
    named = against[: len(against) - generation]
    asked = kept.against or tuple(kept.run.get("dedup", {}).get("against", ()))
    if len(asked) != len(named):
        return named, ("",) * len(named)
    return named, tuple(
        place if is_store_url(place) or Path(place).is_absolute() else "" for place in asked
    )


def _folder_of(place: str) -> Path:
    return folder_of(place, Path("/"), key="dedup.against")


def _dedup_of(folder: Path) -> str | None:
    """Return the fingerprint of a run's deduplication; None if no run is there."""
    plan = RunFolder(folder).known_plan
    step = None if plan is None else plan.steps.get(DEDUP_NAME)
    return None if step is None else step.fingerprint


def _counted(path: Path) -> Counter[str | None]:
    """Count removed documents by the earlier run of the kept document; damage is found elsewhere."""
    counted = Counter[str | None]()
    try:
        with pq.ParquetFile(path) as file:
            if KEPT_RUN in file.schema_arrow.names:
                for batch in file.iter_batches(columns=[KEPT_RUN]):
                    counted.update(batch.column(0).to_pylist())
    except (OSError, pa.ArrowException):
        return Counter()
    return counted
