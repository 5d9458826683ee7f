"""What the nodes of a cluster promise: they come and go, and one that cannot do the work is left out."""

import os
import socket
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from ray.exceptions import ActorDiedError, ActorUnschedulableError

from pipeline.engine import nodes
from pipeline.engine.nodes import ClusterNode, Greeting, Nodes, fault_of, greeting, some_of
from stages.errors import ConfigError, Stopped

A, B = ClusterNode("a", "first", 2), ClusterNode("b", "second", 3)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ClusterNode]:
    """Return the nodes that Ray names whenever it is asked."""
    found = [A, B]
    monkeypatch.setattr(nodes, "_ask", lambda: list(found))
    monkeypatch.setattr(nodes, "NODE_SECONDS", 0.01)
    return found


@pytest.fixture
def notes() -> list[str]:
    """Return the lines that people are told."""
    return []


@pytest.fixture
def known(asked: list[ClusterNode], notes: list[str]) -> Iterator[Nodes]:
    """Return the nodes of a cluster of two."""
    assert asked == [A, B]
    found = Nodes(notes.append)
    yield found
    found.close()


def after_a_look(known: Nodes, names: list[str]) -> set[str]:
    """Look until these nodes get work; return those that went meanwhile."""
    gone, deadline = set[str](), time.monotonic() + 30
    while known.names != names:
        gone |= known.look()
        assert time.monotonic() < deadline, known.names
        time.sleep(0.01)
    return gone


def test_nodes_come_and_go_and_their_cores_with_them(
    known: Nodes, asked: list[ClusterNode], notes: list[str]
) -> None:
    assert (known.names, known.cores, notes) == (["a", "b"], 5, [])
    asked.remove(A)
    assert after_a_look(known, ["b"]) == {"a"}
    assert known.cores == 3
    asked.append(A._replace(name="c", host="third"))
    assert after_a_look(known, ["b", "c"]) == set()
    assert notes == ["node first is gone: others do its work", "node third joined"]


def test_without_nodes_the_run_stops_and_can_be_resumed(known: Nodes, asked: list[ClusterNode]) -> None:
    asked.clear()
    with pytest.raises(Stopped, match="no Ray node is left; run again to resume"):
        after_a_look(known, ["x"])


def test_a_silent_ray_stops_the_run(known: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent() -> list[ClusterNode]:
        raise TimeoutError

    monkeypatch.setattr(nodes, "_ask", silent)
    monkeypatch.setattr(nodes, "ANSWER_SECONDS", 0.05)
    with pytest.raises(Stopped, match="control service does not answer; run again to resume"):
        after_a_look(known, ["x"])


def of_other_code() -> Greeting:
    """Say what a worker of another version does."""
    return greeting(None)._replace(digest="of another version")


def test_a_node_that_cannot_do_the_work_is_left_out_by_name_and_the_last_one_is_refused(
    known: Nodes, notes: list[str]
) -> None:
    assert known.welcome("a", greeting(None))
    assert not known.welcome("b", of_other_code())
    assert not known.welcome("b", of_other_code())
    why = "it runs other code than the driver; install the same version there"
    assert (known.names, notes) == (["a"], [f"warning: node second is left out: {why}"])
    known.require()
    known.leave_out("a", "it has numpy 1.0 and the driver 2.0; install the same there")
    with pytest.raises(
        ConfigError, match=f"no node .* can do the work: first: it has .*; second: {why}"
    ):
        known.require()


def test_a_node_on_which_workers_die_while_they_start_is_left_out_and_that_can_be_resumed(
    known: Nodes, notes: list[str]
) -> None:
    for name in ("a", "b"):
        for _ in range(nodes.MAX_FAILED_STARTS - 1):
            known.count_failed_start(name, ActorDiedError())
    assert known.welcome("b", greeting(None))
    for name in ("a", "b"):
        known.count_failed_start(name, ActorDiedError())
    assert known.names == ["b"]
    said = "3 workers died while they started (ActorDiedError)"
    assert notes == [f"warning: node first is left out: {said}"]
    for _ in range(nodes.MAX_FAILED_STARTS - 1):
        known.count_failed_start("b", ActorDiedError())
    with pytest.raises(Stopped, match=r"no Ray node is left: first: 3 workers .* run again to resume"):
        known.require()


def test_a_node_that_is_gone_before_ray_says_so_gets_no_more_workers(
    known: Nodes, asked: list[ClusterNode], notes: list[str]
) -> None:
    known.count_failed_start("a", ActorUnschedulableError("gone"))
    assert (known.names, notes) == (["b"], [])
    asked.remove(A)
    known.count_failed_start("b", ActorUnschedulableError("gone"))
    with pytest.raises(Stopped, match=r"no Ray node is left: .*it is gone; run again to resume"):
        known.require()


def test_a_node_without_the_folder_of_the_run_makes_none_and_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "FOLDER_SECONDS", 0.3)
    elsewhere = tmp_path / "hidden/run/tmp/nodes/driver"
    assert f"it does not see what the driver writes in {elsewhere.parent}" in str(
        fault_of(greeting(elsewhere))
    )
    assert list(tmp_path.iterdir()) == []


def test_what_a_node_writes_must_be_seen_by_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "FOLDER_SECONDS", 0.3)
    question = tmp_path / "driver"
    question.touch()
    said = greeting(question)
    assert fault_of(said) is None
    Path(said.answer).unlink()
    assert f"the driver does not see what it writes in {tmp_path}" in str(fault_of(said))


def test_a_package_of_another_version_is_named() -> None:
    said = greeting(None)
    other = said._replace(versions={**said.versions, "pyarrow": "1.0"})
    assert str(fault_of(other)).startswith("it has pyarrow 1.0 and the driver ")
    assert said.memory > 0


def test_a_node_that_cannot_write_to_the_folder_of_the_run_says_so(tmp_path: Path) -> None:
    question = tmp_path / "driver"
    question.touch()
    (tmp_path / f"{socket.gethostname()}-{os.getpid()}").symlink_to(tmp_path / "none" / "file")
    assert str(fault_of(greeting(question))).startswith(f"it cannot write to {tmp_path}: ")


def test_a_node_that_lacks_an_input_is_named_with_its_path(tmp_path: Path) -> None:
    there, absent = tmp_path / "there", tmp_path / "absent"
    there.write_bytes(b"123")
    assert fault_of(greeting(None, [(there, 3)])) is None
    assert f"it cannot read the input {absent}: No such file" in str(
        fault_of(greeting(None, [(there, 3), (absent, 3)]))
    )
    assert f"its input {there} has 3 bytes and not 4" in str(fault_of(greeting(None, [(there, 4)])))


def test_of_many_inputs_a_node_is_asked_for_some_that_are_spread_evenly() -> None:
    for count, expected in ((0, 0), (1, 1), (1_000, 1_000), (1_001, 501), (25_000, 1_000)):
        inputs = tuple((Path(f"/{number}"), number) for number in range(count))
        asked = some_of(inputs)
        assert len(asked) == expected
        assert {after[1] - before[1] for before, after in pairwise(asked)} <= {1, 2, 25}
