"""What the flow promises: a step begins, and a task is ready, as soon as what they read is there."""

import pytest

from pipeline.engine.schedule import Item, Schedule
from pipeline.engine.tasks import Phase, Phases, Task, Workspace
from stages.config import Config
from stages.errors import DataError
from tests.memory_book import MemoryBook, outcome_of, step_run, task_of


def never(workspace: Workspace, payload: object) -> Config:
    """Fail: a flow says what is ready, and does none of it."""
    raise AssertionError(f"{payload} was done in {workspace}")


def tasks(step: str, *units: str, after: str = "") -> list[Task]:
    """Return tasks of a step, each after the unit of the same name of another step, if one is named."""
    return [task_of(step, unit, never, None, *([(after, unit)] if after else [])) for unit in units]


def ready(flow: Schedule) -> list[str]:
    """Return every task that is ready, in the order in which they would be given out."""
    flow.advance()
    found = []
    while item := next(flow.ready(), None):
        flow.give(item)
        found.append(item)
    for item in found:
        flow.give_back(item)
    assert flow.num_ready == len(found)
    return ["/".join(item.task.node) for item in found]


def do(flow: Schedule, name: str) -> list[str]:
    """Do a task that is ready; return those that it made ready."""
    taken: list[Item] = []
    while "/".join((item := next(flow.ready())).task.node) != name:
        flow.give(item)
        taken.append(item)
    flow.give(item)
    for other in taken:
        flow.give_back(other)
    following, woken = flow.commit(item, outcome_of(item.task))
    assert following is None
    return ["/".join(one.task.node) for one in woken]


def test_a_step_begins_when_those_that_it_reads_are_done() -> None:
    flow = Schedule(
        [
            step_run("a", Phase("", tasks("a", "1", "2"))),
            step_run("b", Phase("", tasks("b", "1")), after=("a",)),
            step_run("c", Phase("", tasks("c", "1"))),
        ],
        MemoryBook(),
    )
    assert ready(flow) == ["a/1", "a/2", "c/1"]
    do(flow, "a/2")
    assert ready(flow) == ["a/1", "c/1"]
    do(flow, "a/1")
    assert ready(flow) == ["b/1", "c/1"]
    assert flow.is_open("b")
    assert not flow.is_open("a")
    do(flow, "c/1")
    do(flow, "b/1")
    flow.advance()
    assert flow.is_done


def test_of_a_step_that_overlaps_another_each_task_waits_for_its_unit_alone() -> None:
    ended: list[object] = []
    over = step_run("b", Phase("", tasks("b", "1", "2", after="a")), overlaps=("a",))
    over.finish = ended.append
    flow = Schedule([step_run("a", Phase("", tasks("a", "1", "2", "3"))), over], MemoryBook())
    assert ready(flow) == ["a/1", "a/2", "a/3"]
    assert do(flow, "a/2") == ["b/2"]
    assert ready(flow) == ["a/1", "a/3", "b/2"]
    do(flow, "b/2")
    assert do(flow, "a/1") == ["b/1"]
    do(flow, "b/1")
    flow.advance()
    assert ended == []  # it ends after what it overlaps
    do(flow, "a/3")
    flow.advance()
    assert len(ended) == 1
    assert flow.is_done


def test_units_that_were_committed_before_hold_up_nothing() -> None:
    book = MemoryBook()
    for task in [*tasks("a", "1"), *tasks("whole", "2")]:
        book.commit(task, outcome_of(task))
    flow = Schedule(
        [
            step_run("a", Phase("", tasks("a", "1", "2"))),
            step_run("b", Phase("", tasks("b", "1", "2", after="a")), overlaps=("a",)),
            step_run("c", Phase("", tasks("c", "2", after="whole")), overlaps=("whole",)),
        ],
        book,
    )
    assert ready(flow) == ["a/2", "b/1", "c/2"]


def test_a_phase_ends_after_its_tasks_and_after_the_steps_that_its_step_overlaps() -> None:
    def work() -> Phases[None]:
        commits = yield Phase("one", tasks("b", "1"))
        assert list(commits) == ["1"]
        yield Phase("two", tasks("b", "2"))

    book = MemoryBook()
    flow = Schedule(
        [step_run("a", Phase("only", tasks("a", "1"))), step_run("b", work(), overlaps=("a",))], book
    )
    assert ready(flow) == ["a/1", "b/1"]
    do(flow, "b/1")
    assert ready(flow) == ["a/1"]
    do(flow, "a/1")
    assert ready(flow) == ["b/2"]
    do(flow, "b/2")
    flow.advance()
    assert flow.is_done
    assert book.said == [
        "a: only 1",
        "b: one 1",
        "b: one ended",
        "a: only ended",
        "b: two 1",
        "b: two ended",
    ]


def test_a_step_without_a_phase_ends_after_the_steps_that_it_overlaps() -> None:
    def nothing() -> Phases[None]:
        yield from ()

    flow = Schedule(
        [step_run("a", Phase("", tasks("a", "1"))), step_run("b", nothing(), overlaps=("a",))],
        MemoryBook(),
    )
    assert ready(flow) == ["a/1"]
    assert flow.is_open("b")
    do(flow, "a/1")
    flow.advance()
    assert flow.is_done


def test_a_chain_goes_on_with_the_task_that_follows_and_past_those_that_are_committed() -> None:
    links = {"1": "2", "2": "3", "3": "4"}

    def follow(task: Task, _: object) -> Task | None:
        return tasks("a", links[task.unit])[0] if task.unit in links else None

    book = MemoryBook()
    (third,) = tasks("a", "3")
    book.commit(third, outcome_of(third))
    answers = []

    def work() -> Phases[None]:
        answers.append((yield Phase("", tasks("a", "1", "x"), follow=follow)))

    flow = Schedule([step_run("a", work())], book)
    flow.advance()
    first = next(flow.ready())
    flow.give(first)
    second, woken = flow.commit(first, outcome_of(first.task))
    assert second is not None
    assert (second.task.unit, woken) == ("2", [])
    fourth, _ = flow.commit(second, outcome_of(second.task))
    assert fourth is not None
    assert fourth.task.unit == "4"
    assert flow.commit(fourth, outcome_of(fourth.task)) == (None, [])
    assert do(flow, "a/x") == []
    flow.advance()
    assert [list(answer) for answer in answers] == [["1", "2", "3", "4", "x"]]
    assert book.given == [("a", "1"), ("a", "2"), ("a", "4"), ("a", "x")]


def test_an_error_is_placed_at_the_step_that_raised_it() -> None:
    def broken() -> Phases[None]:
        yield Phase("", tasks("b", "1"))
        raise DataError("wrong")

    flow = Schedule([step_run("a", Phase("", tasks("a", "1"))), step_run("b", broken())], MemoryBook())
    flow.advance()
    do(flow, "b/1")
    with pytest.raises(DataError):
        flow.advance()
    assert flow.at == (1, 1)
