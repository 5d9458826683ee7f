"""Mix: how often the documents of each source and language are seen by a dataset.

Verify, the part of the mix: its table is what the token store and the run's settings give.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pipeline.engine.memory import Need
from pipeline.engine.tasks import Phase, TaskPlace, Workspace
from pipeline.run_file.dataset import Dataset
from pipeline.run_file.fingerprints import SomeSettings
from pipeline.steps.mix.choose import (
    LATER,
    MIX_NAME,
    MixChoice,
    MixRecord,
    choose_mix,
    later_of,
    planned_again,
    tokens_by_source,
)
from pipeline.steps.mix.count import MixUnit, MixUnitRecord, count_unit, largest_of
from pipeline.steps.mix.intervals import mix_key, read_classes
from pipeline.steps.mix.rules import EARLIER, RULES, weights_of
from pipeline.steps.records import CheckRecord, found_in, read_all, unreadable
from pipeline.steps.replay.step import REPLAY, token_units
from pipeline.steps.split.step import SPLIT
from pipeline.steps.step import Amounts, Job, Records, Result, Scope, Step, Work
from pipeline.steps.tokenize.step import TOKENIZE
from stages.errors import ConfigError, DataError
from stages.findings import Finding
from stages.mixing.later_generations import LaterGeneration
from stages.mixing.plan import MixStage
from stages.mixing.pools import DrawnSource

_COUNTING = 512 << 20
"""Bytes that counting a unit takes, and planning: under 300 for each bin that has documents."""
_COUNT = "count-"
_DECIDING = {"total_tokens", "language_alpha", "missing", "sources", "after"}


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
    return {"mix": SomeSettings(mix, _DECIDING), **({"weights": weights} if weights else {})}


def _work(job: Job) -> Work[MixRecord]:
    tasks = [job.task(f"{_COUNT}{unit.unit.commit_name}", count_unit, unit) for unit in mix_units(job)]
    counted = yield Phase(f"count documents for {job.scope.dataset.name}", tasks)
    records = read_all(counted, MixUnitRecord).values()
    choice = replace(
        mix_choice(job, job.plan.rules, later=_later(job)),
        unweighted=sum(one.unweighted for one in records),
        largest=largest_of(records),
    )
    task = job.task("choose", choose_mix, choice)
    chosen = yield Phase(f"plan the mix of {job.scope.dataset.name}", [task], TaskPlace.DRIVER)
    return Result(chosen[task.unit].read(MixRecord))


def mix_units(job: Job) -> tuple[MixUnit, ...]:
    """Return the units of the token store as a dataset's mix counts them."""
    shards, weights = job.records.of(SPLIT).shards["train"], weights_of(job.file)
    return tuple(
        MixUnit(unit, job.scope.dataset.name, shards, weights.get(unit.source))
        for unit in token_units(job)
    )


def mix_choice(job: Job, rules: Sequence[str], *, later: LaterGeneration | None) -> MixChoice:
    """Return what the mix of a dataset is planned from.

    Args:
        job: of a step of the dataset.
        rules: later rules by which it is planned.
        later: what it comes after, by the rule for later generations.
    """
    mix, before = job.file.mix_of(job.scope.dataset), stage_before(job.scope)
    assert mix is not None, "a dataset without a mix plans none"
    name = None if before is None else before.name
    own = MixChoice(job.scope.dataset.name, mix_units(job), mix, name, 0)
    return replace(own, rules=tuple(rules), later=later, stages=_stages_before(job))


def _later(job: Job) -> LaterGeneration | None:
    """Return what the mix of a later generation comes after, if it follows the rule for these."""
    if LATER not in job.plan.rules:
        return None
    earlier = job.scope.mixed.get(job.scope.dataset.name, {})
    return LaterGeneration(earlier, frozenset(job.file.replays))


def _stages_before(job: Job) -> tuple[MixStage | None, ...]:
    """Return all stages before a dataset, the first one first."""
    found: list[MixStage | None] = []
    mix = job.file.mix_of(job.scope.dataset)
    scope = job.scope
    while mix is not None and mix.after is not None:
        before = stage_before(scope)
        if before is None:
            found.append(None)
            break
        scope = replace(scope, of=before)
        mix = job.file.mix_of(before)
        assert mix is not None, "a stage before is asked for where it has a mix"
        record = job.records.of(MIX, before.name)
        found.append(MixStage(mix, later_of(record, job.file.replays)))
    return tuple(found[::-1])


def _amounts(record: MixRecord, _: Records) -> Amounts:
    return Amounts(record.documents, None, record.tokens)


def _plan_line(settings: Mapping[str, Any], record: MixRecord | None) -> str:
    """Say what is asked of each source, and once the mix is planned what it has of each."""
    mix = settings["mix"]
    planned = {} if record is None else tokens_by_source(record)
    later = {} if record is None else {one.source: one for one in record.later}
    earlier = settings.get(EARLIER, {})
    lines = []
    for name, asked in mix["sources"].items():
        epochs = 1.0 if asked["epochs"] is None else asked["epochs"]
        said = f"epochs {epochs:g}" if asked["share"] is None else f"share {asked['share']:g}"
        if record is not None:
            tokens = planned.get(name, 0)
            said += f" ({tokens:,} tokens, {tokens / max(record.tokens, 1):.2%}"
            if name in later:
                said += f"; {later[name].share_all:.2%} of all generations"
                said += f"; {later[name].left_out:,} documents left out"
            said += ")"
        elif earlier:
            said += f" ({earlier.get(name, 0) / max(sum(earlier.values()), 1):.2%} so far)"
        lines.append(f"{name} {said}")
    total = "" if mix["total_tokens"] is None else f" of {mix['total_tokens']:,} tokens"
    if total and record is not None:
        total += f", which has {record.tokens:,}"
    after = "" if mix["after"] is None else f", after {mix['after']}"
    alpha = "" if mix["language_alpha"] == 1 else f", language_alpha {mix['language_alpha']:g}"
    return f"{', '.join(lines)}{total}{alpha}{after}"


MIX = Step(
    name=MIX_NAME,
    version=1,
    said="choose the mix",
    record=MixRecord,
    of_datasets=True,
    applies=_applies,
    reads=_reads,
    settings=_settings,
    need=lambda _: Need(_COUNTING),
    work=_work,
    amounts=_amounts,
    replayed=(TOKENIZE.name,),
    plan_line=_plan_line,
    rules=RULES,
    folders=("mix", "work"),
    unread=("work/mix/",),
    whole=(count_unit, choose_mix),
)


class MixFindings(CheckRecord):
    """What was found of a mix, and what the token store says that it is to hold."""

    drawn: tuple[DrawnSource, ...] = ()
    """What is asked of each source with epochs."""
    largest: int | None = None
    """Tokens of the largest training document."""


def check_mix(workspace: Workspace, work: MixChoice) -> MixFindings:
    """Count the documents of the token store again, plan the mix again, and compare."""
    key = mix_key(work.dataset)
    try:
        found = read_classes(workspace, work.dataset)
        planned, largest = planned_again(workspace, work)
    except (DataError, ConfigError, OSError) as error:
        return MixFindings(findings=found_in([(key, unreadable(error))]))
    if found == planned.classes:
        return MixFindings(findings=(), drawn=planned.drawn, largest=largest)
    differ = sorted(one.order for one in set(found).symmetric_difference(planned.classes))
    source, language, level = differ[0]
    message = (
        f"{len(differ):,} of its classes are not as the token store and the settings give them; the"
        f" first is of source {source!r}, language {language!r} and level {level}"
    )
    return MixFindings(findings=found_in([(key, Finding("mix", message))]))
