"""Decode: the token store held to the texts, once for all datasets.

Sample: some documents are encoded by the tokenizer's own library, as the others are in compiled code.

1% of the documents of each language, and 1,000 of them if it has as many; of a small corpus in many
languages, fewer, so that the sample has at most 10% of the text, or 4 MiB. Which ones depends on their
ids alone.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import Field

from pipeline.engine.tasks import Phase, Workspace
from pipeline.steps.again.choice import embedded_again, made_again, signed_again, steps_behind
from pipeline.steps.decode.check import DecodedRecord, check_texts, checks_of
from pipeline.steps.decode.texts import StoredTexts
from pipeline.steps.records import (
    CheckRecord,
    FoundIn,
    LookedAt,
    StepRecord,
    found_in,
    read_all,
    together,
)
from pipeline.steps.selection import kept_units
from pipeline.steps.sentences.step import SENTENCES
from pipeline.steps.split.step import SPLIT
from pipeline.steps.step import Amounts, Job, Records, Result, Scope, Step, Work, always
from pipeline.steps.tokenize.dialogues import sections_in
from pipeline.steps.tokenize.encode import LanguageTokens
from pipeline.steps.tokenize.step import STORE_FACTOR, TOKENIZE, store_need
from pipeline.steps.tokenizer.load import CHECK, load_markup
from pipeline.steps.units import Unit, fixed_bytes, sections_of
from stages.identity import ID_BYTES
from stages.seeding import threshold
from stages.store.token_store import TokenUnit

_SHARE = 0.01
_WANTED = 1_200
"""Documents of a language, on average: 1,000, and six standard deviations more."""


_MOST = 0.1
"""Of all text: the library takes eight times as long as compiled code."""
_ALWAYS = 4 << 20
"""Bytes of text that are always looked at: a second."""


@dataclass(frozen=True)
class SampledUnit:
    """A unit of the token store, and what is looked at of it."""

    unit: Unit
    shares: Mapping[str, float]
    """Of the documents of a language, where more than 1% are looked at."""


class LibraryRecord(CheckRecord):
    """What was found of a sample."""

    documents: int


def sample_shares(languages: Mapping[str, LanguageTokens]) -> dict[str, float]:
    """Return the share of each language's documents that is looked at, where it is more than 1%.

    Args:
        languages: what the token store has of each.
    """
    shares = {name: min(1.0, _WANTED / one["documents"]) for name, one in languages.items()}
    wanted = sum(share * languages[name]["bytes"] for name, share in shares.items())
    total = sum(one["bytes"] for one in languages.values())
    lowered = min(1.0, max(_MOST * total, _ALWAYS) / max(wanted, 1.0))
    return {name: share * lowered for name, share in shares.items() if share * lowered > _SHARE}


def sampled_bytes(languages: Mapping[str, LanguageTokens]) -> float:
    """Return how many bytes of text are looked at, on average.

    Args:
        languages: what the token store has of each.
    """
    shares = sample_shares(languages)
    return sum(shares.get(name, _SHARE) * one["bytes"] for name, one in languages.items())


def check_sample(workspace: Workspace, work: SampledUnit) -> LibraryRecord:
    """Hold the ids of some documents to those that the tokenizer's library gives."""
    folder = workspace.path(work.unit.tokens)
    store, documents = (
        TokenUnit.open(folder),
        pq.read_table(folder / "documents.parquet", columns=["id"], use_threads=False),
    )
    encoder = load_markup(workspace, work.unit.source, use=CHECK)
    tokenizer = encoder.tokenizer
    identities = fixed_bytes(documents.column("id"), ID_BYTES)
    stored = StoredTexts.open(work.unit, store, identities, begun=tokenizer.begin is not None)
    wrong, count = [], 0
    for part, numbers in stored.kept(workspace):
        rows = np.flatnonzero(_is_sampled(part, work.shares))
        for row in rows.tolist():
            document = part.slice(row, 1)
            (texts,) = sections_of(document)
            ids = stored.ids(numbers[row : row + 1]).parts()
            wanted = encoder.encode_by_library(sections_in(document, texts))
            if not all(map(np.array_equal, wanted, ids)):
                wrong.append(int(numbers[row]))
        count += len(rows)
    found = []
    if wrong:
        what = "have other ids than the tokenizer's own library gives their text"
        found.append(stored.finding("library", np.array(wrong), what))
    return LibraryRecord(findings=found_in(found), documents=count)


def _is_sampled(table: pa.Table, shares: Mapping[str, float]) -> NDArray[np.bool_]:
    """Say which documents are looked at: (N,) bool."""
    lowest = np.ascontiguousarray(fixed_bytes(table.column("id"), ID_BYTES)).view("<u8")[:, -1]
    languages = table.column("language").combine_chunks().dictionary_encode()
    limits = [threshold(shares.get(name, _SHARE)) for name in languages.dictionary.to_pylist()]
    last = np.array([max(limit, 1) - 1 for limit in limits], np.uint64)
    sampled: NDArray[np.bool_] = lowest <= last[languages.indices.to_numpy()]
    return sampled


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
    commits = yield Phase("decode the token store", tasks)
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
    evidence = yield from made_again(job, steps_behind(job), documents=documents)
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
    return Result(record)


def _amounts(record: DecodeRecord, records: Records) -> Amounts:
    stored = records.of(TOKENIZE)
    return Amounts(record.documents, stored.text_bytes, stored.tokens)


DECODE = Step(
    name="decode",
    version=3,
    said="decode again",
    record=DecodeRecord,
    is_check=True,
    reads=_reads,
    settings=always({}),
    need=store_need,
    work=_work,
    grows={"unit": STORE_FACTOR},
    overlaps=always(_OVERLAPPED),
    amounts=_amounts,
    unit_of=lambda name: name.removeprefix(SAMPLED),
)
