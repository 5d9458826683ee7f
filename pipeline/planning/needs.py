"""Needs: whether each step of a run can have one worker, and what helps if one cannot.

Each step knows what a worker of it may take beyond an idle one's memory: upper bounds that were
measured, with their factors beside them. They decide how many workers run at once and whether a run
fits at all, never what is written.
"""

from bisect import bisect_left
from collections.abc import Mapping

from pipeline.engine.memory import MIB, Need, fitting_workers, room_of_worker
from pipeline.run_file.config import RunFile
from pipeline.steps.step import Scope
from pipeline.steps.table import step_needs
from pipeline.steps.tokenizer.step import training_need

SETTINGS = ("unit_size", "max_document_bytes")
"""Settings of ingest that lower needs; the first changes no result."""
KIB = 1 << 10
PLENTY = 4
"""Times the sample's size that the input's files must have, for it to be known that they fill it."""


def require_for_inputs(scope: Scope, *, workers: int, buffers: int = 0) -> dict[str, Need]:
    """Return the needs of a run over its files; refuse it if they do not fit.

    Two follow from the files: a table may have pages that are read as a whole, and a small corpus trains
    a tokenizer on less.

    Args:
        scope: with the files.
        workers: asked for; 0 is this process.
        buffers: bytes that each worker needs for a store, which what is returned does not count.

    Raises:
        ConfigError: `resources.memory` is too small.
    """
    file, found = scope.file, step_needs(scope)
    wanted = dict(found)
    size = sum(item.size for item in scope.inputs)
    if file.tokenizer.path is None and size >= PLENTY * int(file.tokenizer.train.sample_size):
        wanted["training"] = training_need(file, size, workers=workers)
    require_memory(file, wanted, workers=workers, buffers=buffers)
    return found


def require_memory(file: RunFile, needs: Mapping[str, Need], *, workers: int, buffers: int = 0) -> None:
    """Refuse a run of which a step cannot have one worker; with none, this process does the work.

    Args:
        file: of the run.
        needs: of a worker of each step.
        workers: asked for; 0 is this process.
        buffers: bytes that each worker needs besides, for a store.

    Raises:
        ConfigError: `resources.memory` is too small.
    """
    room = room_of_worker(int(file.resources.memory), workers) - buffers
    step = max(needs, key=lambda step: needs[step].bytes)  # what it asks for is enough for all
    if needs[step].bytes > room:
        fitting_workers(
            int(file.resources.memory),
            min(workers, 1),
            step=step,
            need=needs[step].bytes + buffers,
            remedy=_remedy(file, needs, step, room=room),
        )


def _remedy(file: RunFile, needs: Mapping[str, Need], neediest: str, *, room: int) -> str:
    """Return what else than more memory makes every step fit; empty if nothing alone does."""
    lowered, short = needs[neediest].lowered, [step for step in needs if needs[step].bytes > room]
    if short == [neediest] and lowered is not None and lowered <= room:
        return needs[neediest].remedy
    for setting in SETTINGS:
        largest = _largest_fitting(file, needs, setting, room=room)
        if largest:
            return f"set ingest.{setting} to {largest} or less"
    return ""


def _largest_fitting(file: RunFile, needs: Mapping[str, Need], setting: str, *, room: int) -> str | None:
    """Return the largest value of a setting of ingest with which every step fits, in KiB or MiB."""
    before = step_needs(Scope(file))

    def fits(value: int) -> bool:
        ingest = file.ingest.model_copy(update={setting: value})
        after = step_needs(Scope(file.model_copy(update={"ingest": ingest})))
        return all(
            need.bytes + (after[step].bytes - before[step].bytes if step in before else 0) <= room
            for step, need in needs.items()
        )

    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        values = range(1, -(-int(getattr(file.ingest, setting)) // unit))
        number = bisect_left(values, 1, key=lambda value: not fits(value * unit))
        if number:
            return f"{number}{name}"
    return None
