"""Shard: the token store packed into the rows of a dataset.

Recount: the documents that a shard lists against its flow.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow.parquet as pq

from pipeline.engine.memory import Need
from pipeline.engine.tasks import Phase, Task, TaskPlace, Workspace
from pipeline.steps.mix.rules import weights_of
from pipeline.steps.mix.step import MIX
from pipeline.steps.names import KEPT_ROW, TABLE_BYTES
from pipeline.steps.records import CheckRecord, StepRecord, flows_of, read_all
from pipeline.steps.recount import Found, differs, recounted
from pipeline.steps.replay.step import REPLAY, token_units
from pipeline.steps.replayed_runs import replayed_columns
from pipeline.steps.sentences.step import SENTENCES
from pipeline.steps.shard.make import (
    EPOCH_FOLDER,
    ManifestRecord,
    ManifestWork,
    ShardRecord,
    ShardWork,
    make_manifest,
    make_shard,
)
from pipeline.steps.shard.merge import Copies
from pipeline.steps.shard.rows import RowSettings
from pipeline.steps.split.step import SPLIT
from pipeline.steps.step import Amounts, Evidence, Inputs, Job, Records, Result, Scope, Step, Work
from pipeline.steps.tokenize.step import TOKENIZE
from pipeline.steps.tokenizer.step import TOKENIZER
from pipeline.steps.units import from_hex
from stages.ledger import Flow, tally_of
from stages.mixing.placement import MAX_DOCUMENTS
from stages.objectives.table import needs_sentences
from stages.tokenizer.framing import row_frame, trained_ids


@dataclass(frozen=True)
class ShardRecount:
    """One shard of one dataset."""

    folder: str
    flow: Flow


def recount_shard(workspace: Workspace, work: ShardRecount) -> CheckRecord:
    """Count the documents of a shard again."""
    key = f"{work.folder}/documents.parquet"

    def listed() -> Found:
        table = pq.read_table(workspace.path(key), columns=["id", "copy"], use_threads=False)
        copies = table.column("copy").to_numpy()
        yield from differs(key, tally_of(from_hex(table.column("id")), copy=copies), work.flow.output)

    return recounted((key, listed))


DOCUMENT_ROW = 170
"""Of a document in a shard: its id, length, places and segments."""
UNEVEN = 1.25
"""By how much a shard may have more documents than the others on average."""
SECTION_ROW = 350
"""Of a document in a shard whose rows are laid out by its sections."""


class DatasetRecord(StepRecord):
    """A dataset."""

    splits: dict[str, ManifestRecord]


def _reads(scope: Scope) -> Sequence[str]:
    read = [TOKENIZE.name]
    if needs_sentences(scope.dataset.traits, scope.file.packing_of(scope.dataset)):
        read.append(SENTENCES.name)
    if scope.file.replays:
        read.append(REPLAY.name)
    if scope.file.mix_of(scope.dataset) is not None:
        read.append(MIX.name_for(scope))
    return tuple(read)


def _settings(scope: Scope) -> Mapping[str, object]:
    rows = rows_of(scope)
    return {
        "objective": rows.objective,
        "packing": rows.packing,
        "seed": rows.seed,
        **({} if rows.row_frame is None else {"row_frame": rows.row_frame}),
        **({} if rows.interleave == "shuffle" else {"interleave": rows.interleave}),
    }


def rows_of(scope: Scope, split: str = "train") -> RowSettings:
    """Return what a run says of the rows of a split; those held out have no mix."""
    file, dataset = scope.file, scope.dataset
    mix = file.mix_of(dataset)
    interleave = "shuffle" if mix is None or split != "train" else mix.interleave
    packing = file.packing_of(dataset)
    return RowSettings(dataset.objective, packing, file.seed, row_frame_of(scope), interleave)


def copies_of(scope: Scope, split: str = "train") -> Copies | None:
    """Return which copies of documents a split has; None if each document once."""
    file, dataset = scope.file, scope.dataset
    if split != "train" or file.mix_of(dataset) is None:
        return None
    return Copies(dataset.name, weights_of(file), file.seed)


def row_frame_of(scope: Scope) -> dict[str, int] | None:
    """Return the ids around each row of a run, by side; None if its rows have no frame."""
    framing, adopted = scope.file.framing, scope.adopted
    if framing.per == "document":
        return None
    return row_frame(framing, trained_ids(framing) if adopted is None else adopted.special_ids)


def rows_need(scope: Scope, documents: int = MAX_DOCUMENTS) -> int:
    """Return the bytes that a worker takes to lay out the rows of a shard.

    Args:
        scope: of the dataset.
        documents: that the shard lists, at the most.
    """
    sections = SECTION_ROW * bool(scope.dataset.traits.sections)
    kept = {column for source in scope.file.sources for column in source.keep_columns}
    kept |= set(replayed_columns(scope.replayed))
    return (DOCUMENT_ROW + sections + KEPT_ROW * len(kept)) * documents + TABLE_BYTES


def copies_need(job: Job) -> int:
    """Return the same, once it is known how many documents are replayed, and how many copies there are.

    All replayed documents of a shard are held until those that a mix takes are found.
    """
    mix, replayed = job.records.get(MIX, job.scope.dataset.name), job.records.get(REPLAY)
    if mix is None and replayed is None:
        return rows_need(job.scope)
    documents = 0 if mix is None else mix.documents
    if replayed is not None:
        documents = max(documents, job.records.of(TOKENIZE).documents + replayed.documents)
    most = int(UNEVEN * documents / job.records.of(SPLIT).shards["train"])
    return rows_need(job.scope, max(MAX_DOCUMENTS, most))


def _need(scope: Scope) -> Need:
    return Need(rows_need(scope))


def _work(job: Job) -> Work[DatasetRecord]:
    dataset, shards = job.scope.dataset, job.records.of(SPLIT).shards
    units, vocab_size = token_units(job), job.records.of(TOKENIZER).vocab_size
    firsts = {"train": 0, "validation": shards["train"]}
    work = {
        f"{split}-{number:05d}": ShardWork(
            units=units,
            dataset=dataset.name,
            split=split,
            number=number,
            group=first + number,
            rows=rows_of(job.scope, split),
            vocab_size=vocab_size,
            copies=copies_of(job.scope, split),
        )
        for split, first in firsts.items()
        for number in range(shards[split])
    }
    tasks = [job.task(unit, make_shard, item) for unit, item in work.items()]
    need = Need(copies_need(job), "set packing.shards to more, or lower the epochs of the mix")
    commits = yield Phase(f"pack {dataset.name}", tasks, need=need)
    splits = {}
    for split in firsts:
        made = tuple((item, commits[unit]) for unit, item in work.items() if item.split == split)
        if made:
            rows, generation = rows_of(job.scope, split), job.scope.generation
            manifest = ManifestWork(dataset.name, split, made, rows, vocab_size, generation)
            task = job.task(f"manifest-{split}", make_manifest, manifest)
            signed = yield Phase(f"sign {dataset.name}/{split}", [task], TaskPlace.DRIVER)
            splits[split] = signed[task.unit].read(ManifestRecord)
    return Result(DatasetRecord(splits=splits), flows_of(read_all(commits, ShardRecord)))


def _amounts(record: DatasetRecord, records: Records) -> Amounts:
    splits = record.splits.values()
    return Amounts(
        sum(split.documents for split in splits),
        records.of(TOKENIZE).text_bytes,
        sum(split.tokens for split in splits),
    )


def _evidence(evidence: Evidence) -> Iterator[Task]:
    dataset = evidence.name.removeprefix(f"{SHARD.name}-")
    for unit, flow in evidence.flows.items():
        split, _, number = unit.rpartition("-")
        folder = f"datasets/{dataset}/{split}/{EPOCH_FOLDER}/{number}"
        work = ShardRecount(folder, flow)
        yield Task(evidence.name, f"recount-{unit}", recount_shard, work, "")


SHARD = Step(
    name="shard",
    version=3,
    said="pack into rows",
    record=DatasetRecord,
    of_datasets=True,
    reads=_reads,
    settings=_settings,
    need=_need,
    work=_work,
    grows={"shard_documents": DOCUMENT_ROW},
    amounts=_amounts,
    takes=Inputs((TOKENIZE.name,), by_unit=False, beside=(REPLAY.name,)),
    evidence=_evidence,
    replayed=(TOKENIZE.name,),
    folders=("datasets",),
    whole=(make_manifest,),
)
