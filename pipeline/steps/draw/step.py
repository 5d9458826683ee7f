"""Draw: the epochs of a dataset that are to stand on disk.

Materialise: epochs of a dataset drawn once and written out, a shard and an epoch at a time.

Of row kinds the bits are those that the loader draws; of the others these are the only epochs.
"""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.engine.memory import Need
from pipeline.engine.tasks import Phase, TaskPlace, Workspace
from pipeline.state.commit_object import Commit
from pipeline.steps.records import StepRecord, UnitRecord, flows_of, read_all
from pipeline.steps.shard.step import SHARD, rows_need
from pipeline.steps.split.step import SPLIT
from pipeline.steps.step import Job, Result, Scope, Step, Work
from pipeline.steps.tokenizer.load import load_tokenizer
from stages.config import Config
from stages.errors import DataError
from stages.ledger import Flow, Tally
from stages.loading.split_reader import SplitReader
from stages.objectives.drawing import count_drawn, draw_material
from stages.objectives.electra.generated import Generate, load_generator, version_of
from stages.objectives.fim.characters import Spelling
from stages.objectives.material import Material
from stages.objectives.rows import Columns
from stages.objectives.vocabulary import Vocabulary
from stages.store.arrays import array_writer
from stages.store.drawn import DRAWN_NAME, DrawnManifest, DrawnShard, write_drawn
from stages.store.manifest import FORMAT_VERSION, Column, read_manifest

_ROW_TOKENS = 1 << 20
"""Tokens drawn together."""


class DrawnColumn(Config):
    """A column of drawn rows."""

    dtype: str
    shape: tuple[int, ...]
    """Of a row."""


class DrawnRecord(UnitRecord):
    """One shard in one epoch."""

    rows: int
    columns: dict[str, DrawnColumn]
    counts: dict[str, int]
    """What was drawn, by what it is called."""
    generator: str
    """Version of the model that drew; empty without one."""


class EpochsRecord(UnitRecord):
    """One split whose epochs are all drawn."""

    fingerprint: str
    epochs: int
    counts: dict[str, int]


@dataclass(frozen=True)
class DrawWork:
    """One shard in one epoch."""

    dataset: str
    split: str
    number: int
    epoch: int

    @property
    def folder(self) -> str:
        """The split's."""
        return f"datasets/{self.dataset}/{self.split}"

    @property
    def path(self) -> str:
        """Where its columns go, relative to the split's folder."""
        return f"drawn/epoch-{self.epoch:04d}/{self.number:05d}"


@dataclass(frozen=True)
class DrawnWork:
    """One split whose epochs are all drawn."""

    dataset: str
    split: str
    epochs: int
    parts: tuple[tuple[DrawWork, Commit], ...]
    """By epoch, then by shard."""


def draw_shard(workspace: Workspace, work: DrawWork) -> DrawnRecord:
    """Write what the loader draws of a shard in one epoch."""
    source = workspace.path(work.folder)
    manifest = read_manifest(source)
    reader = SplitReader(source, manifest, check="size")
    target = workspace.create(f"{work.folder}/{work.path}")
    rows = manifest.shards[work.number].rows
    material = material_of(workspace, reader, work.folder, number=work.number, with_model=True)
    step = max(1, _ROW_TOKENS // reader.widths.stored)
    columns: dict[str, DrawnColumn] = {}
    counts: Counter[str] = Counter()
    written = 0
    with ExitStack() as stack:
        writers: dict[str, Any] = {}
        for start in range(0, max(rows, 1), step):
            part = np.arange(start, min(start + step, rows))
            drawn = draw_rows(reader, work.number, part, work.epoch, material)
            counts.update(count_drawn(drawn, reader.objective))
            written += len(next(iter(drawn.values())))
            for name, column in drawn.items():
                shape, dtype = column.shape[1:], column.dtype.newbyteorder("<").str
                columns[name] = DrawnColumn(dtype=dtype, shape=shape)
                if name not in writers:
                    writer = array_writer(target / f"{name}.npy", dtype=dtype, shape=shape)
                    writers[name] = stack.enter_context(writer)
                writers[name](column)
    generator = version_of(material.generate if material is not None else None)
    return DrawnRecord(
        rows=rows,
        columns=columns,
        counts=dict(counts),
        generator=generator,
        flow=Flow(input=Tally(rows=rows), output=Tally(rows=written)),
    )


def draw_rows(
    reader: SplitReader, number: int, rows: NDArray[np.int64], epoch: int, material: Material | None
) -> Columns:
    """Return the columns of some rows of a shard, of whatever kind they are."""
    if material is None:
        return reader.draw(number, rows, epoch)
    stored = reader.stored(number, rows, epoch)
    return draw_material(stored, reader.objective, reader.vocabulary, reader.widths, material=material)


def material_of(
    workspace: Workspace, reader: SplitReader, folder: str, *, number: int, with_model: bool = False
) -> Material | None:
    """Return what the rows of a shard are drawn with beyond themselves; None if they need nothing."""
    traits = reader.traits
    if not traits.written_for:
        return None
    sources = None
    if traits.sources:
        path = f"{folder}/{reader.manifest.shards[number].path}/documents.parquet"
        table = pq.read_table(workspace.path(path), columns=["source"], use_threads=False)
        sources = tuple(map(sys.intern, table.column("source").to_pylist()))
    model = None
    if with_model and traits.model:
        model = _model(workspace, traits.model, reader.vocabulary)
    spelling = _spelling(workspace, reader) if traits.encodes_text else None
    return Material(reader.whole_shard(number, sources=sources), spelling, model)


def _spelling(workspace: Workspace, reader: SplitReader) -> Spelling:
    """Return how the run's tokenizer spells, made once a worker."""
    tokenizer = load_tokenizer(workspace)
    dtype = np.dtype(reader.manifest.columns["input_ids"].dtype)

    def make() -> Spelling:
        return Spelling(tokenizer.codec.spelling, partial(tokenizer.verbatim().encode, dtype=dtype))

    return workspace.cached(f"spelling {id(tokenizer)}", make)


def _model(workspace: Workspace, name: str, vocabulary: Vocabulary) -> Generate:
    """Return a generator, made once a worker."""
    key = f"generator {name} {vocabulary.size}"
    return workspace.cached(key, lambda: load_generator(name, vocabulary))


def make_drawn(workspace: Workspace, work: DrawnWork) -> EpochsRecord:
    """Write the manifest of a split's materialised epochs."""
    folder = f"datasets/{work.dataset}/{work.split}"
    shards: list[list[DrawnShard]] = [[] for _ in range(work.epochs)]
    records = [commit.read(DrawnRecord) for _, commit in work.parts]
    for (part, commit), record in zip(work.parts, records, strict=True):
        prefix = f"{part.folder}/{part.path}/"
        files = {key.removeprefix(prefix): digest for key, digest in commit.files.items()}
        shards[part.epoch].append(DrawnShard(path=part.path, files=files, counts=record.counts))
    versions = sorted({record.generator for record in records})
    if len(versions) > 1:
        raise DataError(
            f"{folder}: shards were drawn by several versions of a model ({', '.join(versions)}); delete"
            f" commits/draw-{work.dataset} and run again"
        )
    manifest = DrawnManifest(
        format_version=FORMAT_VERSION,
        dataset=read_manifest(workspace.path(folder)).fingerprint,
        epochs=work.epochs,
        generator=versions[0],
        columns={
            name: Column(meaning="as the loader gives it", **column.model_dump())
            for name, column in records[0].columns.items()
        },
        shards=tuple(map(tuple, shards)),
    ).signed()
    write_drawn(workspace.create(f"{folder}/{DRAWN_NAME}"), manifest)
    totals: Counter[str] = Counter()
    for record in records:
        totals.update(record.counts)
    return EpochsRecord(fingerprint=manifest.fingerprint, epochs=work.epochs, counts=dict(totals))


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
    if not scope.dataset.traits.written_for:
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
            signed = yield Phase(f"sign {dataset.name}/{split}", [task], TaskPlace.DRIVER)
            splits[split] = signed[task.unit].read(EpochsRecord)
    return Result(DrawRecord(splits=splits), flows_of(read_all(commits, DrawnRecord)))


DRAW = Step(
    name="draw",
    version=3,
    said="draw the objective",
    record=DrawRecord,
    of_datasets=True,
    applies=_applies,
    reads=_reads,
    settings=_settings,
    need=_need,
    work=_work,
    folders=("datasets",),
)
