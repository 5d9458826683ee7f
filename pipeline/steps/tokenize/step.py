"""Tokenize: every kept document as ids, in the token store."""

from collections import Counter
from collections.abc import Iterator, Mapping

from pipeline.engine.memory import Need
from pipeline.engine.phase import Phase
from pipeline.engine.tasks import Task
from pipeline.steps.dedup.step import DEDUP
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.records import Record, flows_of, read_all
from pipeline.steps.recount import of_units
from pipeline.steps.split.step import SPLIT, encoding_need
from pipeline.steps.step import Amounts, Evidence, Job, Records, Scope, Step, Takes, Whole, Work, always
from pipeline.steps.tokenize.encode import LanguageTokens, StoredRecord, TokenizeUnit, tokenize_unit
from pipeline.steps.tokenize.recount import recount_stored
from pipeline.steps.units import units_of


class TokenizeRecord(Record):
    """The token store."""

    documents: int
    tokens: int
    space_symbols: int
    languages: dict[str, LanguageTokens]

    @property
    def text_bytes(self) -> int:
        """Bytes of the texts in it."""
        return sum(counts.bytes for counts in self.languages.values())


def _settings(scope: Scope) -> Mapping[str, object]:
    return {"seed": scope.file.seed}


def store_need(scope: Scope) -> Need:
    """Return the need of a worker that holds a unit of the token store."""
    file = scope.file
    return Need(encoding_need(file) + 2 * int(file.ingest.unit_size), "lower ingest.unit_size")


def _work(job: Job) -> Work[TokenizeRecord]:
    units, shards = units_of(job.records.of(INGEST).units), job.records.of(SPLIT).shards
    commits = yield Phase(
        "tokenize",
        [
            job.task(
                unit.commit_name,
                tokenize_unit,
                TokenizeUnit(unit, shards["train"], shards["validation"], job.file.seed),
            )
            for unit in units
        ],
    )
    stored = read_all(commits, StoredRecord)
    languages: dict[str, Counter[str]] = {}
    for unit in stored.values():
        for name, counts in unit.languages.items():
            languages.setdefault(name, Counter()).update(counts.model_dump(exclude_none=True))
    record = TokenizeRecord(
        documents=sum(unit.documents for unit in stored.values()),
        tokens=sum(unit.tokens for unit in stored.values()),
        space_symbols=sum(unit.space_symbols for unit in stored.values()),
        languages={name: LanguageTokens(**counts) for name, counts in sorted(languages.items())},
    )
    return Whole(record, flows_of(stored))


def _amounts(record: TokenizeRecord, _: Records) -> Amounts:
    return Amounts(record.documents, record.text_bytes, record.tokens)


def _evidence(evidence: Evidence) -> Iterator[Task]:
    return of_units(evidence, recount_stored)


TOKENIZE = Step(
    name="tokenize",
    version=2,
    record=TokenizeRecord,
    reads=always((SPLIT.name,)),
    settings=_settings,
    need=store_need,
    work=_work,
    amounts=_amounts,
    takes=Takes(DEDUP.name),
    evidence=_evidence,
    folders=("tokens",),
)
