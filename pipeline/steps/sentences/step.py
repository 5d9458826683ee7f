"""Sentences: where they end, for the objectives that ask."""

from importlib.metadata import version

from pipeline.engine.memory import Need
from pipeline.engine.phase import Phase
from pipeline.steps.dedup.step import text_need
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.records import StepRecord, flows_of, read_all
from pipeline.steps.sentences.find import SentencesRecord, SentenceUnit, find_sentences
from pipeline.steps.step import Job, Scope, Step, Takes, Whole, Work, always
from pipeline.steps.tokenize.step import TOKENIZE
from pipeline.steps.units import units_of


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
        job.task(name, find_sentences, SentenceUnit(unit), after=[(TOKENIZE.name, name)])
        for unit, name in ((unit, unit.commit_name) for unit in units)
    ]
    commits = yield Phase("split sentences", tasks)
    found = read_all(commits, SentencesRecord)
    record = AllSentencesRecord(
        documents=sum(unit.documents for unit in found.values()),
        sentences=sum(unit.sentences for unit in found.values()),
    )
    return Whole(record, flows_of(found))


SENTENCES = Step(
    name="sentences",
    version=1,
    record=AllSentencesRecord,
    applies=_applies,
    reads=always((TOKENIZE.name,)),
    settings=always({"sentencex": version("sentencex")}),
    need=_need,
    work=_work,
    overlaps=always((TOKENIZE.name,)),
    takes=Takes((TOKENIZE.name,)),
    folders=("sentences",),
)
