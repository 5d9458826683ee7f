"""Tokenizer: trained on a balanced sample, or taken as it is."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.engine.memory import Need, room_of_worker
from pipeline.engine.tasks import Phase, TaskPlace
from pipeline.inputs.balanced_text import balance_of
from pipeline.run_file.config import RunFile, TokenizerLimits
from pipeline.run_file.fingerprints import SomeSettings, fingerprint_of
from pipeline.state.ledger import checked_flow, let_out
from pipeline.steps.dedup.step import sides_key, text_need
from pipeline.steps.records import flows_of, read_all
from pipeline.steps.selection import SELECTING, kept_units, last_selecting, selection
from pipeline.steps.step import Amounts, Inputs, Job, Records, Result, Scope, Step, StepPlan, Work
from pipeline.steps.tokenizer.adopt import adopt_tokenizer
from pipeline.steps.tokenizer.limits import (
    cost_warnings,
    costs_of,
    coverage_warnings,
    require_limits,
)
from pipeline.steps.tokenizer.load import FOLDER
from pipeline.steps.tokenizer.parallel import (
    MEASURE,
    ParallelRecord,
    measure_parallel,
    measured_settings,
    measuring_need,
)
from pipeline.steps.tokenizer.training import (
    SampleRecord,
    SampleUnit,
    TokenizerRecord,
    TokenizerTraining,
    measure_trained,
    sample_unit,
    sampling_rates,
    train_tokenizer,
)
from stages.tokenizer.normalization import normalization_loss
from stages.tokenizer.sampling import SamplingConfig, balanced_targets, held_out_shares
from stages.tokenizer.train import TrainConfig, fitting_sample, training_memory

SAMPLE = "sample"
"""Begins the names of the samples, one a unit of ingest."""
LANGUAGE = 2 << 10
"""The sums and the share of one language: 1.7 KiB measured, in the driver and the worker together."""


def _settings(scope: Scope) -> Mapping[str, object]:
    adopted = scope.adopted
    if adopted is not None:
        what = {"sha256": adopted.sha256, "special_ids": dict(adopted.special_ids)}
        what |= {"spelled_out": dict(adopted.spelled_out)} if adopted.spelled_out else {}
        return {"tokenizer": {adopted.kind.value: what}}
    begin, end = scope.file.framing.stored_roles  # what is meant, however the run file says it
    own = {} if (begin, end) == (None, "eos") else {"framing": {"begin": begin, "end": end}}
    return {"tokenizer": {**_training(scope.file.tokenizer.train), **own}, **_held_out(scope.file)}


def _training(config: TrainConfig) -> dict[str, object]:
    """Return what decides the tokenizer beside its sample; of the text that balances it the digest."""
    train = SomeSettings(config, set(TrainConfig.model_fields) - {"parity"})
    balanced = {"parity": SomeSettings(config.parity, {"digest"})} if config.is_balanced else {}
    return {"train": train, **balanced}


def _held_out(file: RunFile) -> dict[str, object]:
    """Return what decides which documents are not trained on."""
    return {"validation": SomeSettings(file.validation, {"fraction"}), "seed": file.seed}


def _units(scope: Scope, before: Mapping[str, StepPlan]) -> dict[str, str]:
    """Return the fingerprints of the samples, and of the measuring on parallel text.

    The samples stay while only the training of the model changes, and the model while only what it is
    measured on does.
    """
    made = [_settings(scope), [before[name].fingerprint for name in _reads(scope)]]
    measured = measured_settings(scope.file.tokenizer.fairness)
    measuring = {MEASURE: fingerprint_of([MEASURE, TOKENIZER.version, made, measured])}
    if scope.adopted is not None:
        return measuring
    sampling = SomeSettings(scope.file.tokenizer.train, set(SamplingConfig.model_fields))
    kept = before[last_selecting(scope.file)].fingerprint
    parts = [SAMPLE, TOKENIZER.version, sampling, _held_out(scope.file), kept]
    return {SAMPLE: fingerprint_of(parts), **measuring}


def _unit_key(unit: str) -> str | None:
    if unit == MEASURE:
        return MEASURE
    return SAMPLE if unit.startswith(f"{SAMPLE}-") else None


def _plan_line(settings: Mapping[str, Any], _: TokenizerRecord | None) -> str | None:
    """List what contents of dialogues spell out, though the tokenizer finds it in other texts."""
    ((_, what),) = [*settings["tokenizer"].items()][:1]
    found = what.get("spelled_out", {}) if isinstance(what, Mapping) else {}
    said = [
        f"contents of {source} spell out {', '.join(own['ids'])}"
        + (" in all turns" if own["in_answers"] else " where their role is not learned")
        for source, own in found.items()
    ]
    return "; ".join(said) or None


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


def language_sizes(job: Job) -> dict[str, int]:
    """Return the bytes of kept text of each language."""
    return {name: size["bytes"] for name, size in selection(job).languages.items()}


def sample_works(job: Job, config: TrainConfig) -> list[SampleUnit]:
    """Return what `sample_unit` draws of each unit, in canonical order."""
    sizes, sides = language_sizes(job), sides_key(job.scope)
    rates, held_out = sampling_rates(sizes, config), held_out_shares(sizes, config)
    return [
        SampleUnit(unit, rates, job.file.validation, job.file.seed, sides, held_out)
        for unit in kept_units(job)
    ]


def training_work(job: Job, config: TrainConfig) -> TokenizerTraining:
    """Return what `train_tokenizer` trains on these samples."""
    targets = balanced_targets(language_sizes(job), config)
    return TokenizerTraining(kept_units(job), config, targets, job.file.framing, balance_of(config))


def _after(scope: Scope) -> Sequence[str]:
    """Return what says which languages there are, where limits hold for them."""
    limited = scope.file.tokenizer.limits != TokenizerLimits()
    return (last_selecting(scope.file),) if limited else ()


def _work(job: Job) -> Work[TokenizerRecord]:
    made = yield from (_adopted if job.scope.adopted is not None else _trained)(job)
    trained, section = job.scope.adopted is None, job.file.tokenizer
    task = job.task(MEASURE, measure_parallel, section.fairness, fingerprint=job.plan.units[MEASURE])
    need = measuring_need(section)
    commits = yield Phase("measure the tokenizer", [task], need=need, urgent=True)
    measured = commits[task.unit].read(ParallelRecord)
    known = trained or bool(_after(job.scope))
    languages = selection(job).languages if known else ()
    costs = costs_of(made.record, measured, languages, train=section.train if trained else None)
    require_limits(costs, section.limits, job.root)
    if not trained:  # what is not worth a stop is told once its languages are known
        return made
    warnings = (*cost_warnings(costs, section.limits), *coverage_warnings(made.record, section))
    return Result(made.record.model_copy(update={"warnings": warnings}), made.flows)


def _adopted(job: Job) -> Work[TokenizerRecord]:
    assert job.scope.adopted is not None, "there is a tokenizer to take"
    task = job.task("adopt", adopt_tokenizer, job.scope.adopted)
    taken = yield Phase("take the tokenizer", [task], TaskPlace.DRIVER)
    return Result(taken[task.unit].read(TokenizerRecord))


def _trained(job: Job) -> Work[TokenizerRecord]:
    config = job.file.tokenizer.train
    sizes, works = language_sizes(job), sample_works(job, config)
    samples = yield Phase(
        "sample for the tokenizer",
        [
            job.task(
                f"{SAMPLE}-{work.unit.commit_name}",
                sample_unit,
                work,
                fingerprint=job.plan.units[SAMPLE],
            )
            for work in works
        ],
    )
    sampled = {unit.removeprefix(f"{SAMPLE}-"): commit for unit, commit in samples.items()}
    flows = flows_of(read_all(sampled, SampleRecord))
    checked_flow(
        "tokenizer", flows, let_out(job.root, last_selecting(job.file))
    )  # before hours of training
    task = job.task("train", train_tokenizer, training_work(job, config))
    need = training_need(job.file, sum(sizes.values()), workers=job.workers, languages=len(sizes))
    little = sum(sizes.values()) <= LITTLE_TEXT and len(sizes) <= FEW_LANGUAGES
    where = TaskPlace.WORKERS if little else TaskPlace.OWN_ACTOR
    trained = yield Phase("train the tokenizer", [task], where, need=need)
    return Result(trained[task.unit].read(TokenizerRecord), flows)


def _amounts(record: TokenizerRecord, _: Records) -> Amounts:
    return Amounts(bytes=record.sample_bytes)


TOKENIZER = Step(
    name="tokenizer",
    version=3,
    said="train the tokenizer",
    record=TokenizerRecord,
    reads=_reads,
    after=_after,
    settings=_settings,
    units=_units,
    unit_key=_unit_key,
    warning=_warning,
    plan_line=_plan_line,
    need=_need,
    work=_work,
    amounts=_amounts,
    takes=Inputs(SELECTING),
    unit_of=lambda name: name.removeprefix(f"{SAMPLE}-"),
    folders=(FOLDER, "work"),
    outside=(measure_parallel,),
    remade={sample_unit: sample_unit, train_tokenizer: measure_trained},
    unread=("work/sample/", "work/held-out/"),
    owned_folder=FOLDER,
)
