"""Witnesses: documents of earlier runs of which this run removed copies, and that nobody can look at.

A finished run stays valid when an earlier run that it names is moved, deleted or made anew. `verify`
says then how many removed documents name a kept document that is not there.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.planning.earlier import against_of
from pipeline.planning.kept_plan import KeptPlan, read_kept_plan
from pipeline.steps.earlier import KEPT_RUN
from pipeline.steps.selection import DEDUP_NAME
from stages.errors import ConfigError, FormatError

_REMOVED = "dedup/removed.parquet"


def absent_witnesses(output: Path, kept: KeptPlan, *, generation: int) -> Iterator[str]:
    """Yield, for people, how many removed documents name one of a run that is not there.

    Generations of the same folder are there: a folder without one is refused.

    Args:
        output: the run's folder.
        kept: what its run.json says.
        generation: its number.
    """
    against = against_of(kept)
    named = against[: len(against) - generation]
    places = kept.against if len(kept.against) == len(named) else ("",) * len(named)
    absent = {
        run.dedup: place
        for run, place in zip(named, places, strict=True)
        if not place or _dedup_of(Path(place)) != run.dedup
    }
    counted = _counted(output / _REMOVED) if absent else Counter[str | None]()
    for run, place in absent.items():
        if counted[run]:
            where = f"which is not at {place} any more" if place else "whose folder is not known"
            yield (
                f"{DEDUP_NAME}: {counted[run]:,} removed documents name a kept document of the earlier"
                f" run {run} (kept_run), {where}. So no check can look at those kept documents; the rows"
                " of this run stay valid"
            )


def _dedup_of(folder: Path) -> str | None:
    """Return the fingerprint of a run's deduplication; None if no run is there."""
    try:
        step = read_kept_plan(folder).steps.get(DEDUP_NAME)
    except (ConfigError, FormatError):
        return None
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
