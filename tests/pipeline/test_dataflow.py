"""What the dataflow promises: each task is done once, within memory, whatever becomes of the workers."""

import errno
import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import ray.cloudpickle
from ray.exceptions import ActorUnavailableError

import pipeline.actors
import pipeline.dataflow
from pipeline.cluster import node_names
from pipeline.commits import Commit
from pipeline.dataflow import MAX_ATTEMPTS, Dataflow
from pipeline.memory import BASE, MIB, WORKER, Need
from pipeline.plain_loop import PlainLoop
from pipeline.progress import Progress
from pipeline.resources import WorkerResources
from pipeline.step_run import StepRun
from pipeline.steps.step import Phase, Where
from pipeline.tasks import Task, Workspace
from pipeline.watch import MemoryWatch
from stages.config import Config
from stages.errors import ConfigError, DataError, Stopped
from tests.memory_book import MemoryBook, step_run, task_of


class Who(Config):
    """Who did a task."""

    payload: int | str
    pid: int


def say_who(work: Workspace, payload: Any) -> Who:
    """Record who did this, and leave a file."""
    work.create("who").write_text(str(payload))
    return Who(payload=payload, pid=os.getpid())


def die_once(work: Workspace, payload: Any) -> Who:
    """Take down the worker unless someone did before."""
    marker = work.root / f"{payload}.died"
    if not marker.exists():
        marker.touch()
        os._exit(1)
    return say_who(work, payload)


def die(work: Workspace, payload: Any) -> Who:
    """Take down the worker and leave a trace of it."""
    with (work.root / f"{payload}.deaths").open("a") as file:
        file.write("x")
    os._exit(1)


def meet(work: Workspace, payload: Any) -> Who:
    """Wait until another worker does this, too."""
    (work.root / f"{payload}.met").touch()
    deadline = time.monotonic() + 60
    while len(list(work.root.glob("*.met"))) < 2:
        assert time.monotonic() < deadline, "nobody came"
        time.sleep(0.01)
    return say_who(work, payload)


def hold(work: Workspace, payload: Any) -> Who:
    """Take memory and keep it, once two workers do."""
    meet(work, payload)
    work.cache["held"] = bytearray(os.urandom(1 << 20) * int(payload))
    return say_who(work, payload)


def find_no_memory(workspace: Workspace, payload: int) -> Who:  # noqa: ARG001  # the signature
    """Get no memory from the system."""
    raise MemoryError("cannot allocate")


def find_no_room(work: Workspace, payload: Any) -> Who:  # noqa: ARG001  # the signature
    """Raise what a full disk raises."""
    raise OSError(errno.ENOSPC, "No space left on device")


def refuse(work: Workspace, payload: Any) -> Who:  # noqa: ARG001  # the signature
    """Raise an error of ours."""
    raise DataError(f"row {payload} is broken; mend it")


def stumble(work: Workspace, payload: Any) -> Who:  # noqa: ARG001  # the signature
    """Raise an error that is a bug."""
    raise KeyError(payload)


def nap(work: Workspace, payload: Any) -> Who:
    """Take half a second."""
    time.sleep(0.5)
    return say_who(work, payload)


def task(function: Any, payload: Any, step: str = "step") -> Task:
    """Return a task named after what it does."""
    return task_of(step, f"{function.__name__}-{payload}", function, payload)


def phase(*tasks: Task, where: Where = Where.WORKERS) -> Phase:
    """Return a phase."""
    return Phase("", tasks, where=where)


def chains(number: int, length: int) -> Phase:
    """Return chains of tasks."""

    def follow(done: Task, commit: Commit) -> Task | None:
        first, _, link = str(commit.record["payload"]).partition(".")
        assert first == str(done.payload).partition(".")[0]
        following = int(link or 0) + 1
        return task(say_who, f"{first}.{following}") if following < length else None

    return Phase("", [task(say_who, one) for one in range(number)], follow=follow)


def pids(book: MemoryBook) -> dict[str, int]:
    """Return the process that did each task, by payload."""
    who = [Who.model_validate(commit.record) for commit in book.commits.values()]
    return {str(one.payload): one.pid for one in who}


class _Notes(Progress):
    """What people would read."""

    def __init__(self, notes: list[str]) -> None:
        super().__init__(None, None)
        self._notes = notes

    def note(self, message: str) -> None:
        """Keep one line."""
        self._notes.append(message)


class Trial:
    """A dataflow of a few actors and what it commits."""

    def __init__(
        self,
        root: Path,
        *,
        workers: int = 2,
        memory: int = 8 << 30,
        watch: MemoryWatch | None = None,
    ) -> None:
        self.root, self.book, self.notes = root, MemoryBook(), list[str]()
        progress = _Notes(self.notes)
        watch = watch or MemoryWatch(1 << 50, self.notes.append)
        resources = WorkerResources(workers, None, memory)
        self.flow = Dataflow(root, "attempt", resources, self.book, progress=progress, watch=watch)

    def do(self, *work: Phase | StepRun) -> list[str]:
        """Do phases, or steps; return the units in the order of their commits."""
        before = len(self.book.commits)
        self.flow.do(
            [one if isinstance(one, StepRun) else step_run(f"s{n}", one) for n, one in enumerate(work)]
        )
        return self.book.units[before:]


Trials = Callable[..., Trial]


@pytest.fixture(scope="module")
def by_value(ray_session: None) -> Iterator[None]:  # noqa: ARG001  # Ray must run
    """Send functions to workers by value.

    They import no tests: their working_dir is empty.
    """
    here = sys.modules[__name__]
    ray.cloudpickle.register_pickle_by_value(here)
    yield
    ray.cloudpickle.unregister_pickle_by_value(here)


@pytest.fixture
def trial(by_value: None, tmp_path: Path) -> Iterator[Trials]:  # noqa: ARG001  # see there
    """Return what makes a trial, which ends with the test."""
    made: list[Trial] = []

    def make(**settings: Any) -> Trial:
        made.append(Trial(tmp_path, **settings))
        return made[-1]

    yield make
    for one in made:
        one.flow.close()


def check_chains(book: MemoryBook, root: Path) -> None:
    """Look at every outcome of five chains of three tasks."""
    units = [f"say_who-{n}" for n in range(5)] + [f"say_who-{n}.{k}" for n in range(5) for k in (1, 2)]
    assert sorted(book.units) == sorted(units)
    assert [node for node in book.given if node not in book.commits] == []
    for (step, unit), outcome in book.outcomes.items():
        assert outcome.folder == root / "tmp" / "attempt" / step / unit
        assert (outcome.folder / "who").read_text() == str(outcome.record["payload"])
        assert list(outcome.files) == ["who"]
        assert outcome.metrics["peak_rss"] > 1 << 20


def test_a_plain_loop_gives_every_outcome_once_each_chain_to_its_end(tmp_path: Path) -> None:
    book = MemoryBook()
    PlainLoop(tmp_path, "attempt", book).do([step_run("step", chains(5, 3))])
    check_chains(book, tmp_path)
    assert book.units[:4] == ["say_who-0", "say_who-0.1", "say_who-0.2", "say_who-1"]
    assert set(pids(book).values()) == {os.getpid()}


def test_ray_gives_every_outcome_once_and_a_chain_stays_on_its_worker(trial: Trials) -> None:
    tried = trial()
    tried.do(chains(5, 3))
    check_chains(tried.book, tried.root)
    by_chain: dict[str, set[int]] = {}
    for payload, pid in pids(tried.book).items():
        by_chain.setdefault(payload.split(".")[0], set()).add(pid)
    assert all(len(chain) == 1 for chain in by_chain.values())
    assert os.getpid() not in set.union(*by_chain.values())


def test_there_are_as_many_actors_as_tasks_and_no_more(trial: Trials) -> None:
    tried = trial(workers=3)
    for number in range(3):
        tried.do(phase(task(say_who, number)))
    assert len(set(pids(tried.book).values())) == 1


def test_steps_that_can_be_at_work_are_side_by_side(trial: Trials) -> None:
    tried = trial(workers=2)
    first = [step_run(name, phase(task(meet, name, name))) for name in ("a", "b")]
    last = step_run("c", phase(task(say_who, "c", "c")), after=("a", "b"))
    assert tried.do(*first, last)[-1] == "say_who-c"
    found = pids(tried.book)
    assert found["a"] != found["b"]


def test_a_task_of_its_own_has_an_actor_of_its_own_that_ends_with_it(trial: Trials) -> None:
    tried = trial(workers=2)
    tried.do(phase(task(say_who, "pool")))
    tried.do(phase(task(say_who, "alone"), where=Where.ALONE))
    tried.do(phase(task(say_who, "trainer"), where=Where.TRAINER))
    tried.do(phase(task(say_who, "driver"), where=Where.DRIVER))
    found = pids(tried.book)
    assert len(set(found.values())) == 4
    assert found["driver"] == os.getpid()
    tried.do(phase(task(say_who, "again")))
    assert pids(tried.book)["again"] == found["pool"]


@pytest.mark.usefixtures("by_value")
def test_nodes_that_can_hold_workers_are_named() -> None:
    assert len(node_names()) == 1


def test_nothing_to_do_ends(trial: Trials) -> None:
    tried = trial()
    assert tried.do() == []
    assert tried.do(phase()) == []


def test_a_task_that_took_down_its_worker_is_done_by_a_new_one_and_all_others_too(
    trial: Trials,
) -> None:
    tried = trial()
    tasks = [task(say_who, n) for n in range(6)]
    units = tried.do(phase(*tasks[:2], task(die_once, "once"), *tasks[2:]))
    assert (tried.root / "once.died").exists()
    assert sorted(units) == sorted(["die_once-once", *(one.unit for one in tasks)])


def test_workers_lost_in_an_earlier_call_do_not_count(
    trial: Trials, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline.dataflow, "MAX_ATTEMPTS", 2)
    tried = trial()
    for number in range(2):
        tried.do(step_run(f"s{number}", phase(task(die_once, "again", f"s{number}"))))
        (tried.root / "again.died").unlink()
    assert tried.book.units == ["die_once-again"] * 2


@pytest.mark.parametrize(
    ("function", "kind", "message"),
    [
        (refuse, DataError, "^row 7 is broken; mend it$"),
        (find_no_memory, MemoryError, "cannot allocate"),
        (find_no_room, OSError, r"^\[Errno 28\] No space left on device: '.*find_no_room-7'$"),
        (stumble, RuntimeError, r"(?s)^stumble-7: .*KeyError"),
    ],
)
def test_an_error_of_ours_arrives_as_itself_and_another_with_its_unit(
    function: Any, kind: type[Exception], message: str, trial: Trials
) -> None:
    with pytest.raises(kind, match=message) as caught:
        trial(workers=1).do(phase(task(function, 7)))
    assert type(caught.value) is kind


def test_of_failures_the_first_in_canonical_order_is_raised_when_those_at_work_are_done(
    trial: Trials,
) -> None:
    tried = trial(workers=2)
    tried.do(phase(task(meet, 1), task(meet, 2)))  # both actors have started
    slow = step_run("a", phase(task(nap, 3, "a"), task(nap, 4, "a")))
    late = step_run("b", phase(task(refuse, 5, "b")))
    with pytest.raises(DataError, match="row 5"):
        tried.do(slow, late)
    assert {"nap-3", "nap-4"} <= set(tried.book.units)


def test_a_task_that_takes_down_every_worker_stops_the_run_with_its_name(trial: Trials) -> None:
    tried = trial(workers=1)
    with pytest.raises(DataError, match=rf"^die-x: took down {MAX_ATTEMPTS} workers \(ActorDiedError\)"):
        tried.do(phase(task(die, "x")))
    assert (tried.root / "x.deaths").read_text() == "x" * MAX_ATTEMPTS


def test_a_worker_out_of_reach_is_ended_so_that_two_never_write_one_unit(
    trial: Trials, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = trial(workers=1)
    tried.do(phase(task(say_who, 0)))
    lost = pids(tried.book)["0"]
    process, real = os.pidfd_open(lost), ray.get

    def unreachable(*_: Any, **__: Any) -> Any:
        monkeypatch.setattr(ray, "get", real)
        raise ActorUnavailableError("the network is gone", None)

    monkeypatch.setattr(ray, "get", unreachable)
    tried.do(phase(task(say_who, 1)))
    ended, _, _ = select.select([process], [], [], 60.0)
    os.close(process)
    assert ended == [process]
    assert tried.book.units == ["say_who-0", "say_who-1"]
    assert pids(tried.book)["1"] != lost


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


def test_of_idle_workers_the_one_that_holds_most_goes_and_the_others_do_the_work(
    trial: Trials,
) -> None:
    watch = _OnceOver(1 << 40, print)
    tried = trial(watch=watch)
    tried.do(phase(task(hold, 200), task(hold, 1)))
    large, small = pids(tried.book)["200"], pids(tried.book)["1"]
    assert large != small
    process = os.pidfd_open(large)
    watch.armed = True
    tried.do(phase(task(say_who, 0)))
    ended, _, _ = select.select([process], [], [], 60.0)
    os.close(process)
    assert ended == [process]
    assert pids(tried.book)["0"] == small


def test_a_worker_of_other_code_is_refused(trial: Trials, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline.actors, "code_digest", lambda: "of other code")
    with pytest.raises(Stopped, match="a node runs other code than the driver; install the same"):
        trial(workers=1).do(phase(task(say_who, 1)))


def test_short_of_memory_fewer_work_at_a_time_and_the_last_is_refused(trial: Trials) -> None:
    notes: list[str] = []
    with MemoryWatch(1, notes.append, period=0.01) as watch:
        said = r"^resources.memory = 1 B: .* \(unit say_who.* even with one worker: the run used"
        with pytest.raises(ConfigError, match=said):
            trial(watch=watch).do(chains(3, 1 << 60))
    assert notes in ([], ["memory is short: going on with 1 worker"])


def test_no_more_work_at_a_time_than_have_room(trial: Trials) -> None:
    room = BASE + 2 * WORKER + 150 * MIB
    tried = trial(workers=2, memory=room)
    large = step_run("a", phase(*(task(nap, n, "a") for n in range(3))), need=Need(100 * MIB))
    tried.do(large)
    assert len(set(pids(tried.book).values())) == 1
    assert tried.notes[-1].endswith("a node has room for 1 of 2 workers in step a")
    tried.do(step_run("b", phase(task(meet, 7, "b"), task(meet, 8, "b")), need=Need(10 * MIB)))
    found = pids(tried.book)
    assert found["7"] != found["8"]


def test_an_idle_actor_ends_for_a_task_that_needs_its_room(trial: Trials) -> None:
    tried = trial(workers=2, memory=BASE + 2 * WORKER + 50 * MIB)
    tried.do(phase(task(meet, 1), task(meet, 2)))
    before = set(pids(tried.book).values())
    assert len(before) == 2
    tried.do(step_run("b", phase(task(say_who, 3, "b")), need=Need(120 * MIB)))
    assert pids(tried.book)["3"] in before


def test_a_step_of_which_no_worker_fits_is_refused(trial: Trials) -> None:
    tried = trial(workers=2, memory=BASE + WORKER)
    need = Need(1 << 30, "lower x")
    with pytest.raises(ConfigError, match=r"step b needs 1.531 GiB on a node .* or lower x$"):
        tried.do(step_run("b", phase(task(say_who, 3, "b")), need=need))
