"""Sentences: where they end, for the objectives that ask.

Sentences: where the sentences of every document end, for the objectives that ask; from ids alone.

sentences/UNIT/ptr.npy    (D + 1,) <i8   sentences of document d of the unit's token store
sentences/UNIT/ends.npy   (S,) <i8       after how many of its tokens each ends, the EOS with the last
"""

from collections.abc import Iterator
from importlib.metadata import version

import numpy as np

from pipeline.engine.memory import Need
from pipeline.engine.tasks import Phase, Workspace
from pipeline.steps.dedup.step import text_need
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.names import read_rows
from pipeline.steps.records import StepRecord, UnitRecord, flows_of, read_all
from pipeline.steps.step import Inputs, Job, Result, Scope, Step, Work, always
from pipeline.steps.tokenize.step import TOKENIZE
from pipeline.steps.tokenizer.load import load_tokenizer
from pipeline.steps.units import Unit, stored_tally, units_of
from stages.ledger import Flow
from stages.store.arrays import array_writer, write_array
from stages.store.token_store import TokenUnit
from stages.tokenizer.sentences import split_sentences


class SentencesRecord(UnitRecord):
    """The sentences of a unit."""

    documents: int
    sentences: int


def find_sentences(workspace: Workspace, unit: Unit) -> SentencesRecord:
    """Split the documents of one unit of the token store."""
    pieces = load_tokenizer(workspace).codec.spelling
    folder = workspace.path(unit.tokens)
    store = TokenUnit.open(folder)
    target = workspace.create(unit.sentences)
    ids, count = np.asarray(store.ids), len(store.places)
    ptr, tokens = np.zeros(count + 1, "<i8"), 0
    with array_writer(target / "ends.npy", dtype="<i8") as append:
        languages = languages_of(workspace, unit, count)
        for number, (language, place) in enumerate(zip(languages, store.places.tolist(), strict=True)):
            ends = split_sentences(ids[slice(*place)], language, pieces)
            append(ends)
            tokens += int(ends[-1]) if len(ends) else 0
            ptr[number + 1] = ptr[number] + len(ends)
    write_array(target / "ptr.npy", ptr)
    received = stored_tally(folder / "documents.parquet")
    flow = Flow(
        input=received,
        output=received.model_copy(update={"documents": count, "tokens": tokens}),
    )
    return SentencesRecord(documents=count, sentences=int(ptr[-1]), flow=flow)


def languages_of(workspace: Workspace, unit: Unit, count: int) -> Iterator[str]:
    """Return the language of each document of a unit of the store."""
    path = workspace.path(unit.tokens) / "documents.parquet"
    for table in read_rows(path, ["language"], 0, count):
        yield from table.column("language").to_pylist()


class AllSentencesRecord(StepRecord):
    """The sentences of the token store."""

    documents: int
    sentences: int


def _applies(scope: Scope) -> bool:
    return scope.file.needs_sentences


def _need(scope: Scope) -> Need:
    return Need(text_need(scope.file), "lower ingest.max_document_bytes")


def _work(job: Job) -> Work[AllSentencesRecord]:
    units = units_of(job.records.of(INGEST).units)
    tasks = [
        job.task(name, find_sentences, unit, after=[(TOKENIZE.name, name)])
        for unit, name in ((unit, unit.commit_name) for unit in units)
    ]
    commits = yield Phase("split sentences", tasks)
    found = read_all(commits, SentencesRecord)
    record = AllSentencesRecord(
        documents=sum(unit.documents for unit in found.values()),
        sentences=sum(unit.sentences for unit in found.values()),
    )
    return Result(record, flows_of(found))


SENTENCES = Step(
    name="sentences",
    version=1,
    said="find sentences",
    record=AllSentencesRecord,
    applies=_applies,
    reads=always((TOKENIZE.name,)),
    settings=always({"sentencex": version("sentencex")}),
    need=_need,
    work=_work,
    overlaps=always((TOKENIZE.name,)),
    takes=Inputs((TOKENIZE.name,)),
    folders=("sentences",),
)
