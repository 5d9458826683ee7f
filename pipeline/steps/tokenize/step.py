"""Tokenize: every kept document as ids, in the token store.

Recount: the documents of a unit of the token store against its flow.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pyarrow.parquet as pq

from pipeline.engine.memory import Need
from pipeline.engine.tasks import Task, Workspace
from pipeline.steps.dedup.step import DEDUP, KEEP
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.records import CheckRecord, StepRecord, flows_of, read_all
from pipeline.steps.recount import Found, UnitRecount, differs, of_units, recounted
from pipeline.steps.selection import SELECTING, each_unit, streams
from pipeline.steps.split.step import SPLIT, encoding_need, shards_of
from pipeline.steps.step import (
    Amounts,
    Evidence,
    Inputs,
    Job,
    Records,
    Result,
    Scope,
    Step,
    Work,
    always,
)
from pipeline.steps.tokenize.encode import (
    LanguageTokens,
    StoredRecord,
    TokenizeUnit,
    language_tokens,
    tokenize_unit,
)
from pipeline.steps.tokenizer.chats import chat_loss
from pipeline.steps.units import Unit, fixed_bytes
from stages.identity import ID_BYTES
from stages.ledger import tally_of
from stages.tokenizer.framing import trained_ids
from stages.tokenizer.special import special_pieces


def recount_stored(workspace: Workspace, work: UnitRecount) -> CheckRecord:
    """Count the documents and the tokens that the store lists."""
    key = f"{work.unit.tokens}/documents.parquet"

    def stored() -> Found:
        table = pq.read_table(workspace.path(key), columns=["id", "tokens"], use_threads=False)
        tokens = int(table.column("tokens").to_numpy().sum())
        tally = tally_of(fixed_bytes(table.column("id"), ID_BYTES), tokens=tokens)
        yield from differs(key, tally, work.flow.output)

    return recounted((key, stored))


KEPT_FACTOR = 0.5
"""Of the unit, for each field of its records whose values go along: 40 bytes a document, whose record
has 80 or more on average."""

STORE_FACTOR = 2
"""Of a unit's text: its ids, as they are made and as they are stored."""


class TokenizeRecord(StepRecord):
    """The token store."""

    documents: int
    tokens: int
    space_symbols: int
    languages: dict[str, LanguageTokens]

    @property
    def text_bytes(self) -> int:
        """Bytes of the texts in it."""
        return sum(counts["bytes"] for counts in self.languages.values())


PLACES = "places"
"""The setting of sources with sections whose ids depend on where in a document they are."""
_PLACES_VERSION = 2


def _settings(scope: Scope) -> Mapping[str, object]:
    adopted = scope.adopted
    placed = [source.name for source in scope.file.file_sources if source.chat or source.section_columns]
    if adopted is None or not adopted.places or not placed:
        return {"seed": scope.file.seed}
    return {"seed": scope.file.seed, PLACES: dict.fromkeys(placed, _PLACES_VERSION)}


def store_need(scope: Scope) -> Need:
    """Return the need of a worker that holds a unit of the token store."""
    file = scope.file
    kept = max(len(source.keep_columns) for source in file.sources)
    factor = STORE_FACTOR + KEPT_FACTOR * kept
    return Need(encoding_need(file) + int(factor * int(file.ingest.unit_size)), "lower ingest.unit_size")


def markup_loss(scope: Scope) -> str | None:
    """Say what of the templates of dialogues does not fit the tokenizer, or None if nothing."""
    if scope.adopted is not None:
        return scope.adopted.chat_loss
    symbols = scope.file.tokenizer.train.control_symbols
    names, ids = special_pieces(symbols), trained_ids(scope.file.framing, len(symbols))
    return chat_loss(scope.file, names.values(), ids, names)


def _overlaps(scope: Scope) -> Sequence[str]:
    return (INGEST.name, DEDUP.name, SPLIT.name) if streams(scope) else ()


def _work(job: Job) -> Work[TokenizeRecord]:
    shards, seed = shards_of(job), job.file.seed

    def encode(unit: Unit) -> Task:
        work = TokenizeUnit(unit, shards["train"], shards["validation"], seed)
        name = unit.commit_name
        return job.task(name, tokenize_unit, work, after=[(DEDUP.name, f"{KEEP}{name}")])

    commits = yield each_unit(job, "tokenize", encode)
    stored = read_all(commits, StoredRecord)
    languages: dict[str, Counter[str]] = {}
    for unit in stored.values():
        for name, counts in unit.languages.items():
            languages.setdefault(name, Counter()).update(**counts)
    loss = markup_loss(job.scope)
    record = TokenizeRecord(
        warnings=(loss,) if loss else (),
        documents=sum(unit.documents for unit in stored.values()),
        tokens=sum(unit.tokens for unit in stored.values()),
        space_symbols=sum(unit.space_symbols for unit in stored.values()),
        languages={name: language_tokens(counts) for name, counts in sorted(languages.items())},
    )
    return Result(record, flows_of(stored))


def _amounts(record: TokenizeRecord, _: Records) -> Amounts:
    return Amounts(record.documents, record.text_bytes, record.tokens)


def _evidence(evidence: Evidence) -> Iterator[Task]:
    return of_units(evidence, recount_stored)


TOKENIZE = Step(
    name="tokenize",
    version=4,
    said="encode",
    record=TokenizeRecord,
    reads=always((SPLIT.name,)),
    settings=_settings,
    warning=markup_loss,
    need=store_need,
    work=_work,
    grows={"unit": STORE_FACTOR},
    overlaps=_overlaps,
    amounts=_amounts,
    takes=Inputs(SELECTING),
    evidence=_evidence,
    folders=("tokens",),
)
