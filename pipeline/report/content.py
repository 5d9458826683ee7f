"""What the commands return and print with --json: the keys of each report, and what stands there.

What a row holds stands in `row_content`.
"""

from typing import NotRequired, TypedDict

from pipeline.report.before import RepeatedContent
from pipeline.report.clusters import ClusterContent
from pipeline.report.made import MadeContent
from pipeline.report.mix_content import MixContent, PackedClassContent, WholeContent
from pipeline.report.plain import JsonObject
from pipeline.report.shown_rows import ShownRow
from pipeline.report.similarity import SimilarityContent
from pipeline.report.texts import LengthsContent, TextsContent

CurveContent = list[tuple[int, float | None]]
"""Steps and their losses; None where a loss is not finite."""


class FindingContent(TypedDict):
    """One broken law, and the file that breaks it."""

    file: str
    check: str
    message: str


class AuditContent(TypedDict):
    """What an audit looked at, and what it found."""

    files: int
    bytes: int
    findings: list[FindingContent]
    missed: list[str]


class LookedContent(TypedDict):
    """How much of some evidence was looked at."""

    what: str
    unit: str
    """tasks, rows or documents."""
    looked: int
    of: int


class EvidenceContent(TypedDict):
    """How much of the evidence was made again and compared."""

    looked: list[LookedContent]
    lacking: list[str]
    """Keys of records that an earlier version did not write: what they say is not checked."""


class TallyContent(TypedDict):
    """Documents, and what they hold, as far as a step counts it."""

    documents: int
    ids: str
    bytes: int | None
    tokens: int | None
    rows: int | None


class FlowContent(TypedDict):
    """What came into a step, what left it, what is gone by reason, and the copies that a mix added."""

    input: TallyContent
    output: TallyContent
    gone: dict[str, TallyContent]
    added: NotRequired[dict[str, TallyContent]]


class SampleContent(TypedDict):
    """A document that a filter dropped."""

    reason: str
    id: str
    place: str
    detail: str
    excerpt: str


class SourceRemovalsContent(TypedDict):
    """What deduplication removed of a source."""

    documents: int
    removed: int


class ContaminationContent(TypedDict):
    """A document that holds an item of an evaluation set."""

    set: str
    item: str
    id: str
    own_id: str | None
    """Of the document, as its `id`."""
    source: str
    words: int
    share: float
    matched: str


class EvaluationSetContent(TypedDict):
    """What was found of an evaluation set."""

    items: int
    unused: int
    found: int
    common: int
    dropped: int
    reported: int
    samples: list[ContaminationContent]


class DocumentsContent(TypedDict):
    """What became of the documents that were read."""

    read: int
    dropped: dict[str, int]
    named_drops: list[str]
    cleaned: int
    text_bytes: int
    changed: NotRequired[dict[str, int]]
    samples: NotRequired[list[SampleContent]]
    removed: NotRequired[dict[str, int]]
    kept: NotRequired[int]
    removed_by_source: NotRequired[dict[str, SourceRemovalsContent]]
    clusters: NotRequired[list[ClusterContent]]
    """The largest clusters of duplicates."""
    evaluation_sets: NotRequired[dict[str, EvaluationSetContent]]
    cut_bytes: NotRequired[dict[str, int]]
    """Bytes of text that are cut from kept documents, by what was repeated."""
    cut_documents: NotRequired[int]
    """Kept documents that lost some."""
    noticed: NotRequired[dict[str, dict[str, int]]]
    """What readers met that is no drop, by source and in words."""


class LanguageContent(TypedDict):
    """One language of the token store."""

    language: str
    documents: int
    bytes: int
    tokens: int
    unknown: NotRequired[int]
    byte_tokens: NotRequired[int]
    """Tokens that are single bytes or parts of characters."""
    byte_fallback: NotRequired[float]
    """Share of bytes among the tokens of text that a trained tokenizer has not seen."""


class FairnessContent(TypedDict):
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


class SplitContent(TypedDict):
    """One split of a dataset."""

    rows: int
    documents: int
    tokens: int
    tokens_cut: int
    frame_tokens: int
    """Of its tokens, those that frame rows and are no document's."""
    padding: int
    fingerprint: str


class PackedContent(TypedDict):
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
    learned: NotRequired[int]
    """Tokens with a loss, of datasets in which only some have one."""
    silent_segments: NotRequired[int]
    """Of these datasets, pieces of documents in a row without a token that has a loss."""


class PackingContent(TypedDict):
    """Padding and cuts of one split."""

    fingerprint: str
    """Of the split that was counted."""
    sources: list[PackedContent]
    languages: list[PackedContent]
    reason: NotRequired[str]
    """Why nothing was counted."""


class GateContent(TypedDict):
    """A bound, and the number that was held to it."""

    name: str
    value: float | None
    relation: str
    bound: float
    passed: bool


class SupplyContent(TypedDict):
    """How fast the loader was."""

    wait_share: float
    tokens_per_second: float
    mfu: float | None


class ResumeContent(TypedDict):
    """A training that stopped and went on."""

    steps: int
    max_difference: float
    supply: SupplyContent


class ContrastContent(TypedDict):
    """Views told from those of other texts."""

    loss: float | None
    chance: float
    curve: CurveContent


class LearningContent(TypedDict):
    """What training showed; there is more in it."""

    device: str
    gated: bool
    passed: bool
    gates: list[GateContent]
    reason: NotRequired[str]
    contrast: NotRequired[ContrastContent]
    loss: float | None
    unigram_entropy: float | None
    control_loss: float | None
    resume: ResumeContent


class CheckedContent(TypedDict):
    """What was looked at."""

    rows: int
    documents: int
    tokens: int
    padding: int


class TotalContent(TypedDict):
    """The training tokens of a dataset whose mix has `total_tokens`."""

    asked: int
    held: int
    """In rows."""
    bound: float
    """By how many they may differ."""


class VerdictContent(TypedDict):
    """The verdict on a dataset."""

    verdict: str
    """pass, unproven or fail: `pipeline.report.verdicts`."""
    passed: bool
    """Whether nothing was found to be wrong."""
    findings: list[FindingContent]
    learning: LearningContent | None
    checked: CheckedContent
    fingerprints: dict[str, str | None]
    by_library: int
    """Documents that the tokenizer's own library encoded again, to the same ids."""
    returned: NotRequired[dict[str, int]]
    packed: NotRequired[dict[str, list[PackedClassContent]]]
    """What the rows of each split hold of each source and language."""
    total_tokens: NotRequired[TotalContent]


class StepContent(TypedDict):
    """What a step cost, over all attempts."""

    step: str
    units: int
    documents: int | None
    bytes: int | None
    tokens: int | None
    began: float
    ended: float
    wall_seconds: float
    worker_seconds: float
    cpu_seconds: float
    peak_memory: int
    bytes_per_second: int | None


class RunReport(TypedDict):
    """The report of a run: report/report.json."""

    name: str
    output: str
    sources: dict[str, dict[str, str | None]]
    passed: bool | None
    """None until every dataset was verified."""
    stopped: str | None
    """Why the work stopped before its end, if it did."""
    written: NotRequired[bool]
    """False where the folder of the run can only be read: the report is not kept there."""
    audit: AuditContent | None
    ledger: dict[str, FlowContent]
    skipped: dict[str, dict[str, int]]
    """Files that are not read, of each source by reason; warnings name some."""
    documents: DocumentsContent
    tokenizer: JsonObject | None
    warnings: list[str]
    languages: list[LanguageContent]
    fairness: NotRequired[FairnessContent]
    evidence: NotRequired[EvidenceContent]
    split: JsonObject | None
    datasets: dict[str, dict[str, SplitContent]]
    packing: dict[str, dict[str, PackingContent]]
    epochs_on_disk: dict[str, JsonObject]
    mix: NotRequired[dict[str, MixContent]]
    """Of the datasets that have one, as far as they were verified."""
    whole: NotRequired[dict[str, WholeContent]]
    """Of a generation: each dataset over all generations up to it."""
    verify: dict[str, VerdictContent]
    steps: list[StepContent]
    similarity: NotRequired[SimilarityContent]
    """Of runs that remove duplicates."""
    repeated: NotRequired[list[RepeatedContent]]
    """Of runs that cut repeated text out of documents: what was cut most."""
    languages_before: NotRequired[dict[str, int]]
    """Documents by language before duplicates were removed; of runs with a token store."""
    texts: NotRequired[TextsContent]
    """What a sample of the documents is made of that were read and not dropped."""
    lengths: NotRequired[LengthsContent]
    """Of runs with a token store: how long the documents are that are left."""
    rows: NotRequired[dict[str, ShownRow]]
    """The beginning of one row of each dataset that was verified."""
    made: NotRequired[MadeContent]
    generations: NotRequired["dict[str, RunReport]"]  # later ones, by name; `passed` is of all


class PlannedContent(TypedDict):
    """One step of a plan."""

    step: str
    state: str
    units_committed: int
    why: str
    warning: str | None
    told: str | None
    replaced: str | None
    """What `--replace` does to a folder with later generations, if the step is stale."""
    reads: list[str]
    fingerprint: str | None
