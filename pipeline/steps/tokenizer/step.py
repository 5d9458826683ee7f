"""Tokenizer: trained on a balanced sample, or taken as it is."""

from collections.abc import Mapping, Sequence

from pipeline.engine.memory import Need, room_of_worker
from pipeline.engine.phase import Phase, Where
from pipeline.run_file.config import RunFile
from pipeline.run_file.fingerprints import Some, fingerprint_of
from pipeline.state.ledger import let_out, settle
from pipeline.steps.dedup.step import sides_key, text_need
from pipeline.steps.records import flows_of, read_all
from pipeline.steps.selection import SELECTING, kept_units, last_selecting, selection
from pipeline.steps.step import Amounts, Job, Records, Scope, Step, StepPlan, Takes, Whole, Work
from pipeline.steps.tokenizer.adopt import adopt_tokenizer
from pipeline.steps.tokenizer.limits import fallback_warnings, require_fallback
from pipeline.steps.tokenizer.load import FOLDER
from pipeline.steps.tokenizer.training import (
    SampleRecord,
    SampleUnit,
    TokenizerRecord,
    TokenizerTraining,
    sample_unit,
    sampling_rates,
    train_tokenizer,
)
from stages.tokenizer.normalization import normalization_loss
from stages.tokenizer.sampling import SamplingConfig, balanced_targets, held_out_shares
from stages.tokenizer.train import fitting_sample, training_memory

SAMPLE = "sample"
"""Begins the names of the samples, one a unit of ingest."""
LANGUAGE = 2 << 10
"""The sums and the share of one language: 1.7 KiB measured, in the driver and the worker together."""


def _settings(scope: Scope) -> Mapping[str, object]:
    adopted = scope.adopted
    if adopted is not None:
        what = {"sha256": adopted.sha256, "special_ids": dict(adopted.special_ids)}
        return {"tokenizer": {adopted.kind.value: what}}
    begin, end = scope.file.framing.stored_roles  # what is meant, however the run file says it
    own = {} if (begin, end) == (None, "eos") else {"framing": {"begin": begin, "end": end}}
    return {"tokenizer": {"train": scope.file.tokenizer.train, **own}, **_held_out(scope.file)}


def _held_out(file: RunFile) -> dict[str, object]:
    """Return what decides which documents are not trained on."""
    return {"validation": Some(file.validation, {"fraction"}), "seed": file.seed}


def _units(scope: Scope, before: Mapping[str, StepPlan]) -> dict[str, str]:
    """Return the fingerprint of the samples: they stay while only the training of the model changes."""
    if scope.adopted is not None:
        return {}
    sampling = Some(scope.file.tokenizer.train, set(SamplingConfig.model_fields))
    kept = before[last_selecting(scope.file)].fingerprint
    parts = [SAMPLE, TOKENIZER.version, sampling, _held_out(scope.file), kept]
    return {SAMPLE: fingerprint_of(parts)}


def _unit_key(unit: str) -> str | None:
    return SAMPLE if unit.startswith(f"{SAMPLE}-") else None


LITTLE_TEXT, FEW_LANGUAGES = 4 << 20, 1 << 10
"""Training on so little leaves little memory with a worker; an actor that then ends costs a second."""


def _warning(scope: Scope) -> str | None:
    if scope.adopted is not None:
        return "; ".join(filter(None, (scope.adopted.loss, scope.adopted.offer))) or None
    return normalization_loss(scope.file.tokenizer.train.normalization)


def _need(scope: Scope) -> Need:
    return Need(text_need(scope.file), "lower ingest.max_document_bytes")


def training_need(file: RunFile, corpus: int, *, workers: int, languages: int = 0) -> Need:
    """Return the need of training the tokenizer on what is sampled of so many bytes of text.

    Args:
        file: the run file.
        corpus: bytes of text that the sample is drawn from.
        workers: of the run.
        languages: whose shares of the sample are settled.
    """
    config, shares = file.tokenizer.train, languages * LANGUAGE
    room = room_of_worker(int(file.resources.memory), workers) - shares
    fitting = fitting_sample(config, room) >> 20

    def taken(sample: int) -> int:
        return shares + training_memory(config.model_copy(update={"sample_size": sample}))

    needed = taken(min(int(config.sample_size), corpus))
    if not fitting:
        return Need(needed)
    remedy = f"set tokenizer.train.sample_size to {fitting}MiB or less"
    return Need(needed, remedy, lowered=taken(fitting << 20))


def _reads(scope: Scope) -> Sequence[str]:
    return (last_selecting(scope.file),) if scope.adopted is None else ()


def _work(job: Job) -> Work[TokenizerRecord]:
    adopted, config = job.scope.adopted, job.file.tokenizer.train
    if adopted is not None:
        task = job.task("adopt", adopt_tokenizer, adopted)
        taken = yield Phase("take the tokenizer", [task], Where.DRIVER)
        return Whole(taken[task.unit].read(TokenizerRecord))
    units, languages = kept_units(job), selection(job).languages
    sizes = {name: size["bytes"] for name, size in languages.items()}
    rates, held_out = sampling_rates(sizes, config), held_out_shares(sizes, config)
    samples = yield Phase(
        "sample for the tokenizer",
        [
            job.task(
                f"{SAMPLE}-{unit.commit_name}",
                sample_unit,
                SampleUnit(
                    unit, rates, job.file.validation, job.file.seed, sides_key(job.scope), held_out
                ),
                fingerprint=job.plan.units[SAMPLE],
            )
            for unit in units
        ],
    )
    sampled = {unit.removeprefix(f"{SAMPLE}-"): commit for unit, commit in samples.items()}
    flows = flows_of(read_all(sampled, SampleRecord))
    settle("tokenizer", flows, let_out(job.root, last_selecting(job.file)))  # before hours of training
    training = TokenizerTraining(units, config, balanced_targets(sizes, config), job.file.framing)
    task = job.task("train", train_tokenizer, training)
    need = training_need(job.file, sum(sizes.values()), workers=job.workers, languages=len(sizes))
    little = sum(sizes.values()) <= LITTLE_TEXT and len(sizes) <= FEW_LANGUAGES
    where = Where.WORKERS if little else Where.ALONE
    trained = yield Phase("train the tokenizer", [task], where, need=need)
    record = trained[task.unit].read(TokenizerRecord)
    require_fallback(record, job.file.tokenizer.limits, job.root)
    warnings = tuple(fallback_warnings(record, job.file.tokenizer))
    return Whole(record.model_copy(update={"warnings": warnings}), flows)


def _amounts(record: TokenizerRecord, _: Records) -> Amounts:
    return Amounts(bytes=record.sample_bytes)


TOKENIZER = Step(
    name="tokenizer",
    version=2,
    record=TokenizerRecord,
    reads=_reads,
    settings=_settings,
    units=_units,
    unit_key=_unit_key,
    warning=_warning,
    need=_need,
    work=_work,
    amounts=_amounts,
    takes=Takes(SELECTING),
    unit_of=lambda name: name.removeprefix(f"{SAMPLE}-"),
    folders=(FOLDER, "work"),
    unread=("work/sample/", "work/held-out/"),
    sole=FOLDER,
)
