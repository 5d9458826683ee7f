"""The report of a run: a frozen model of the records of its steps, and of what was seen of its files.

    records of steps -> Report -> page, card, terminal
                              -> JSON: report/report.json, and what the commands return

Its fields stand in the order of report.json. The JSON of a record has no flow and no warnings: the
report has a place for each.
"""

from typing import Annotated, Any, NewType

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from pipeline.report.before import RepeatedText
from pipeline.report.made import Made
from pipeline.report.part import Part
from pipeline.report.shown_rows import ShownRow
from pipeline.report.similarity import Similarity
from pipeline.report.texts import Lengths, TextSample
from pipeline.report.verdicts import word_of
from pipeline.steps.decontaminate.gather import SetCounts
from pipeline.steps.dedup.clusters import LargeCluster
from pipeline.steps.dedup.limits import SourceRemovals
from pipeline.steps.draw.step import EpochsRecord
from pipeline.steps.ingest.record import Sample
from pipeline.steps.records import AuditReport, LookedAt
from pipeline.steps.shard.make import ManifestRecord
from pipeline.steps.split.choice import SplitRecord
from pipeline.steps.tokenizer.training import TokenizerRecord
from pipeline.steps.verify.step import VerdictRecord
from stages.ledger import Flow
from stages.mixing.audited import MixAudit

RunReport = NewType("RunReport", dict[str, Any])
"""The JSON of a `Report`."""


def _plain(record: BaseModel) -> dict[str, Any]:
    """Return a record as JSON, without what the report has in places of its own."""
    return record.model_dump(
        mode="json", exclude={"ledger": True, "warnings": True, "flow": True, "learning": {"flow"}}
    )


def _plain_verdict(verdict: VerdictRecord) -> dict[str, Any]:
    """Return a verdict as JSON.

    `returned` is there if not every text comes back as it was, `packed` if rows were counted, and
    `total_tokens` if the mix asks for a number of tokens.
    """
    content = {"verdict": word_of(verdict), **_plain(verdict)}
    for key in ("returned", "packed"):
        if not content[key]:
            del content[key]
    del content["mix"]  # which has a place of its own
    mix = verdict.mix
    if mix is not None and mix.total_asked is not None and mix.total_bound is not None:
        content["total_tokens"] = {
            "asked": mix.total_asked,
            "held": mix.tokens,
            "bound": mix.total_bound,
        }
    return content


def _only_record(content: object) -> object:
    """Leave out what the JSON of a verdict has beside its record."""
    if not isinstance(content, dict):
        return content
    return {key: value for key, value in content.items() if key in VerdictRecord.model_fields}


_PLAIN = PlainSerializer(_plain)
_Verdict = Annotated[VerdictRecord, BeforeValidator(_only_record), PlainSerializer(_plain_verdict)]
SplitTotals = dict[str, Annotated[ManifestRecord, _PLAIN]]


class DocumentCounts(Part):
    """What became of the documents that were read."""

    read: int
    dropped: dict[str, int]
    named_drops: tuple[str, ...]
    cleaned: int
    text_bytes: int
    changed: dict[str, int] = Field(default_factory=dict)
    noticed: dict[str, dict[str, int]] = Field(default_factory=dict)
    """What readers met that is no drop, by source and in words."""
    samples: tuple[Sample, ...] = ()
    """Of what filters dropped."""
    evaluation_sets: dict[str, SetCounts] | None = None
    removed: dict[str, int] | None = None
    kept: int | None = None
    removed_by_source: dict[str, SourceRemovals] | None = None
    clusters: tuple[LargeCluster, ...] | None = None
    """The largest clusters of duplicates."""
    cut_bytes: dict[str, int] | None = None
    """Bytes of text that are cut from kept documents, by what was repeated."""
    cut_documents: int | None = None
    """Kept documents that lost some."""


class LanguageRow(Part):
    """One language of the token store."""

    language: str
    documents: int
    bytes: int
    tokens: int
    unknown: int | None = None
    byte_tokens: int | None = None
    """Tokens that are single bytes or parts of characters."""
    byte_fallback: float | None = None
    """Share of bytes among the tokens of text that a trained tokenizer has not seen."""


class Fairness(Part):
    """What the languages of the corpus take for the same text, out of tokenizer/parity.json."""

    reference: str
    unit: str
    """What a text is: a sentence, or a part of the declaration."""
    sentences: int
    """Texts in each language."""
    tokenizers: dict[str, int]
    """Their names and the sizes of their vocabularies; the run's own is `run`."""
    languages: dict[str, dict[str, dict[str, float]]]
    """By language of the corpus and tokenizer: rates by the names of docs/format.md."""


class Packed(Part):
    """How the documents of one source, or of one language, lie in the rows of a split."""

    name: str
    documents: int
    tokens: int
    padding: int
    """Positions without a token; a row's are shared by its documents, by their tokens in it."""
    cut_documents: int
    """That lie in several rows."""
    tokens_behind_cuts: int
    """Of these, in other rows than the document's first."""
    tokens_cut: int
    """In no row."""
    learned: int | None = None
    """Tokens with a loss, of datasets in which only some have one."""
    silent_segments: int | None = None
    """Of these datasets, pieces of documents in a row without a token that has a loss."""


class SplitPacking(Part):
    """Padding and cuts of one split."""

    fingerprint: str
    """Of the split that was counted."""
    sources: tuple[Packed, ...]
    languages: tuple[Packed, ...]
    reason: str | None = None
    """Why nothing was counted."""


class StepCost(Part):
    """What a step cost, over all attempts."""

    step: str
    units: int
    documents: int | None
    bytes: int | None
    tokens: int | None
    began: float
    ended: float
    wall_seconds: float
    worker_seconds: int | float
    """An int if no unit of it is left; likewise the next."""
    cpu_seconds: int | float
    peak_memory: int
    bytes_per_second: int | None


class StageShares(Part):
    """One stage of a curriculum."""

    dataset: str
    tokens: int
    shares: dict[str, float]
    """Of each source, of the stage's tokens in rows."""
    seen: dict[str, float]
    """How many times a document of each source was taken, on average, in this stage and all before."""


class ReportedMix(MixAudit):
    """The mix of one dataset."""

    stages: tuple[StageShares, ...] = ()
    """The stages up to this one, of a dataset that follows another."""

    @model_serializer(mode="wrap")
    def _without_no_stages(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        content: dict[str, object] = dump(self)
        if not self.stages:
            content.pop("stages", None)
        return content


class WholeSource(Part):
    """One source over all generations."""

    documents: int
    tokens: int
    share: float
    share_last: float | None = None
    """Of the last of these generations alone, where the dataset has a mix; likewise the next two."""
    left_out: int | None = None
    """Documents of the last generation that it does not have."""
    share_asked: float | None = None
    """Of a source with a share."""


class WholeDataset(Part):
    """A dataset over a run and its generations so far."""

    generations: int
    """Of which it is the sum, the first run included."""
    documents: int
    tokens: int
    sources: dict[str, WholeSource]


class SeenEvidence(Part):
    """How much of the evidence was made again and compared."""

    looked: tuple[LookedAt, ...]
    lacking: tuple[str, ...]
    """Keys of records that an earlier version did not write: what they say is not checked."""


class Report(Part):
    """The report of a run: report/report.json."""

    name: str
    output: str
    sources: dict[str, dict[str, str | None]]
    passed: bool | None
    """None until every dataset was verified."""
    stopped: str | None
    """Why the work stopped before its end, if it did."""
    audit: AuditReport | None
    ledger: dict[str, Flow]
    skipped: dict[str, dict[str, int]]
    """Files that are not read, of each source by reason; warnings name some."""
    documents: DocumentCounts
    tokenizer: Annotated[TokenizerRecord, _PLAIN] | None
    warnings: tuple[str, ...]
    languages: tuple[LanguageRow, ...]
    split: Annotated[SplitRecord, _PLAIN] | None
    datasets: dict[str, SplitTotals]
    packing: dict[str, dict[str, SplitPacking]]
    epochs_on_disk: dict[str, dict[str, Annotated[EpochsRecord, _PLAIN]]]
    verify: dict[str, _Verdict]
    steps: tuple[StepCost, ...]
    mix: dict[str, ReportedMix] = Field(default_factory=dict)
    """Of the datasets that have one, as far as they were verified."""
    whole: dict[str, WholeDataset] = Field(default_factory=dict)
    """Of a generation: each dataset over all generations up to it."""
    similarity: Similarity | None = None
    """Of runs that remove duplicates."""
    repeated: tuple[RepeatedText, ...] | None = None
    """Of runs that cut repeated text out of documents: what was cut most."""
    languages_before: dict[str, int] | None = None
    """Documents by language before duplicates were removed; of runs with a token store."""
    lengths: Lengths | None = None
    """Of runs with a token store: how long the documents are that are left."""
    texts: TextSample | None = None
    """What a sample of the documents is made of that were read and not dropped."""
    rows: dict[str, ShownRow] | None = None
    """The beginning of one row of each dataset that was verified."""
    made: Made | None = None
    evidence: SeenEvidence | None = None
    fairness: Fairness | None = None
    written: bool = True
    """False where the folder of the run can only be read: the report is not kept there."""
    generations: dict[str, "Report"] = Field(default_factory=dict)
    """Later ones, by name; `passed` is of all."""

    @property
    def plain(self) -> RunReport:
        """Its JSON."""
        return RunReport(self.model_dump(mode="json"))
