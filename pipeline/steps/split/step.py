"""Split: which documents are held out, and how many shards there are.

Recount: the clusters that are held out against what the split counted.
"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow.parquet as pq

from pipeline.engine.memory import Need
from pipeline.engine.tasks import Phase, Task, TaskPlace, Workspace
from pipeline.run_file.config import RunFile
from pipeline.run_file.fingerprints import SomeSettings
from pipeline.steps.dedup.step import DEDUP, KEEP, sides_key, text_need
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.records import CheckRecord, flows_of, read_all
from pipeline.steps.recount import Found, differs, recounted
from pipeline.steps.selection import SELECTING, each_unit, kept_units, last_selecting, selection, streams
from pipeline.steps.split.choice import (
    VALIDATION,
    CandidateUnit,
    CountRecord,
    JoinedDocuments,
    SplitRecord,
    ValidationChoice,
    choose_validation,
    count_candidates,
    largest_of,
)
from pipeline.steps.step import Evidence, Inputs, Job, Result, Scope, Step, Work
from pipeline.steps.tokenizer.load import EXISTING
from pipeline.steps.tokenizer.step import TOKENIZER
from pipeline.steps.units import Unit, fixed_bytes
from stages.identity import ID_BYTES
from stages.ledger import Tally, tally_of
from stages.tokenizer.bpe.encoder import MEMORY


def recount_held_out(workspace: Workspace, held_out: Tally) -> CheckRecord:
    """Count the clusters, the bytes and the tokens that are held out."""

    def counted() -> Found:
        table = pq.read_table(workspace.path(VALIDATION), use_threads=False)
        size, tokens = (int(table.column(name).to_numpy().sum()) for name in ("text_bytes", "tokens"))
        tally = tally_of(fixed_bytes(table.column("cluster"), ID_BYTES), bytes=size, tokens=tokens)
        yield from differs(VALIDATION, tally, held_out)

    return recounted((VALIDATION, counted))


_COUNT = "count-"


def encoding_need(file: RunFile) -> int:
    """Return the bytes that a worker takes to encode or decode a batch of documents."""
    return text_need(file) + 2 * MEMORY + (EXISTING if file.tokenizer.path is not None else 0)


def _settings(scope: Scope) -> Mapping[str, object]:
    file = scope.file
    shards = SomeSettings(file.packing, {"shards", "shard_size"})
    return {"validation": file.validation, "packing": shards, "seed": file.seed}


def _need(scope: Scope) -> Need:
    return Need(encoding_need(scope.file), "lower ingest.max_document_bytes")


def _reads(scope: Scope) -> Sequence[str]:
    if scope.adopted is None:  # then the tokenizer depends on what dedup kept
        return (TOKENIZER.name,)
    return (last_selecting(scope.file), TOKENIZER.name)


def _overlaps(scope: Scope) -> Sequence[str]:
    return (INGEST.name, DEDUP.name) if streams(scope) else ()


def shards_of(job: Job) -> dict[str, int]:
    """Return the number of shards of each split, known before the split is made if units stream."""
    made = job.records.get(SPLIT)
    if made is not None:
        return made.shards
    assert job.file.packing.shards is not None, "units stream only to shards of a fixed number"
    return {"train": job.file.packing.shards, "validation": 0}


def _work(job: Job) -> Work[SplitRecord]:
    file = job.file

    def count(unit: Unit) -> Task:
        work = CandidateUnit(unit, file.validation, file.seed, sides_key(job.scope))
        name = unit.commit_name
        return job.task(f"{_COUNT}{name}", count_candidates, work, after=[(DEDUP.name, f"{KEEP}{name}")])

    counted = yield each_unit(job, "count held-out documents", count)
    units, kept = kept_units(job), selection(job).languages.values()
    size, documents = sum(one["bytes"] for one in kept), sum(one["documents"] for one in kept)
    choice = ValidationChoice(
        units, file.validation, file.packing, file.seed, size, documents, sides_key(job.scope)
    )
    task = job.task("choose", choose_validation, choice)
    chosen = yield Phase("choose the validation split", [task], TaskPlace.DRIVER)
    by_unit = {unit.removeprefix(_COUNT): commit for unit, commit in counted.items()}
    counts = read_all(by_unit, CountRecord)
    joined = _joined(units, counts)
    largest = largest_of(one.largest_joined for one in counts.values() if one.largest_joined)
    record = chosen[task.unit].read(SplitRecord)
    record = record.model_copy(update={"joined": joined, "largest_joined": largest})
    return Result(record, flows_of(counts))


def _joined(units: Sequence[Unit], counts: Mapping[str, CountRecord]) -> dict[str, JoinedDocuments]:
    """Return by source what joins validation; sources without such documents are left out."""
    found: dict[str, JoinedDocuments] = {}
    for unit in units:
        own, before = counts[unit.commit_name].joined, found.get(unit.source, JoinedDocuments())
        if own.documents:
            found[unit.source] = JoinedDocuments(
                documents=before.documents + own.documents, tokens=before.tokens + own.tokens
            )
    return found


def _evidence(evidence: Evidence) -> Iterator[Task]:
    yield Task(evidence.name, "recount-split", recount_held_out, evidence.records.of(SPLIT).held_out, "")


SPLIT = Step(
    name="split",
    version=1,
    said="hold out documents",
    record=SplitRecord,
    reads=_reads,
    settings=_settings,
    need=_need,
    work=_work,
    overlaps=_overlaps,
    takes=Inputs(SELECTING),
    unit_of=lambda name: name.removeprefix(_COUNT),
    evidence=_evidence,
    whole=(choose_validation,),
    sampled=(count_candidates,),
    otherwise=frozenset(("shards.validation",)),  # of an empty split it was 0
    folders=("split", "work"),
    unread=("work/split/",),
)
