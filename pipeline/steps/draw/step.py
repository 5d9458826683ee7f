"""Draw: the epochs of a dataset that are to stand on disk."""

from collections.abc import Mapping, Sequence

from pipeline.engine.memory import Need
from pipeline.engine.phase import Phase, Where
from pipeline.steps.draw.make import (
    DrawnRecord,
    DrawnWork,
    DrawWork,
    EpochsRecord,
    draw_shard,
    make_drawn,
)
from pipeline.steps.records import StepRecord, flows_of, read_all
from pipeline.steps.shard.step import SHARD, rows_need
from pipeline.steps.split.step import SPLIT
from pipeline.steps.step import Job, Scope, Step, Whole, Work
from stages.objectives.table import traits_of

DRAWN = 64 << 20
"""The columns of 2^20 tokens and what they are made of."""
LOGITS = 256 << 20
"""The logits of a model and what is made of them; the model itself is not counted."""


class DrawRecord(StepRecord):
    """The epochs of a dataset on disk."""

    splits: dict[str, EpochsRecord]


def _applies(scope: Scope) -> bool:
    return bool(scope.dataset.epochs_on_disk)


def _reads(scope: Scope) -> Sequence[str]:
    return (SHARD.name_for(scope),)


def _settings(scope: Scope) -> Mapping[str, object]:
    return {"epochs": scope.dataset.epochs_on_disk}


def _need(scope: Scope) -> Need:
    if not traits_of(scope.dataset.objective).written_for:
        return Need(DRAWN)
    return Need(DRAWN + rows_need(scope) + LOGITS)


def _work(job: Job) -> Work[DrawRecord]:
    dataset, shards = job.scope.dataset, job.records.of(SPLIT).shards
    work = {
        f"{split}-{epoch:04d}-{number:05d}": DrawWork(dataset.name, split, number, epoch)
        for split in ("train", "validation")
        for epoch in range(dataset.epochs_on_disk)
        for number in range(shards[split])
    }
    tasks = [job.task(unit, draw_shard, item) for unit, item in work.items()]
    commits = yield Phase(f"draw {dataset.name}", tasks)
    splits = {}
    for split in ("train", "validation"):
        made = tuple((item, commits[unit]) for unit, item in work.items() if item.split == split)
        if made:
            drawn = DrawnWork(dataset.name, split, dataset.epochs_on_disk, made)
            task = job.task(f"manifest-{split}", make_drawn, drawn)
            signed = yield Phase(f"sign {dataset.name}/{split}", [task], Where.DRIVER)
            splits[split] = signed[task.unit].read(EpochsRecord)
    return Whole(DrawRecord(splits=splits), flows_of(read_all(commits, DrawnRecord)))


DRAW = Step(
    name="draw",
    version=3,
    record=DrawRecord,
    of_datasets=True,
    applies=_applies,
    reads=_reads,
    settings=_settings,
    need=_need,
    work=_work,
    folders=("datasets",),
)
