"""What the watches of nodes promise: workers on a node that is not the driver's keep to its bound."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.engine.memory import MIB, unreclaimable_bytes
from pipeline.engine.node_watch import DAEMONS, NodeWatch
from tests.material.two_nodes import two_nodes

pytestmark = pytest.mark.slow

HOLDER = """if True:
    import sys
    held = b"x" * (int(sys.argv[1]) << 20)
    print(len(held), flush=True)
    held += b"x" * (int(sys.stdin.readline()) << 20)
    sys.stdin.readline()
"""


@pytest.fixture
def holders() -> Iterator[Callable[[int], subprocess.Popen[str]]]:
    """Return what starts a process that holds some MiB, and as many more as it is told."""
    begun: list[subprocess.Popen[str]] = []

    def begin(held: int) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", HOLDER, str(held)]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        begun.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == f"{held << 20}\n"
        return process

    yield begin
    for process in begun:
        process.kill()
        process.communicate()


def test_the_worker_furthest_over_its_reservation_is_ended_before_the_bound_is_passed(
    holders: Callable[[int], subprocess.Popen[str]],
) -> None:
    large, small, other = holders(150), holders(10), holders(400)  # the last is none of the run's
    bound = DAEMONS + unreclaimable_bytes(os.getpid()) + 400 * MIB
    watch = NodeWatch(bound, os.getpid())
    try:
        watch.reserve(large.pid, 300 * MIB)
        watch.reserve(small.pid, 100 * MIB)
        before = watch.seen()
        assert before.given_up == frozenset()
        assert small.stdin is not None
        print(1000, file=small.stdin, flush=True)
        assert small.wait(timeout=60) == -signal.SIGKILL
        seen = watch.seen()
    finally:
        watch.close()
    assert seen.given_up == {small.pid}
    assert seen.peak > DAEMONS + 10 * MIB
    assert large.poll() is None
    assert other.poll() is None


def test_processes_that_ended_are_looked_at_no_more(
    holders: Callable[[int], subprocess.Popen[str]],
) -> None:
    watch = NodeWatch(1 << 40, os.getpid())
    try:
        process = holders(100)
        watch.reserve(process.pid, 0)
        deadline = time.monotonic() + 60
        while watch.seen().peak < DAEMONS + 100 * MIB:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()
        process.wait()
        assert process.pid not in watch._processes()  # noqa: SLF001  # nothing public tells
    finally:
        watch.close()


RUNS = """if True:
    import json, sys
    from pathlib import Path
    from types import SimpleNamespace
    from pipeline.engine.dataflow import Dataflow
    from pipeline.engine.memory import BASE, MIB, WORKER, Need, WorkerResources
    from pipeline.engine.watch import MemoryWatch
    from pipeline.state.worker_place import FolderPlace
    from stages.errors import ConfigError
    from tests.memory_book import MemoryBook, step_run
    from tests.pipeline.test_watch import grow
    from tests.pipeline.trials import phase, say_who, task

    root, memory, said = Path(sys.argv[1]), BASE + 2 * WORKER + 600 * MIB, []
    place, resources = FolderPlace(root, root / "tmp/attempt"), WorkerResources(2, sys.argv[2], memory)
    progress = SimpleNamespace(note=said.append)
    with MemoryWatch(memory, said.append) as watch:
        flow = Dataflow(place, resources, MemoryBook(), progress=progress, watch=watch)
        peak = watch.new_peak()
        tasks = task(grow, 4 << 30), task(grow, 5 << 30), task(say_who, 1)
        try:
            flow.do([step_run("step", phase(*tasks), need=Need(10 * MIB, "lower x"))])
        except ConfigError as error:
            error_of_run = error
            notes = [one for one in said if "memory" in one]
            held = watch.end_peak(peak)
        flow.close()
    print(json.dumps([str(error_of_run), notes, held]))  # Ray itself says things before
"""


def test_on_another_node_a_task_that_takes_too_much_is_tried_alone_and_then_refused_as_on_one(
    tmp_path: Path,
) -> None:
    with two_nodes(2) as nodes:
        done = subprocess.run(
            [sys.executable, "-c", RUNS, str(tmp_path), nodes.address],
            env=nodes.environment,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    refused, notes, held = json.loads(done.stdout.splitlines()[-1])
    assert refused.startswith("resources.memory = 1.211 GiB: step step (unit grow-")
    assert "even with one worker: the run used" in refused
    assert refused.endswith("run again to resume, or lower x and run with --replace")
    assert notes == ["memory is short: going on with 1 worker"]
    assert held > 900 * MIB, "the peak is that of the other node: the driver holds a few hundred"
