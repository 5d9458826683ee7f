"""What pools promise: every task is done once, chains stay on a worker, lost workers are replaced."""

import errno
import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import ray.cloudpickle
from ray.exceptions import ActorUnavailableError

import pipeline.pool
from pipeline.cluster import num_nodes
from pipeline.commits import Outcome
from pipeline.pool import MAX_ATTEMPTS, InlinePool, Pool, RayPool
from pipeline.tasks import Task, Workspace
from pipeline.watch import MemoryWatch
from stages.config import Config
from stages.errors import ConfigError, DataError, Stopped


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


def hold(work: Workspace, payload: Any) -> Who:
    """Take memory and keep it."""
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


def task(function: Any, payload: Any) -> Task:
    """Return a task named after what it does."""
    return Task(f"{function.__name__}-{payload}", function, payload, "f")


class _Book:
    """What the driver was handed, and the chains that it goes on with."""

    def __init__(self, chain: int = 1) -> None:
        self.chain = chain
        self.seen: list[tuple[str, Outcome]] = []

    def done(self, task_done: Task, outcome: Outcome) -> Task | None:
        self.seen.append((task_done.unit, outcome))
        first, _, link = str(task_done.payload).partition(".")
        link_next = int(link or 0) + 1
        return task(say_who, f"{first}.{link_next}") if link_next < self.chain else None

    def pids(self) -> dict[str, set[int]]:
        """Return the processes that worked on each chain."""
        pids: dict[str, set[int]] = {}
        for _, outcome in self.seen:
            who = Who.model_validate(outcome.record)
            pids.setdefault(str(who.payload).split(".")[0], set()).add(who.pid)
        return pids


@pytest.fixture(scope="module")
def shared(
    ray_session: None,  # noqa: ARG001  # Ray must run
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Path, RayPool]]:
    """Two actors that take a third of Ray's CPUs, and the folder they work in.

    Workers import no tests (their working_dir is empty), so these functions travel by value.
    """
    here = sys.modules[__name__]
    ray.cloudpickle.register_pickle_by_value(here)
    root = tmp_path_factory.mktemp("pool")
    pool = RayPool(root, "attempt", size=2, num_cpus=0.5)
    yield root, pool
    pool.close()
    ray.cloudpickle.unregister_pickle_by_value(here)


def check_chains(pool: Pool, root: Path) -> _Book:
    """Do five chains of three tasks and look at every outcome."""
    book = _Book(chain=3)
    pool.run([task(say_who, number) for number in range(5)], book.done)
    units = [f"say_who-{n}" for n in range(5)] + [f"say_who-{n}.{k}" for n in range(5) for k in (1, 2)]
    assert sorted(unit for unit, _ in book.seen) == sorted(units)
    for unit, outcome in book.seen:
        assert outcome.folder == root / "tmp" / "attempt" / unit
        assert (outcome.folder / "who").read_text() == str(outcome.record["payload"])
        assert list(outcome.files) == ["who"]
        assert outcome.metrics["peak_rss"] > 1 << 20
    return book


def test_a_plain_loop_gives_every_outcome_once_each_chain_to_its_end(tmp_path: Path) -> None:
    book = check_chains(InlinePool(tmp_path, "attempt"), tmp_path)
    assert [unit for unit, _ in book.seen][:4] == [
        "say_who-0",
        "say_who-0.1",
        "say_who-0.2",
        "say_who-1",
    ]
    assert set.union(*book.pids().values()) == {os.getpid()}


def test_ray_gives_every_outcome_once_and_a_chain_stays_on_its_worker(
    shared: tuple[Path, RayPool],
) -> None:
    root, pool = shared
    pids = check_chains(pool, root).pids()
    assert all(len(chain) == 1 for chain in pids.values())
    workers = set.union(*pids.values())
    assert len(workers) == 2
    assert os.getpid() not in workers


def test_a_pool_grows_to_as_many_actors_as_there_are_tasks_and_no_further(
    shared: tuple[Path, RayPool], tmp_path: Path
) -> None:
    assert shared, "its functions travel by value"
    pool = RayPool(tmp_path, "attempt", size=3, num_cpus=0.1)
    book = _Book()
    for number in range(3):
        pool.run([task(say_who, number)], book.done)
    pool.close()
    assert len(set.union(*book.pids().values())) == 1


@pytest.mark.usefixtures("ray_session")
def test_nodes_that_can_hold_workers_are_counted() -> None:
    assert num_nodes() == 1


def test_a_pool_that_is_given_nothing_ends(shared: tuple[Path, RayPool]) -> None:
    book = _Book()
    shared[1].run([], book.done)
    assert book.seen == []


def test_a_task_that_took_down_its_worker_is_done_by_a_new_one_and_all_others_too(
    shared: tuple[Path, RayPool],
) -> None:
    root, pool = shared
    book = _Book()
    tasks = [task(say_who, n) for n in range(6)]
    pool.run([*tasks[:2], task(die_once, "once"), *tasks[2:]], book.done)
    assert (root / "once.died").exists()
    assert sorted(unit for unit, _ in book.seen) == sorted(
        ["die_once-once", *(one.unit for one in tasks)]
    )


def test_a_worker_that_a_task_took_down_in_an_earlier_step_does_not_count_in_this_one(
    shared: tuple[Path, RayPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, pool = shared
    monkeypatch.setattr(pipeline.pool, "MAX_ATTEMPTS", 2)
    book = _Book()
    for _ in range(2):
        pool.run([task(die_once, "again")], book.done)
        (root / "again.died").unlink()
    assert [unit for unit, _ in book.seen] == ["die_once-again"] * 2


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
    function: Any, kind: type[Exception], message: str, shared: tuple[Path, RayPool]
) -> None:
    with pytest.raises(kind, match=message) as caught:
        shared[1].run([task(function, 7)], _Book().done)
    assert type(caught.value) is kind


def test_a_task_that_takes_down_every_worker_stops_the_run_with_its_name(
    shared: tuple[Path, RayPool], tmp_path: Path
) -> None:
    assert shared, "its functions travel by value"
    pool = RayPool(tmp_path, "attempt", size=1)
    with pytest.raises(DataError, match=rf"^die-x: took down {MAX_ATTEMPTS} workers \(ActorDiedError\)"):
        pool.run([task(die, "x")], _Book().done)
    pool.close()
    assert (tmp_path / "x.deaths").read_text() == "x" * MAX_ATTEMPTS


def test_a_worker_out_of_reach_is_ended_so_that_two_never_write_one_unit(
    shared: tuple[Path, RayPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, book = shared[1], _Book()
    pool.run([task(say_who, 0)], book.done)
    (lost,) = book.pids()["0"]
    process, real = os.pidfd_open(lost), ray.get

    def unreachable(*_: Any, **__: Any) -> Any:
        monkeypatch.setattr(ray, "get", real)
        raise ActorUnavailableError("the network is gone", None)

    monkeypatch.setattr(ray, "get", unreachable)
    pool.run([task(say_who, 1)], book.done)
    ended, _, _ = select.select([process], [], [], 60.0)
    os.close(process)
    assert ended == [process]
    assert [unit for unit, _ in book.seen] == ["say_who-0", "say_who-1"]
    assert book.pids()["1"] != {lost}


class _OnceOver(MemoryWatch):
    """A watch that sees too much once, when it is told to."""

    armed = False

    @contextmanager
    def guard(self, give_up: Callable[[], object]) -> Iterator[None]:
        """Yield a worker up at once."""
        if self.armed:
            self.armed = False
            give_up()
        yield


def test_of_a_pool_short_of_memory_the_largest_worker_goes_and_its_tasks_are_done_by_the_others(
    shared: tuple[Path, RayPool], tmp_path: Path
) -> None:
    assert shared, "its functions travel by value"
    notes: list[str] = []
    watch = _OnceOver(1 << 40, notes.append)
    pool, before, after = RayPool(tmp_path, "a", size=2, num_cpus=0.5, watch=watch), _Book(), _Book()
    pool.run([task(hold, 200), task(hold, 1)], before.done)
    (large,), (small,) = before.pids()["200"], before.pids()["1"]
    assert large != small
    process = os.pidfd_open(large)
    watch.armed = True
    pool.run([task(say_who, number) for number in range(8)], after.done)
    ended, _, _ = select.select([process], [], [], 60.0)
    os.close(process)
    pool.close()
    assert ended == [process]
    assert sorted(unit for unit, _ in after.seen) == [f"say_who-{number}" for number in range(8)]
    assert after.seen[-1][1].record["pid"] == small
    assert notes == ["memory is short: going on with 1 worker"]


def test_a_worker_of_other_code_is_refused(
    shared: tuple[Path, RayPool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shared, "its functions travel by value"
    monkeypatch.setattr(pipeline.pool, "code_digest", lambda: "of other code")
    pool = RayPool(tmp_path, "attempt", size=1, num_cpus=0.1)
    with pytest.raises(Stopped, match="a node runs other code than the driver; install the same"):
        pool.run([task(say_who, 1)], _Book().done)


def test_a_pool_short_of_memory_goes_on_with_a_worker_less_and_stops_at_the_last(
    shared: tuple[Path, RayPool], tmp_path: Path
) -> None:
    assert shared, "its functions travel by value"
    notes: list[str] = []
    with MemoryWatch(1, notes.append, period=0.01) as watch:
        pool = RayPool(tmp_path, "attempt", size=2, num_cpus=0.5, watch=watch)
        endless = _Book(chain=1 << 60)
        said = r"^resources.memory = 1 B: .* \(unit say_who.* even with one worker: the run used"
        with pytest.raises(ConfigError, match=said):
            pool.run([task(say_who, number) for number in range(3)], endless.done)
        pool.close()
    assert notes == ["memory is short: going on with 1 worker"]
