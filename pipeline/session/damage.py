"""Damage: committed files that are missing, or that are not what was committed, as a run begins.

Presence and size are looked at in every session, of every step of the plan. A run without --replace
refuses a damaged folder by name. With it, every digest is compared too; what is damaged is forgotten and
made anew, and so is all that depends on it.
"""

from collections.abc import Mapping

from pipeline.planning.plan import steps_before
from pipeline.session.execution import Execution
from pipeline.state.commit_object import way_out
from pipeline.state.commits import SCAN, STEP_COMMIT
from pipeline.steps.step import StepPlan
from stages.errors import DataError

_NAMED = 3


def settle_damage(execution: Execution, plan: Mapping[str, StepPlan], *, replace: bool) -> None:
    """Refuse damaged files, or forget their commits and those of all steps that depend on them.

    Args:
        execution: the session.
        plan: steps by name.
        replace: whether to forget.

    Raises:
        DataError: a committed file is missing, or is not what was committed.
    """
    found = {name: _damaged_units(execution, step, digests=replace) for name, step in plan.items()}
    found = {name: units for name, units in found.items() if units}
    for name in execution.commits.steps():
        if name not in plan and name != SCAN:
            for fault in list(execution.commits.survey(name).damaged.values())[:_NAMED]:
                execution.progress.note(f"warning: {fault}; {left_over(name)}")
    if not found:
        return
    faults = [fault for units in found.values() for fault in units.values()]
    if not replace:
        more = f"; and {len(faults) - _NAMED} more" if len(faults) > _NAMED else ""
        raise DataError(f"{'; '.join(faults[:_NAMED])}{more}; {way_out(next(iter(found)))}")
    for name in reversed(list(plan)):  # last first: a kill on the way leaves a shorter, sound run
        if not found.keys().isdisjoint(steps_before(plan, name)):
            execution.commits.drop(name)
            execution.journal.log("replace", step=name)
        elif name in found:
            execution.commits.drop(name, {*found[name], STEP_COMMIT})
            execution.journal.log("replace", step=name, units=sorted(found[name]))
    execution.progress.note(f"redoing {', '.join(found)} and all later steps, because {faults[0]}")


def left_over(step: str) -> str:
    """Say what helps where a damaged file is of a step that the run file no longer has."""
    dataset = step.partition("-")[2]
    folder = f" and datasets/{dataset}" if dataset else ""
    return (
        f"the run file has no step {step} any more: restore the file, or put the dataset back and run"
        f" with --replace, or delete commits/{step}{folder}"
    )


def _damaged_units(execution: Execution, step: StepPlan, *, digests: bool) -> dict[str, str]:
    """Return the units of a step with a damaged file, and what is wrong with it."""
    survey = execution.commits.survey(step.name)
    damaged = dict(survey.damaged)
    if digests:
        sound = {unit: commit for unit, commit in survey.commits.items() if unit not in damaged}
        owners = {key: unit for unit, commit in sound.items() for key in commit.files}
        files = {key: digest for commit in sound.values() for key, digest in commit.files.items()}
        for key, fault in execution.changed_files(step, files).items():
            damaged[owners[key]] = f"{execution.root / key}: {fault}"
        if not damaged:
            execution.commits.mark_checked(step.name)
    return damaged
