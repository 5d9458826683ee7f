"""Settling: a step is committed as a whole once its ledger adds up."""

from collections.abc import Mapping
from typing import Any

from pipeline.commits import Commit
from pipeline.execution import Execution
from pipeline.ledger import read_flows, settle
from pipeline.plan import StepPlan
from stages.ledger import Flow, Tally


def let_out(execution: Execution, step: str) -> dict[str, Tally]:
    """Return what a finished step let out of each of its units."""
    return {unit: flow.output for unit, flow in read_flows(execution.root, step).items()}


def flows_of(commits: Mapping[str, Commit]) -> dict[str, Flow]:
    """Return the flow of each unit from its commit's record."""
    return {unit: Flow.model_validate(commit.record["flow"]) for unit, commit in commits.items()}


def settled(
    execution: Execution,
    step: StepPlan,
    commits: Mapping[str, Commit],
    record: Mapping[str, Any],
    *,
    before: str | None = None,
) -> Mapping[str, Any]:
    """Commit a step as a whole, once its units add up and took all that the step before let out.

    Args:
        execution: of the run.
        step: the step.
        commits: of its units.
        record: what later steps read of it.
        before: the step before, if it has the same units.
    """
    flows = flows_of(commits)
    total = settle(step.name, flows, None if before is None else let_out(execution, before))
    ledger = total.model_dump(mode="json")
    return execution.finish(step, {**record, "ledger": ledger}, flows).record
