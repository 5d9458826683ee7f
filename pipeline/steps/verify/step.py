"""Verify: the rows of a dataset held to the token store, and a model that learns from them.

Learn: one task a dataset: a tiny model is trained on its rows, and what that shows is checked.

The checks are `stages.verify.dataset_check`'s. A task trains on a GPU where torch has one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import ConfigDict, Field, model_validator

from pipeline.engine.memory import Need
from pipeline.engine.tasks import Phase, TaskPlace, Workspace
from pipeline.steps.again.choice import made_again, steps_behind
from pipeline.steps.decode.step import DECODE
from pipeline.steps.dedup.step import text_need
from pipeline.steps.draw.step import DRAW
from pipeline.steps.mix.choose import MixChoice, later_of
from pipeline.steps.mix.step import MIX, MixFindings, mix_choice
from pipeline.steps.records import FoundIn, LookedAt, StepRecord, UnitRecord, found_in
from pipeline.steps.replay.step import token_units
from pipeline.steps.shard.step import DOCUMENT_ROW, SHARD, copies_need, copies_of, rows_need, rows_of
from pipeline.steps.split.step import SPLIT
from pipeline.steps.step import Amounts, Job, Records, Result, Scope, Step, Work, always
from pipeline.steps.tokenize.step import TOKENIZE
from pipeline.steps.tokenizer.load import special_ids_of
from pipeline.steps.verify.check import ShardFindings, SplitFindings, checks_of
from pipeline.steps.verify.mixed import MixCounts, count_mix
from pipeline.steps.verify.settings import Settings
from stages.config import Config, canonical_json
from stages.mixing.amounts import missed_total
from stages.mixing.audit import add_classes, audit_mix
from stages.mixing.audited import MixAudit, PackedClass
from stages.objectives.learning import LearningConfig
from stages.tokenizer.framing import row_frame, trained_ids
from stages.verify.gates import settings_of


class LearnedRecord(UnitRecord):
    """What training showed: every number of `stages.verify.dataset_check`."""

    model_config = ConfigDict(extra="allow")
    passed: bool

    @model_validator(mode="before")
    @classmethod
    def _finite(cls, content: object) -> object:
        canonical_json(content)  # which refuses NaN and infinity, of fields without a type too
        return content


@dataclass(frozen=True)
class LearningCheck:
    """One dataset to learn from."""

    dataset: str
    splits: tuple[str, ...]
    config: LearningConfig
    seed: int
    inside: bool = False
    """Whether EOS stands inside of documents, as it closes answers of dialogues."""


def learn(workspace: Workspace, work: LearningCheck) -> LearnedRecord:
    """Train on a dataset, check what can be checked by training, and say what came out."""
    import torch  # noqa: PLC0415  # seconds to import, and only this task needs it

    from stages.verify.dataset_check import check_dataset  # noqa: PLC0415  # likewise
    from stages.verify.training import Machine  # noqa: PLC0415  # likewise

    cuda = torch.cuda.is_available()
    checked = check_dataset(
        workspace.path(f"datasets/{work.dataset}"),
        splits=work.splits,
        config=work.config,
        seed=work.seed,
        inside=work.inside,
        machine=Machine("cuda" if cuda else "cpu", bfloat16=cuda),
    )
    return LearnedRecord.model_validate(checked.record)


LEARNING = 448 << 20
"""Torch, a tiny model and its rows: 430 MiB."""


class CheckedCounts(Config):
    """What was looked at."""

    rows: int
    documents: int
    tokens: int
    padding: int


class VerdictRecord(StepRecord):
    """The verdict on a dataset."""

    passed: bool
    findings: tuple[FoundIn, ...]
    learning: LearnedRecord | None
    """None where anything was found, or where nothing is to be learned."""
    checked: CheckedCounts
    fingerprints: dict[str, str | None]
    """Of the manifest of each split."""
    by_library: int
    returned: dict[str, int] = Field(default_factory=dict)
    """Both as `DecodeRecord` has them."""
    packed: dict[str, tuple[PackedClass, ...]] = Field(default_factory=dict)
    """What the rows of each split hold of each source and language; nothing of a split in which anything
    was found."""
    mix: MixAudit | None = None
    """None of datasets without one, and where rows were not counted."""
    looked: tuple[LookedAt, ...] = ()
    lacking: tuple[str, ...] = ()
    """Both as `CheckRecord` has them, of the steps of the dataset."""


def _reads(scope: Scope) -> Sequence[str]:
    made = DRAW if scope.dataset.epochs_on_disk else SHARD
    return (made.name_for(scope), DECODE.name)


def _settings(scope: Scope) -> Mapping[str, object]:
    verify = settings_of(scope.dataset.objective, scope.file.verify)
    mix = scope.file.mix_of(scope.dataset)
    audited = {} if mix is None else {"tolerance": mix.tolerance}
    return {"verify": verify, "seed": scope.file.seed, **audited}


def _need(scope: Scope) -> Need:
    return _need_with(scope, rows_need(scope))


def _need_with(scope: Scope, rows: int) -> Need:
    if scope.dataset.traits.written_for:
        most = max(LEARNING, rows + text_need(scope.file))
        return Need(most, "lower ingest.max_document_bytes")
    return Need(max(LEARNING, rows))


def _work(job: Job) -> Work[VerdictRecord]:
    file, dataset, shards = job.file, job.scope.dataset, job.records.of(SPLIT).shards
    units, splits = (
        token_units(job),
        tuple(name for name in shards if shards[name]),
    )
    checks = checks_of(dataset.name, _settings_of(job), units, shards, _choice(job))
    tasks = [job.task(unit, function, check) for unit, function, check in checks]
    need = _need_with(job.scope, copies_need(job))
    commits = yield Phase(f"verify {dataset.name}", tasks, need=need)
    heads = {split: commits[f"split-{split}"].read(SplitFindings) for split in splits}
    by_shard = {
        unit: commit.read(ShardFindings) for unit, commit in commits.items() if unit.startswith("shard-")
    }
    rows, counted = by_shard.values(), _counted(by_shard, splits)
    texts = job.records.of(DECODE)
    mixed = [commit.read(MixFindings) for unit, commit in commits.items() if unit == "mix"]
    checked = (*mixed, *heads.values(), *rows)
    audit, findings = _audited(job, counted.get("train", ()), mixed)
    again = yield from made_again(job, steps_behind(job), documents=texts.documents)
    found = (*texts.findings, *(finding for one in checked for finding in one.findings), *findings)
    found += again.findings
    learned = None
    if not found and file.verify.learning:
        inside = any(unit.dialogues for unit in units)
        check = LearningCheck(dataset.name, splits, file.verify, file.seed, inside)
        task = job.task("learning", learn, check)
        done = yield Phase(f"learn from {dataset.name}", [task], TaskPlace.TRAINER)
        learned = done[task.unit].read(LearnedRecord)
    record = VerdictRecord(
        passed=not found and (learned is None or learned.passed),
        findings=found,
        learning=learned,
        checked=CheckedCounts(
            rows=sum(one.rows for one in rows),
            documents=sum(one.documents for one in rows),
            tokens=sum(one.tokens for one in rows),
            padding=sum(one.padding for one in rows),
        ),
        fingerprints={split: one.fingerprint for split, one in heads.items()},
        by_library=texts.by_library,
        returned=texts.returned,
        packed={split: add_classes(one.classes for one in parts) for split, parts in counted.items()},
        mix=audit,
        looked=again.looked,
        lacking=again.lacking,
        warnings=() if audit is None else tuple(missed_total(audit, dataset.name)),
    )
    return Result(record)


def _choice(job: Job) -> MixChoice | None:
    """Return what the mix of the dataset is planned from, by the rules of its time."""
    record = job.records.get(MIX, job.scope.dataset.name)
    if record is None:
        return None
    return mix_choice(job, record.rules or (), later=later_of(record, job.file.replays))


def _counted(checked: Mapping[str, ShardFindings], splits: Sequence[str]) -> dict[str, list[MixCounts]]:
    """Return what was counted of the shards of each split of which all could be counted."""
    found = {}
    for split in splits:
        own = [one.mix for unit, one in checked.items() if unit.startswith(f"shard-{split}-")]
        counts = [one for one in own if one is not None]
        if len(counts) == len(own):
            found[split] = counts
    return found


def _audited(
    job: Job, counts: Sequence[MixCounts], mixed: Sequence[MixFindings]
) -> tuple[MixAudit | None, tuple[FoundIn, ...]]:
    """Return the audit of the mix of a dataset, and what is wrong with it.

    Args:
        job: of the step.
        counts: of all shards of its training split; empty if one could not be counted.
        mixed: what the token store says that the mix is to hold.
    """
    dataset = job.scope.dataset
    mix, planned = job.file.mix_of(dataset), job.records.get(MIX, dataset.name)
    if mix is None or planned is None or not counts:
        return None, ()
    audit, found = audit_mix(count_mix(counts, mix, planned, mixed))
    return audit, found_in([(f"datasets/{dataset.name}/train", finding) for finding in found])


def _settings_of(job: Job) -> Settings:
    """Return what the run file says of the dataset."""
    file, dataset, adopted = job.file, job.scope.dataset, job.scope.adopted
    known = None  # then the file beside the tokenizer alone says which ids are special
    if adopted is not None:
        known = adopted.special_ids
    elif file.tokenizer.path is None:
        known = trained_ids(file.framing, len(file.tokenizer.train.control_symbols))
    rows = rows_of(job.scope)
    if file.framing.per == "row":
        frame = row_frame(file.framing, special_ids_of(job.root) if known is None else known)
        rows = replace(rows, row_frame=frame)
    spelled_out = {} if adopted is None else adopted.spelled_out
    return Settings(rows, dataset.epochs_on_disk, known, spelled_out, copies_of(job.scope))


def _amounts(record: VerdictRecord, records: Records) -> Amounts:
    checked = record.checked
    return Amounts(checked.documents, records.of(TOKENIZE).text_bytes, checked.tokens)


def _recalled(record: VerdictRecord) -> str | None:
    return None if record.passed else "failed verification in an earlier session"


VERIFY = Step(
    name="verify",
    version=5,
    said="verify",
    record=VerdictRecord,
    of_datasets=True,
    is_check=True,
    reads=_reads,
    settings=_settings,
    need=_need,
    work=_work,
    grows={"shard_documents": DOCUMENT_ROW},
    overlaps=always((DECODE.name,)),
    amounts=_amounts,
    recalled=_recalled,
    folders=(),
)
