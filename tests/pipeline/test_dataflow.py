"""What the dataflow promises: each task is done once, in its order, whatever becomes of the workers."""

import os
import select
from pathlib import Path
from typing import Any

import pytest
import ray.cloudpickle
from ray.exceptions import ActorUnavailableError

import pipeline.engine.losses
import pipeline.engine.nodes
from pipeline.engine.actors import MAX_BATCH, Actor
from pipeline.engine.nodes import Nodes, fault_of
from pipeline.engine.plain_loop import PlainLoop
from pipeline.engine.schedule import Item
from pipeline.engine.tasks import TaskPlace
from pipeline.state.worker_place import FolderPlace
from stages.errors import DataError, VerificationError
from tests.memory_book import MemoryBook, step_run, task_of
from tests.pipeline.trials import (
    Trial,
    chains,
    die,
    die_once,
    find_no_memory,
    find_no_room,
    linger,
    meet,
    nap,
    phase,
    pids,
    refuse,
    refuse_late,
    say_who,
    stumble,
    task,
)


def check_chains(book: MemoryBook, root: Path) -> None:
    """Look at every outcome of five chains of three tasks."""
    units = [f"say_who-{n}" for n in range(5)] + [f"say_who-{n}.{k}" for n in range(5) for k in (1, 2)]
    assert sorted(book.units) == sorted(units)
    assert [node for node in book.given if node not in book.commits] == []
    for (step, unit), outcome in book.outcomes.items():
        assert outcome.folder.parents[2] == root / "tmp" / "attempt"
        assert outcome.folder.parts[-2:] == (step, unit)
        assert book.contents[step, unit]["who"].decode() == str(outcome.record["payload"])
        assert list(outcome.files) == ["who"]
        assert outcome.metrics["peak_rss"] > 1 << 20


def test_a_plain_loop_gives_every_outcome_once_each_chain_to_its_end(tmp_path: Path) -> None:
    book = MemoryBook()
    PlainLoop(FolderPlace(tmp_path, tmp_path / "tmp/attempt"), book, memory=4 << 30).do(
        [step_run("step", chains(5, 3))]
    )
    check_chains(book, tmp_path)
    assert book.units[:4] == ["say_who-0", "say_who-0.1", "say_who-0.2", "say_who-1"]
    assert set(pids(book).values()) == {os.getpid()}


def test_ray_gives_every_outcome_once_and_a_chain_stays_on_its_worker(shared: Trial) -> None:
    shared.do(chains(5, 3))
    check_chains(shared.book, shared.root)
    by_chain: dict[str, set[int]] = {}
    for payload, pid in pids(shared.book).items():
        by_chain.setdefault(payload.split(".")[0], set()).add(pid)
    assert all(len(chain) == 1 for chain in by_chain.values())
    assert os.getpid() not in set.union(*by_chain.values())


def test_steps_that_can_be_at_work_are_side_by_side(shared: Trial) -> None:
    first = [step_run(name, phase(task(meet, name, name))) for name in ("a", "b")]
    last = step_run("c", phase(task(say_who, "c", "c")), after=("a", "b"))
    assert shared.do(*first, last)[-1] == "say_who-c"
    found = pids(shared.book)
    assert found["a"] != found["b"]


def test_a_task_of_its_own_has_an_actor_of_its_own_that_ends_with_it(shared: Trial) -> None:
    shared.do(phase(task(meet, 1), task(meet, 2)))
    pool = set(pids(shared.book).values())
    shared.do(phase(task(say_who, "alone"), where=TaskPlace.OWN_ACTOR))
    shared.do(phase(task(say_who, "trainer"), where=TaskPlace.TRAINER))
    shared.do(phase(task(say_who, "driver"), where=TaskPlace.DRIVER))
    found = pids(shared.book)
    assert len(pool) == 2
    assert len({found[name] for name in ("alone", "trainer", "driver")} - pool) == 3
    assert found["driver"] == os.getpid()
    shared.do(phase(task(say_who, "again")))
    assert pids(shared.book)["again"] in pool


@pytest.mark.usefixtures("by_value")
def test_nodes_that_can_hold_workers_are_named() -> None:
    nodes = Nodes(print)
    nodes.close()
    assert (len(nodes.names), nodes.cores) == (1, 3)


def test_short_tasks_are_given_together_and_each_is_done_once(
    shared: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    give = Actor.give

    def counted(actor: Actor, batch: list[Item]) -> None:
        sizes.append(len(batch))
        give(actor, batch)

    monkeypatch.setattr(Actor, "give", counted)
    units = shared.do(phase(*(task(say_who, number) for number in range(300))))
    assert sorted(units) == sorted(f"say_who-{number}" for number in range(300))
    assert sum(sizes) == 300
    assert len(sizes) < 100
    assert max(sizes) <= MAX_BATCH


def test_of_tasks_that_are_given_together_the_one_that_fails_is_named(
    shared: Trial,
) -> None:
    sound = [task(say_who, number) for number in range(300) if number != 200]
    with pytest.raises(DataError, match="row 200"):
        shared.do(phase(*sound[:200], task(refuse, 200), *sound[200:]))
    assert 0 < len(shared.book.units) < 300
    assert "refuse-200" not in shared.book.units


def test_a_failure_of_a_task_that_came_back_undone_is_raised_if_it_is_the_first_in_canonical_order(
    shared: Trial,
) -> None:
    functions = dict.fromkeys(range(300), say_who) | {200: nap, 201: nap, 202: refuse, 260: refuse}
    with pytest.raises(DataError, match="row 202"):  # two naps are more than its batch may take
        shared.do(phase(*(task(function, number) for number, function in functions.items())))
    assert {"nap-200", "nap-201"} <= set(shared.book.units)


def test_nothing_to_do_ends(shared: Trial) -> None:
    assert shared.do() == []
    assert shared.do(phase()) == []


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
    function: Any, kind: type[Exception], message: str, shared: Trial
) -> None:
    with pytest.raises(kind, match=message) as caught:
        shared.do(phase(task(function, 7)))
    assert type(caught.value) is kind


def test_of_failures_the_first_in_canonical_order_is_raised_when_those_at_work_are_done(
    shared: Trial,
) -> None:
    shared.do(phase(task(meet, 1), task(meet, 2)))  # both actors are there
    slow = step_run("a", phase(task(nap, 3, "a"), task(nap, 4, "a")))
    late = step_run("b", phase(task(refuse, 5, "b")))
    with pytest.raises(DataError, match="row 5"):
        shared.do(slow, late)
    assert {"nap-3", "nap-4"} <= set(shared.book.units)
    first = step_run("c", phase(task(refuse_late, 6, "c")))
    second = step_run("d", phase(task(refuse, 7, "d")))
    with pytest.raises(DataError, match="row 6"):
        shared.do(first, second)


def test_a_task_whose_worker_ends_is_done_by_a_new_one_and_one_that_takes_down_all_is_named(
    shared: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline.engine.losses, "MAX_ATTEMPTS", 2)
    tasks = [task(say_who, n) for n in range(6)]
    units = shared.do(phase(*tasks[:2], task(die_once, "once"), *tasks[2:]))
    assert (shared.root / "once.died").exists()
    assert sorted(units) == sorted(["die_once-once", *(one.unit for one in tasks)])
    shared.do(step_run("s", phase(task_of("s", "x", die_once, "x"))))
    assert (shared.root / "x.died").exists()
    shared.book.commits.clear()  # workers lost in an earlier call do not count
    with pytest.raises(VerificationError, match=r"^x: took down 2 workers \(ActorDiedError\)"):
        shared.do(step_run("s", phase(task_of("s", "x", die, "x"))))
    assert (shared.root / "x.deaths").read_text() == "xx"
    assert shared.flow._pool.actors == []  # noqa: SLF001  # no more start than there are tasks
    for number in range(3):
        shared.do(phase(task(say_who, number)))
    assert len(set(pids(shared.book).values())) == 1


def test_what_does_not_read_a_task_that_was_set_aside_is_done_and_what_reads_it_does_not_begin(
    shared: Trial,
) -> None:
    deadly = step_run("a", phase(task(die, "a", "a"), task(say_who, "beside", "a")))
    reader = step_run("b", phase(task(say_who, "reader", "b")), after=("a",))
    other = step_run("c", phase(task(say_who, 1, "c"), task(say_who, 2, "c")))
    last = step_run("d", phase(task(say_who, 3, "d")), after=("c",))
    with pytest.raises(
        VerificationError, match=r"^die-a: took down 3 workers \(ActorDiedError\); if they"
    ):
        shared.do(deadly, reader, other, last)
    assert (shared.root / "a.deaths").read_text() == "xxx"
    assert sorted(shared.book.units) == ["say_who-1", "say_who-2", "say_who-3", "say_who-beside"]
    assert any(note.startswith("warning: die-a: took down 3 workers") for note in shared.notes)


def test_a_worker_out_of_reach_is_ended_so_that_two_never_write_one_unit(
    shared: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared.do(phase(task(say_who, 0)))
    lost = pids(shared.book)["0"]
    process, real = os.pidfd_open(lost), ray.get

    def unreachable(*_: Any, **__: Any) -> Any:
        monkeypatch.setattr(ray, "get", real)
        raise ActorUnavailableError("the network is gone", None)

    monkeypatch.setattr(ray, "get", unreachable)
    monkeypatch.setattr(shared.flow._pool, "workers", 1)  # noqa: SLF001  # one does it all
    tasks = [task(say_who, 1), task(linger, lost), task(say_who, 2), task(say_who, 3)]
    shared.do(phase(*tasks))  # the second is at work there, too
    ended, _, _ = select.select([process], [], [], 30.0)
    os.close(process)
    assert ended == [process]
    assert shared.book.units == ["say_who-0", *(one.unit for one in tasks)]
    assert lost not in {pid for payload, pid in pids(shared.book).items() if payload != "0"}


def test_a_worker_of_other_code_is_refused(shared: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    shared.do(phase(task(say_who, 1)))
    actor = shared.flow._pool.actors[0]  # noqa: SLF001  # a new one takes seconds to start
    said = actor.greet()
    assert actor.pid == said.pid == pids(shared.book)["1"]
    assert fault_of(said) is None
    monkeypatch.setattr(pipeline.engine.nodes, "code_digest", lambda: "of other code")
    assert "it runs other code than the driver; install the same" in str(fault_of(said))
