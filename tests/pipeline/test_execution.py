"""What the execution promises: each task is committed once, and what it gives has the tasks' order."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.engine.memory import Need, WorkerResources
from pipeline.engine.step_run import StepRun, one_phase
from pipeline.engine.tasks import Phase, Task, Workspace
from pipeline.session.execution import Execution, open_execution
from pipeline.state.commit_object import Commit
from pipeline.steps.step import StepPlan
from stages.config import Config

STEP = StepPlan(name="shard-x", fingerprint="f", inputs=(), config={})


class Noted(Config):
    """What a task was given."""

    payload: str


def note(work: Workspace, payload: str) -> Noted:
    """Leave a trace of each time that it is done."""
    with (work.root / "done").open("a") as file:
        file.write(f"{payload} ")
    return Noted(payload=payload)


def task(name: str) -> Task:
    """Return a task of the step."""
    return Task(STEP.name, name, note, name, STEP.fingerprint)


@pytest.fixture
def execution(tmp_path: Path) -> Iterator[Execution]:
    """An execution in this process."""
    resources = WorkerResources(0, None, 4 << 30)
    with open_execution(tmp_path, resources, needs={STEP.name: Need(0)}, stream=None) as opened:
        yield opened


def commits_of(execution: Execution, phase: Phase) -> dict[str, Commit]:
    """Do a phase; return its commits as a step is given them."""
    given: list[dict[str, Commit]] = []
    execution.do([StepRun(STEP.name, Need(0), one_phase(phase), given.append)])
    return given[0]


def test_commits_come_in_the_order_of_the_tasks_whichever_were_there_first(execution: Execution) -> None:
    commits_of(execution, Phase("some", [task("c"), task("b")]))
    commits = commits_of(execution, Phase("all", [task(name) for name in "abcd"]))
    assert list(commits) == ["a", "b", "c", "d"]
    assert [commit.record["payload"] for commit in commits.values()] == ["a", "b", "c", "d"]
    assert (execution.root / "done").read_text() == "c b a d "


def test_a_chain_is_gone_on_with_where_it_was_left(execution: Execution) -> None:
    def follow(done: Task, commit: Commit) -> Task | None:
        assert commit.record["payload"] == done.payload
        return task(done.payload + "-") if len(done.payload) < 3 else None

    assert list(commits_of(execution, Phase("one", [task("a")]))) == ["a"]
    commits = commits_of(execution, Phase("chains", [task("a"), task("b")], follow=follow))
    assert list(commits) == ["a", "a-", "a--", "b", "b-", "b--"]
    assert (execution.root / "done").read_text() == "a a- a-- b b- b-- "


def test_a_chain_of_many_committed_tasks_is_gone_along(execution: Execution) -> None:
    def follow(done: Task, _: Commit) -> Task | None:
        return task(str(int(done.payload) + 1)) if int(done.payload) < 1_500 else None

    first = commits_of(execution, Phase("chain", [task("0")], follow=follow))
    assert commits_of(execution, Phase("again", [task("0")], follow=follow)) == first
    assert list(first)[-1] == "1500"


def test_what_is_asked_is_not_committed(execution: Execution) -> None:
    assert execution.ask(STEP, [task("a")], Noted) == [Noted(payload="a")]
    assert execution.ask(STEP, [], Noted) == []
    assert execution.commits.survey(STEP.name).commits == {}
