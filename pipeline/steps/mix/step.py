"""Mix: how often the documents of each source and language are seen by a dataset."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.engine.memory import Need
from pipeline.engine.phase import Phase, Where
from pipeline.run_file.config import Dataset, RunFile
from pipeline.run_file.fingerprints import Some
from pipeline.steps.mix.choose import MixChoice, MixRecord, choose_mix
from pipeline.steps.mix.count import MixUnit, MixUnitRecord, count_unit
from pipeline.steps.records import read_all
from pipeline.steps.replay.step import REPLAY, token_units
from pipeline.steps.split.step import SPLIT
from pipeline.steps.step import Amounts, Job, Records, Scope, Step, Whole, Work
from pipeline.steps.tokenize.step import TOKENIZE

_COUNTING = 512 << 20
"""Bytes that counting a unit takes, and planning: under 300 for each bin that has documents."""
_COUNT = "count-"
_DECIDING = {"total_tokens", "language_alpha", "missing", "sources", "after"}


def weights_of(file: RunFile) -> dict[str, str]:
    """Return the field that holds the weight of the documents of each source that has one."""
    return {one.name: one.weight_column for one in file.sources if one.weight_column is not None}


def stage_before(scope: Scope) -> Dataset | None:
    """Return the dataset that is trained on before this one, if it has a mix of its own."""
    mix = scope.file.mix_of(scope.dataset)
    named = [one for one in scope.file.datasets if mix is not None and one.name == mix.after]
    return named[0] if named and scope.file.mix_of(named[0]) is not None else None


def _applies(scope: Scope) -> bool:
    return scope.file.mix_of(scope.dataset) is not None


def _reads(scope: Scope) -> Sequence[str]:
    before = stage_before(scope)
    replay = (REPLAY.name,) if scope.file.replays else ()
    stage = () if before is None else (f"{MIX_NAME}-{before.name}",)
    return (TOKENIZE.name, *replay, *stage)


def _settings(scope: Scope) -> Mapping[str, object]:
    mix = scope.file.mix_of(scope.dataset)
    assert mix is not None, "a dataset without a mix has no such step"
    weights = weights_of(scope.file)
    return {"mix": Some(mix, _DECIDING), **({"weights": weights} if weights else {})}


def _work(job: Job) -> Work[MixRecord]:
    tasks = [job.task(f"{_COUNT}{unit.unit.commit_name}", count_unit, unit) for unit in mix_units(job)]
    counted = yield Phase(f"count documents for {job.scope.dataset.name}", tasks)
    records = read_all(counted, MixUnitRecord).values()
    choice = mix_choice(job, unweighted=sum(one.unweighted for one in records))
    task = job.task("choose", choose_mix, choice)
    chosen = yield Phase(f"plan the mix of {job.scope.dataset.name}", [task], Where.DRIVER)
    return Whole(chosen[task.unit].read(MixRecord))


def mix_units(job: Job) -> tuple[MixUnit, ...]:
    """Return the units of the token store as a dataset's mix counts them."""
    shards, weights = job.records.of(SPLIT).shards["train"], weights_of(job.file)
    return tuple(
        MixUnit(unit, job.scope.dataset.name, shards, weights.get(unit.source))
        for unit in token_units(job)
    )


def mix_choice(job: Job, *, unweighted: int = 0) -> MixChoice:
    """Return what the mix of a dataset is planned from."""
    mix, before = job.file.mix_of(job.scope.dataset), stage_before(job.scope)
    assert mix is not None, "a dataset without a mix plans none"
    name = None if before is None else before.name
    return MixChoice(job.scope.dataset.name, mix_units(job), mix, name, unweighted)


def _amounts(record: MixRecord, _: Records) -> Amounts:
    return Amounts(record.documents, None, record.tokens)


def _told(settings: Mapping[str, Any], record: MixRecord | None) -> str:
    """Say what is asked of each source, and once the mix is planned what it has of each."""
    mix = settings["mix"]
    planned: dict[str, int] = {}
    for one in () if record is None else record.classes:
        planned[one.source] = planned.get(one.source, 0) + one.tokens
    lines = []
    for name, asked in mix["sources"].items():
        epochs = 1.0 if asked["epochs"] is None else asked["epochs"]
        said = f"epochs {epochs:g}" if asked["share"] is None else f"share {asked['share']:g}"
        if record is not None:
            tokens = planned.get(name, 0)
            said += f" ({tokens:,} tokens, {tokens / max(record.tokens, 1):.2%})"
        lines.append(f"{name} {said}")
    total = "" if mix["total_tokens"] is None else f" of {mix['total_tokens']:,} tokens"
    after = "" if mix["after"] is None else f", after {mix['after']}"
    alpha = "" if mix["language_alpha"] == 1 else f", language_alpha {mix['language_alpha']:g}"
    return f"{', '.join(lines)}{total}{alpha}{after}"


MIX_NAME = "mix"
MIX = Step(
    name=MIX_NAME,
    version=1,
    record=MixRecord,
    of_datasets=True,
    applies=_applies,
    reads=_reads,
    settings=_settings,
    need=lambda _: Need(_COUNTING),
    work=_work,
    amounts=_amounts,
    replayed=(TOKENIZE.name,),
    told=_told,
    folders=("mix", "work"),
    unread=("work/mix/",),
)
