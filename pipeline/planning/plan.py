"""The plan: every step with its fingerprint, and what is done, to do, or stale.

A step's fingerprint is the digest of the settings that differ from their defaults, its version and its
inputs' fingerprints, so it is known before anything runs. `memory`, workers and paths are no part of
it, and a new setting at its default changes none.

Rules that steps were given later: which of them a finished run was made without.

A run that such a rule changes has the rule in its fingerprint. A step that was finished before stays
done, and `verify` says what is otherwise there.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from pipeline.inputs.files import InputFile
from pipeline.planning.generations import recorded_mixes
from pipeline.run_file.config import RunFile
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.steps.earlier_runs import EarlierRun
from pipeline.steps.kept_plan import KeptPlan, KeptStep
from pipeline.steps.replay.step import REPLAY, REPLAYED
from pipeline.steps.replayed_runs import ReplayedRun
from pipeline.steps.step import Records, Scope, StepPlan
from pipeline.steps.table import STEPS, step_of
from pipeline.steps.tokenize.step import PLACES
from pipeline.steps.tokenizer.adopt import AdoptedTokenizer
from stages.config import canonical_json
from stages.errors import ConfigError, FormatError
from stages.tokenizer.existing import TokenizerKind


class State(StrEnum):
    """How far a step is."""

    DONE = "done"
    PARTIAL = "partial"
    NEW = "new"
    STALE = "stale"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class StepStatus:
    """What is there of a step, and why it is not more."""

    step: StepPlan
    state: State
    commits: int
    """Units committed."""
    stale: tuple[str, ...] = ()
    """Commits that another plan made, or whose files are not what was committed."""
    why: str = ""
    replaced: str | None = None
    """What `--replace` does to a folder with later generations, if the step is stale."""
    plan_line: str | None = None
    """What it is to make, and what came of that once it is done."""
    untried: str | None = None
    """What only `run` finds out of the store that the run is to lie in."""


def plan_steps(
    run: RunFile,
    files: Sequence[InputFile],
    adopted: AdoptedTokenizer | None = None,
    *,
    earlier: tuple[EarlierRun, ...] = (),
) -> list[StepPlan]:
    """Return the steps of a run in the order of the flow.

    Args:
        run: the run file.
        files: the input files.
        adopted: its tokenizer, if it trains none.
        earlier: the runs that it is deduplicated against.
    """
    return plan_scope(Scope(run, files, adopted, earlier=earlier))


def plan_scope(whole: Scope) -> list[StepPlan]:
    """Return the steps of what is planned, in the order of the flow."""
    plan: dict[str, StepPlan] = {}
    for step in STEPS:
        for scope in step.scopes(whole):
            plan[step.name_for(scope)] = step.plan(scope, plan)
    return list(plan.values())


def steps_before(plan: Mapping[str, StepPlan], name: str) -> list[str]:
    """Return the names of all steps that a step depends on, first the nearest."""
    found: list[str] = []
    waiting = [*plan[name].inputs, *plan[name].after]
    for step in waiting:
        if step not in found:
            found.append(step)
            waiting += (*plan[step].inputs, *plan[step].after)
    return found


def names_until(plan: Mapping[str, StepPlan], until: str | None) -> set[str]:
    """Return the names of a step, of each dataset if it has one for each, and of all that it depends on.

    Args:
        plan: steps by name.
        until: one of `pipeline.steps.table.NAMES`; None is all of them.
    """
    if until is None:
        return set(plan)
    wanted = [name for name in plan if step_of(name).name == until]
    return {*wanted, *(before for name in wanted for before in steps_before(plan, name))}


def scope_again(run: RunFile, kept: KeptPlan, *, generation: int = 0) -> Scope:
    """Return what the settings in a run's run.json are planned for, without its input files.

    Args:
        run: the run file.
        kept: what run.json says.
        generation: its number by the name of its folder, if run.json says none.

    Raises:
        ConfigError: run.json says nothing of the input files or of the tokenizer.
    """
    try:
        steps = kept.steps
        ingest = steps["ingest"].config
        files = [
            InputFile(source, path, Path(path), int(ingest.get("sizes", {}).get(key, 0)), digest)
            for key, digest in ingest["files"].items()
            for source, _, path in [key.partition("/")]
        ]
        earlier = kept.earlier()
        replay = steps.get(REPLAY.name)
        replayed = ReplayedRun.recorded(replay.config[REPLAYED] if replay is not None else ())
        adopted = None
        if run.tokenizer.path is not None:
            ((kind, what),) = steps["tokenizer"].config["tokenizer"].items()
            found = what["sha256"], TokenizerKind(kind), what["special_ids"]
            adopted = AdoptedTokenizer(
                Path(run.tokenizer.path),
                *found,
                vocab_size=0,
                loss=None,
                spelled_out=what.get("spelled_out", {}),
                places=PLACES in steps["tokenize"].config,
            )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(
            f"run.json: is damaged ({error}); run the run file again, which writes it anew"
        ) from error
    return Scope(
        run,
        files,
        adopted,
        earlier=earlier,
        replayed=replayed,
        generation=kept.generation or generation,
        finished={name: step.fingerprint for name, step in steps.items()},
        mixed=recorded_mixes(steps),
    )


def plan_again(run: RunFile, kept: KeptPlan, *, generation: int = 0) -> list[StepPlan]:
    """Return the steps of a run as the settings in its run.json give them.

    Args and errors are those of `scope_again`.
    """
    return plan_scope(scope_again(run, kept, generation=generation))


def status_of(
    steps: Sequence[StepPlan], commits: Commits, *, before: Mapping[str, KeptStep]
) -> list[StepStatus]:
    """Compare the plan with what is committed.

    Args:
        steps: the plan.
        commits: what is there.
        before: the steps of the last run in this folder, to say what changed.
    """
    return [_with_plan_line(_status(step, commits, before.get(step.name)), commits) for step in steps]


def _with_plan_line(status: StepStatus, commits: Commits) -> StepStatus:
    """Return a status with what people are told of the step."""
    step, plan, record = step_of(status.step.name), status.step, None
    if step.plan_line is None:
        return status
    if status.state is State.DONE:
        whole = commits.get(plan.name, STEP_COMMIT, plan.fingerprint)
        record = None if whole is None else whole.read(step.record)
    said = step.plan_line(plan.config, record)
    return replace(status, plan_line=None if said is None else f"{plan.name}: {said}")


def _status(step: StepPlan, commits: Commits, before: KeptStep | None) -> StepStatus:
    survey = commits.survey(step.name)
    found = dict(survey.commits)
    whole = found.pop(STEP_COMMIT, None)
    wrong = [unit for unit, commit in found.items() if step.fingerprint_of(unit) != commit.fingerprint]
    if whole is not None and whole.fingerprint != step.fingerprint:
        wrong.append(STEP_COMMIT)
    if wrong:
        return StepStatus(step, State.STALE, len(found), tuple(wrong), _changes(step, before, wrong))
    if survey.damaged:
        why = next(iter(survey.damaged.values()))
        return StepStatus(step, State.DAMAGED, len(found), tuple(survey.damaged), why)
    if whole is not None:
        return StepStatus(step, State.DONE, len(found))
    if found:
        return StepStatus(step, State.PARTIAL, len(found), why="stopped before its end")
    return StepStatus(step, State.NEW, 0)


def _changes(step: StepPlan, before: KeptStep | None, wrong: Sequence[str]) -> str:
    """Say which settings differ from the last run's.

    Args:
        step: as it is planned.
        before: the step of the last run.
        wrong: its units that another plan made.
    """
    if before is None:
        return "made with other settings"
    if before.fingerprint == step.fingerprint and STEP_COMMIT not in wrong:
        return f"what {', '.join(wrong[:3])} alone depends on changed"
    old, new = _flat(before.config), _flat(json.loads(canonical_json(dict(step.config))))
    changed = [
        said
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key) and (said := _change(key, old.get(key), new.get(key)))
    ]
    if not changed:
        return f"what it reads changed ({', '.join(step.inputs)})" if step.inputs else "new version"
    more = f", and {len(changed) - 3} more" if len(changed) > 3 else ""  # noqa: PLR2004  # enough to see why
    return ", ".join(changed[:3]) + more


def _change(key: str, old: object, new: object) -> str:
    """Say what became of a setting or of an input file, whose size changes with its digest alone."""
    kind, _, name = key.partition(".")
    if kind == "sizes":
        return ""
    if kind == "files":
        return f"{name} {'is new' if old is None else 'is gone' if new is None else 'changed'}"
    return f"{key}: {_show(old)} -> {_show(new)}"


def _show(value: object) -> str:
    text = "absent" if value is None else str(value)
    return text if len(text) <= 24 else text[:21] + "..."  # noqa: PLR2004  # a digest's first half


def _flat(value: object, prefix: str = "") -> dict[str, object]:
    if not isinstance(value, Mapping):
        return {prefix: value}
    return {
        key: item
        for name, part in value.items()
        for key, item in _flat(part, f"{prefix}.{name}" if prefix else name).items()
    }


def finished_steps(commits: Commits) -> dict[str, str]:
    """Return the fingerprints of the steps of a folder that are whole and have later rules, by name."""
    ruled = {step.name for step in STEPS if step.rules}
    found = {}
    for name in commits.steps():
        if name.split("-", maxsplit=1)[0] not in ruled:
            continue
        try:
            whole = commits.whole(name)
        except FormatError:  # damaged, which is said where its files are looked at
            continue
        if whole is not None:
            found[name] = whole.fingerprint
    return found


def missed_rules(
    output: Path, plan: Mapping[str, StepPlan], scope: Scope, records: Records
) -> Iterator[str]:
    """Yield, for people, what is otherwise in a finished run that was made without later rules.

    Args:
        output: the run's folder.
        plan: its steps by name.
        scope: what they are planned for.
        records: of its steps.
    """
    for step in STEPS:
        for one in step.scopes(scope):
            planned = plan[step.name_for(one)]
            for rule in step.rules:
                said = rule.missed(output, records, one) if rule.name in planned.missed else None
                if said is not None:
                    yield said
