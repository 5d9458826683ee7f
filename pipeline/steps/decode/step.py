"""Decode: the token store held to the texts, once for all datasets."""

from collections import Counter
from collections.abc import Sequence

from pydantic import Field

from pipeline.engine.phase import Phase
from pipeline.steps.again.choice import embedded_again, made_again, signed_again
from pipeline.steps.cut.step import CUT
from pipeline.steps.decode.check import DecodedRecord, check_texts, checks_of
from pipeline.steps.decode.sample import LibraryRecord, SampledUnit, check_sample, sample_shares
from pipeline.steps.decontaminate.step import DECONTAMINATE
from pipeline.steps.dedup.step import DEDUP
from pipeline.steps.findings import FoundIn, LookedAt, together
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.records import StepRecord, read_all
from pipeline.steps.selection import kept_units
from pipeline.steps.sentences.step import SENTENCES
from pipeline.steps.split.step import SPLIT
from pipeline.steps.step import Amounts, Job, Records, Scope, Step, Whole, Work, always
from pipeline.steps.tokenize.step import TOKENIZE, store_need
from pipeline.steps.tokenizer.step import TOKENIZER


class DecodeRecord(StepRecord):
    """What was found of the token store."""

    findings: tuple[FoundIn, ...]
    documents: int
    by_library: int
    """Documents whose ids the tokenizer's own library gave again."""
    returned: dict[str, int] = Field(default_factory=dict)
    """Documents by how they come back from their ids, of an existing tokenizer."""
    looked: tuple[LookedAt, ...] = ()
    lacking: tuple[str, ...] = ()
    """Both as `CheckRecord` has them."""


SAMPLED = "sample-"
"""Begins the names of the tasks that encode with the tokenizer's own library."""
_OVERLAPPED = (TOKENIZE.name, SENTENCES.name)
"""Their units are checked as they are made."""


_BEFORE = (INGEST, DEDUP, DECONTAMINATE, CUT, TOKENIZER, SPLIT, TOKENIZE, SENTENCES)
"""Steps that are whole by then; verify does those of its dataset."""


def _reads(scope: Scope) -> Sequence[str]:
    return (SENTENCES.name if scope.file.needs_sentences else TOKENIZE.name,)


def _work(job: Job) -> Work[DecodeRecord]:
    units, shards = kept_units(job), job.records.of(SPLIT).shards
    checks = checks_of(units, shards, seed=job.file.seed, sentences=job.file.needs_sentences)
    made = _OVERLAPPED if job.file.needs_sentences else _OVERLAPPED[:1]
    tasks = [
        job.task(unit, check_texts, check, after=[(name, unit) for name in made])
        for unit, check in checks
    ]
    commits = yield Phase("decode the token store", tasks, until=(TOKENIZE.name,))
    found = read_all(commits, DecodedRecord).values()
    findings = [finding for unit in found for finding in unit.findings]
    documents = by_library = sum(unit.documents for unit in found)
    if any(unit.compiled for unit in found) and not findings:
        shares = sample_shares(job.records.of(TOKENIZE).languages)
        tasks = [
            job.task(f"{SAMPLED}{unit.commit_name}", check_sample, SampledUnit(unit, shares))
            for unit in units
        ]
        sampled = yield Phase("encode a sample with the tokenizer's library", tasks)
        samples = read_all(sampled, LibraryRecord).values()
        findings = [finding for unit in samples for finding in unit.findings]
        by_library = sum(unit.documents for unit in samples)
    evidence = yield from made_again(job, _BEFORE, documents=documents)
    if job.file.dedup.near:
        evidence = together((evidence, (yield from signed_again(job, documents=documents))))
    if job.file.dedup.semantic is not None:
        evidence = together((evidence, (yield from embedded_again(job))))
    returned: Counter[str] = Counter()
    for unit in found:
        returned.update(unit.returned)
    record = DecodeRecord(
        findings=(*findings, *evidence.findings),
        documents=documents,
        by_library=by_library,
        returned=dict(sorted(returned.items())),
        looked=evidence.looked,
        lacking=evidence.lacking,
    )
    return Whole(record)


def _amounts(record: DecodeRecord, records: Records) -> Amounts:
    stored = records.of(TOKENIZE)
    return Amounts(record.documents, stored.text_bytes, stored.tokens)


DECODE = Step(
    name="decode",
    version=3,
    record=DecodeRecord,
    is_check=True,
    reads=_reads,
    settings=always({}),
    need=store_need,
    work=_work,
    overlaps=always(_OVERLAPPED),
    amounts=_amounts,
    unit_of=lambda name: name.removeprefix(SAMPLED),
)
