"""What the table of steps promises: a line in it is enough, and the list reads as the flow.

Each step is one value. What of a plan, of memory, of the folder and of the report belongs to it follows
from that value; a step that leaves something out is an error when the program is imported.
"""

import ast
from dataclasses import MISSING, fields
from pathlib import Path

from pipeline.planning.plan import names_until, plan_steps, steps_before
from pipeline.state.commits import STEP_COMMIT
from pipeline.steps.records import StepRecord
from pipeline.steps.step import Scope, Step
from pipeline.steps.table import NAMES, STEPS, planned_steps, step_needs, step_of
from tests.conftest import small_run

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {step.name for step in STEPS}
RUN = small_run(
    datasets=[
        {"name": "clm"},
        {"name": "sop", "objective": {"kind": "sop"}},
        {"name": "drawn", "objective": {"kind": "mlm"}, "materialized_epochs": 1},
    ]
)
"""A run that has every step."""


def test_the_list_reads_as_the_flow() -> None:
    assert {step.name for _, step in planned_steps(Scope(RUN))} == ROOMS
    plan = {step.name: step for step in plan_steps(RUN, [])}
    order = [name for name, _ in planned_steps(Scope(RUN))]
    assert list(plan) == order
    for name in order:
        assert all(order.index(before) < order.index(name) for before in steps_before(plan, name)), name


def test_every_step_of_a_plan_is_that_of_its_name() -> None:
    for name, step in planned_steps(Scope(RUN)):
        assert step_of(name) is step
        assert step_needs(Scope(RUN))[name].bytes > 0


def test_until_a_step_are_it_and_those_that_it_depends_on() -> None:
    plan = {step.name: step for step in plan_steps(RUN, [])}
    assert names_until(plan, "scan") == set()
    assert names_until(plan, None) == set(plan)
    for name in NAMES[1:]:
        wanted = {one for one in plan if step_of(one).name == name}
        found = names_until(plan, name)
        assert wanted <= found
        assert found - wanted == {before for one in wanted for before in steps_before(plan, one)}
    assert not any(one.startswith(("decode", "verify", "draw")) for one in names_until(plan, "shard"))


def test_every_step_has_a_room_and_a_record_of_its_own() -> None:
    kinds = {step.record for step in STEPS}
    assert len(kinds) == len(STEPS)
    assert all(issubclass(kind, StepRecord) for kind in kinds)
    for name in ROOMS:
        assert (ROOT / "pipeline" / "steps" / name / "step.py").is_file()


def test_what_a_step_needs_cannot_be_left_out() -> None:
    required = {
        field.name
        for field in fields(Step)
        if field.default is MISSING and field.default_factory is MISSING
    }
    assert required == {"name", "version", "record", "reads", "settings", "need", "work"}


def test_what_a_step_takes_stands_before_it() -> None:
    names = [step.name for step in STEPS]
    taking = [step for step in STEPS if step.takes is not None]
    assert len(taking) > 4
    for step in taking:
        assert step.takes is not None
        assert names.index(step.takes.step) < names.index(step.name)


def test_the_whole_step_has_the_fingerprint_of_the_step_whatever_its_units_have() -> None:
    for step in plan_steps(RUN, []):
        assert step.fingerprint_of(STEP_COMMIT) == step.fingerprint


def test_no_other_module_asks_for_a_step_by_a_name_that_it_spells() -> None:
    """A comparison with the name of a step, or a name put together from one, belongs in its value."""
    spelled = []
    for path in sorted((ROOT / "pipeline").rglob("*.py")):
        if path.parent.name in ROOMS:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare):
                parts = [node.left, *node.comparators]
                names = [part.value for part in parts if isinstance(part, ast.Constant)]
                spelled += [f"{path.name}: {name}" for name in names if name in ROOMS]
            if isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
                begin = str(node.values[0].value)
                spelled += [f"{path.name}: {begin}" for name in ROOMS if begin == f"{name}-"]
    assert spelled == []
