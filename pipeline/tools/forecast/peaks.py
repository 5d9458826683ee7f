"""Peaks: what a run holds at its peak, from what a smaller run of the same steps held.

    held by the smaller run, in this process, step by step     measured
    + what larger parts add: units, shards, documents, the tokenizer's sample     the steps' own factors
    + torch, if models are to learn, which the smaller run leaves out
    = held without workers; beside Ray, each worker holds as much as this process without the program

What a step held stays with its process, so a later step holds no less than what an earlier one added.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.engine.memory import MIB
from pipeline.run_file.config import RunFile
from pipeline.state.commits import SCAN
from pipeline.steps.ingest.files import BATCH_BYTES
from pipeline.steps.ingest.step import BATCH_FACTOR
from pipeline.steps.table import step_of
from pipeline.steps.tokenizer.step import TOKENIZER
from pipeline.steps.verify.step import VERIFY
from stages.dedup.lsh import KEYS_PER_PARTITION
from stages.tokenizer.train import TRAINERS

RAY = 400 * MIB
"""Ray's daemons and the driver: 380 to 415 MiB measured with ray 2.60."""
IDLE = 90 * MIB
"""A worker with its libraries and compiled code, measured."""
TORCH = 430 * MIB
"""A model that learns, with torch, measured beyond an idle process."""


@dataclass(frozen=True)
class Parts:
    """How large the parts are that a run works on."""

    unit: int
    """Bytes of text of its largest unit."""
    documents: int
    shard_documents: int
    """Of one shard."""
    trained: int
    """Bytes of text that its tokenizer is trained on."""
    partition: int = KEYS_PER_PARTITION
    """Keys in a partition of deduplication, at the most."""

    @property
    def keys(self) -> int:
        """Keys in its largest partition: there are no more than documents."""
        return min(self.partition, self.documents)


@dataclass(frozen=True)
class Peaks:
    """What the processes of a run hold at their peaks, in bytes, by step in their order."""

    inline: Mapping[str, int]
    """This process, if it does all the work."""
    worker: Mapping[str, int]
    """A worker, beyond an idle one."""
    extra: Mapping[str, int]
    """A process that a step has of its own if there are workers, beyond an idle one."""

    def with_workers(self, workers: int) -> int:
        """Return what all processes hold at the peak of a run with so many workers."""
        if not workers:
            return max(self.inline.values())
        each = {name: workers * (IDLE + peak) for name, peak in self.worker.items()}
        own = {name: IDLE + peak for name, peak in self.extra.items()}
        return RAY + max(peak + own.get(name, 0) for name, peak in each.items())


def peaks_of(run: RunFile, peaks: Mapping[str, int], *, before: Parts, after: Parts) -> Peaks:
    """Return the peaks of a run.

    Args:
        run: the run.
        peaks: what a smaller run held in each step, by its name in the plan, in their order, in bytes.
        before: the parts of the smaller run.
        after: those of the run.
    """
    idle = level = peaks.get(SCAN, min(peaks.values()))
    inline, worker, extra, added = dict[str, int](), dict[str, int](), dict[str, int](), 0
    for name, seen in peaks.items():
        added = max(added, _added(name, before=before, after=after))
        trains = name == TOKENIZER.name and run.tokenizer.path is None
        if not trains:  # what training takes is released
            level = max(level, seen + added)
        inline[name], worker[name] = level, level - idle
        if trains:
            factor = TRAINERS[run.tokenizer.train.model].usual_memory
            inline[name] = max(level, seen + factor * max(0, after.trained - before.trained))
            extra[name] = inline[name] - level
        elif name.startswith(f"{VERIFY.name}-") and run.verify.learning:
            inline[name] = max(level, idle + TORCH)
            extra[name] = TORCH
    return Peaks(inline, worker, extra)


def _added(name: str, *, before: Parts, after: Parts) -> int:
    """Return what larger parts add to what a step holds."""

    def more(new: int, old: int, factor: int) -> int:
        return factor * max(0, new - old)

    if name == SCAN:
        return 0
    batches = more(min(BATCH_BYTES, after.unit), min(BATCH_BYTES, before.unit), BATCH_FACTOR)
    grows = step_of(name).grows
    return batches + sum(
        more(getattr(after, part), getattr(before, part), grows[part]) for part in grows
    )
