"""What the dataflow promises of memory: no more works at a time than has room, less if it is short."""

import os
import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import pipeline.engine.dataflow
from pipeline.engine.memory import BASE, MIB, WORKER, Need
from pipeline.engine.step_run import StepRun
from pipeline.engine.tasks import Phase, Task
from pipeline.engine.watch import MemoryWatch
from pipeline.state.commit_object import Commit
from stages.errors import ConfigError
from tests.memory_book import step_run
from tests.pipeline.trials import (
    Trial,
    Trials,
    hold,
    meet,
    nap_alone,
    phase,
    pids,
    say_who,
    task,
)

pytestmark = pytest.mark.slow


class _OnceOver(MemoryWatch):
    """A watch that sees too much once, when it is told to."""

    armed = False

    @contextmanager
    def guard(self, give_up: Callable[[], object]) -> Iterator[None]:
        """Give up a worker at once."""
        if self.armed:
            self.armed = False
            give_up()
        yield


WATCH = _OnceOver(1 << 40, print)


@pytest.fixture(scope="module")
def pair(by_value: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:  # noqa: ARG001  # see there
    """Return a trial of two workers that have 150 MiB for their tasks."""
    root, memory = tmp_path_factory.mktemp("pair") / "run", BASE + 2 * WORKER + 150 * MIB
    made = Trial(root, workers=2, memory=memory, watch=WATCH)
    yield made
    made.flow.close()


def test_of_idle_workers_the_one_that_holds_most_goes_and_the_others_do_the_work(
    shared: Trial,
) -> None:
    shared.do(phase(task(hold, 100), task(hold, 1)))
    large, small = pids(shared.book)["100"], pids(shared.book)["1"]
    assert large != small
    process = os.pidfd_open(large)
    WATCH.armed = True
    shared.do(phase(task(say_who, 0)))
    ended, _, _ = select.select([process], [], [], 60.0)
    os.close(process)
    assert ended == [process]
    assert pids(shared.book)["0"] == small


def test_a_step_of_which_no_worker_fits_is_refused(trial: Trials) -> None:
    tried = trial(workers=2, memory=BASE + WORKER)
    need = Need(1 << 30, "lower x")
    with pytest.raises(ConfigError, match=r"step b needs 1.531 GiB on a node .* or lower x$"):
        tried.do(step_run("b", phase(task(say_who, 3, "b")), need=need))


def test_no_more_work_at_a_time_than_have_room(shared: Trial) -> None:
    shared.do(large_run("a", 0))
    assert shared.notes[-1].endswith("a node has room for 1 of 2 workers in step a")
    shared.do(step_run("b", phase(task(meet, 7, "b"), task(meet, 8, "b")), need=Need(10 * MIB)))
    found = pids(shared.book)
    assert found["7"] != found["8"]
    shared.do(large_run("c", 10))  # both workers are idle, and one at a time is to work


def large_run(name: str, first: int) -> StepRun:
    """Return a step of three tasks of which a node has room for one, and which fail beside another."""
    tasks = (task(nap_alone, number, name) for number in range(first, first + 3))
    return step_run(name, phase(*tasks), need=Need(100 * MIB))


def test_an_idle_actor_ends_for_a_task_that_needs_its_room(
    shared: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline.engine.dataflow, "SPARE_SECONDS", 0.2)
    shared.do(phase(task(meet, 1), task(meet, 2)))
    before = set(pids(shared.book).values())
    assert len(before) == 2
    shared.do(step_run("b", phase(task(say_who, 3, "b")), need=Need(220 * MIB)))
    assert pids(shared.book)["3"] in before


def test_short_of_memory_fewer_work_at_a_time_and_the_last_is_refused(
    shared: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline.engine.dataflow, "MAX_VAIN", 2)  # idle actors that may go in vain
    notes: list[str] = []
    with MemoryWatch(1 << 50, notes.append, period=0.01) as watch:

        def want(done: Task, commit: Commit) -> Task:
            del commit
            watch.limit = watch.least = watch._most = 1  # noqa: SLF001  # both workers are there, and have work
            return task(say_who, done.payload + 2)

        endless = Phase("", [task(meet, 0), task(meet, 1)], follow=want)
        said = r"^resources.memory = 1 B: .* \(unit say_who.* even with one worker: the run used"
        monkeypatch.setattr(shared.flow, "_watch", watch)
        with pytest.raises(ConfigError, match=said):
            shared.do(endless)
    assert notes in ([], ["memory is short: going on with 1 worker"])
