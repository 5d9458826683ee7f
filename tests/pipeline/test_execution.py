"""What the execution promises: each task is committed once, and what it gives has the tasks' order."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.commits import Commit
from pipeline.execution import Execution
from pipeline.memory import Need
from pipeline.pools import WorkerResources
from pipeline.session import open_execution
from pipeline.steps.step import StepPlan
from pipeline.tasks import Task, Workspace
from stages.config import Config

STEP = StepPlan(name="shard-x", fingerprint="f", inputs=(), config={})
OTHER = StepPlan(name="verify-x", fingerprint="g", inputs=(), config={})


class Noted(Config):
    """What a task was given."""

    payload: str


def note(work: Workspace, payload: str) -> Noted:
    """Leave a trace of each time that it is done."""
    with (work.root / "done").open("a") as file:
        file.write(f"{payload} ")
    return Noted(payload=payload)


def task(name: str, step: StepPlan = STEP) -> Task:
    """Return a task of one step."""
    return Task(name, note, name, step.fingerprint)


@pytest.fixture
def execution(tmp_path: Path) -> Iterator[Execution]:
    """An execution in this process."""
    needs = {step.name: Need(1 << 20) for step in (STEP, OTHER)}
    resources = WorkerResources(0, None, 4 << 30)
    with open_execution(tmp_path, resources, needs=needs, stream=None) as opened:
        yield opened


def test_commits_come_in_the_order_of_the_tasks_whichever_were_there_first(execution: Execution) -> None:
    execution.run(STEP, [task("c"), task("b")], title="some")
    commits = execution.run(STEP, [task(name) for name in "abcd"], title="all")
    assert list(commits) == ["a", "b", "c", "d"]
    assert [commit.record["payload"] for commit in commits.values()] == ["a", "b", "c", "d"]
    assert (execution.root / "done").read_text() == "c b a d "


def test_a_chain_is_gone_on_with_where_it_was_left(execution: Execution) -> None:
    def follow(done: Task, commit: Commit) -> Task | None:
        assert commit.record["payload"] == done.payload
        return task(done.payload + "-") if len(done.payload) < 3 else None

    assert list(execution.run(STEP, [task("a")], title="one")) == ["a"]
    commits = execution.run(STEP, [task("a"), task("b")], title="chains", follow=follow)
    assert list(commits) == ["a", "a-", "a--", "b", "b-", "b--"]
    assert (execution.root / "done").read_text() == "a a- a-- b b- b-- "


def test_work_across_steps_is_told_of_every_commit_and_done_once(execution: Execution) -> None:
    work = {"x": (STEP, task("one")), "y": (OTHER, task("two", OTHER))}
    told: list[tuple[str, str]] = []

    def done(name: str, commit: Commit) -> None:
        told.append((name, commit.read(Noted).payload))

    execution.one(OTHER, work["y"][1], title="before")
    execution.across(work, done, title="work on")
    assert sorted(told) == [("x", "one"), ("y", "two")]
    execution.across(work, done, title="work on")
    assert sorted(told) == [("x", "one"), ("x", "one"), ("y", "two"), ("y", "two")]
    assert (execution.root / "done").read_text() == "two one "
