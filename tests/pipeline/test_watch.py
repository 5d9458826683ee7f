"""What the watch promises.

Work that takes more than `resources.memory` is given up while it grows, inside of a task, and what the
run then says leads on; work that does not is left alone.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from pydantic import JsonValue

from pipeline.engine import watch as watch_module
from pipeline.engine.memory import MIB, Need, process_tree, unreclaimable_bytes
from pipeline.engine.plain_loop import PlainLoop
from pipeline.engine.tasks import Phase, Task, Workspace
from pipeline.engine.watch import LOOKS_ANEW, MemoryWatch
from pipeline.state.worker_place import FolderPlace
from pipeline.steps.units import Unit
from stages.config import Config
from stages.errors import ConfigError
from tests.memory_book import MemoryBook, step_run

ROOT = Path(__file__).resolve().parents[2]
STEP = 4 * MIB


class Held(Config):
    """What a task held."""

    held: int


def grow(work: Workspace, payload: int) -> Held:  # noqa: ARG001  # the signature
    """Hold more and more, up to some bytes."""
    held = []
    for _ in range(payload // STEP):
        held.append(np.full(STEP, 7, np.uint8))
        time.sleep(0)
    return Held(held=sum(map(len, held)))


def run_inline(folder: Path, task: Task, *, limit: int) -> tuple[dict[str, JsonValue], int]:
    """Do one task in this process within a bound; give its record and the peak."""
    records: list[dict[str, JsonValue]] = []
    phase = Phase("", [task], take=lambda _, outcome: records.append(outcome.record))
    step = step_run("ingest", phase, need=Need(0, "lower x"))
    with MemoryWatch(limit, print, period=0.1) as watch:
        seen = watch.new_peak()
        try:
            PlainLoop(
                FolderPlace(folder, folder / "tmp/attempt"), MemoryBook(), memory=limit, watch=watch
            ).do([step])
        finally:
            peak = watch.end_peak(seen)
    return records[0], peak


def grow_beyond_the_bound() -> None:
    """Hold more than there is room for, read what is said of it, and hold it no more."""
    limit = unreclaimable_bytes(os.getpid()) + 400 * MIB
    before = signal.getsignal(signal.SIGUSR1)
    task = Task("ingest", "part-0", grow, 4 << 30, "f")
    with tempfile.TemporaryDirectory() as folder, pytest.raises(ConfigError) as error:
        run_inline(Path(folder), task, limit=limit)
    assert re.fullmatch(
        r"resources.memory = .*iB: step ingest \(unit part-0\) needed more than that even with one"
        r" worker: the run used .*iB; set it to \d+MiB or more and run again to resume,"
        r" or lower x and run with --replace",
        str(error.value),
    )
    assert unreclaimable_bytes(os.getpid()) < limit, "what it held is free"
    assert signal.getsignal(signal.SIGUSR1) is before


def fail(work: Workspace, payload: None) -> Held:  # noqa: ARG001  # the signature
    """Get no memory from the system, as under `ulimit -v`."""
    raise MemoryError


def test_memory_that_the_system_has_not_is_no_matter_of_the_run_s_bound(tmp_path: Path) -> None:
    with pytest.raises(MemoryError):
        run_inline(tmp_path, Task("ingest", "part-0", fail, None, "f"), limit=1 << 40)


def turn(work: Workspace, payload: int) -> Held:
    """Grow, in compiled code that says of every exception that memory failed."""
    try:
        return grow(work, payload)
    except BaseException as error:
        raise MemoryError from error


def test_a_give_up_is_one_in_whatever_exception_it_arrives(tmp_path: Path) -> None:
    limit = unreclaimable_bytes(os.getpid()) + 400 * MIB
    with pytest.raises(ConfigError, match=r"step ingest \(unit part-0\) needed more than that"):
        run_inline(tmp_path, Task("ingest", "part-0", turn, 4 << 30, "f"), limit=limit)


def do_what_fits() -> None:
    """Hold 128 MiB where there is room for 600.

    Between two reads of one look, and between two looks, a busy machine may let a task do all of its
    work. Then the watch expects as much growth again, twice.
    """
    limit = unreclaimable_bytes(os.getpid()) + 600 * MIB
    task = Task("ingest", "part-0", grow, 128 * MIB, "f")
    with tempfile.TemporaryDirectory() as folder:
        record, peak = run_inline(Path(folder), task, limit=limit)
    assert record == {"held": 128 * MIB}
    assert peak < limit


def test_in_a_thread_without_signals_a_task_is_done_as_it_is(tmp_path: Path) -> None:
    records = []
    task = Task("ingest", "part-0", grow, 64 * MIB, "f")
    thread = threading.Thread(target=lambda: records.append(run_inline(tmp_path, task, limit=1)[0]))
    thread.start()
    thread.join()
    assert records == [{"held": 64 * MIB}]


def wait_until(seen: Callable[[], object], *, seconds: float = 60) -> None:
    """Wait for something that another thread sees, and fail if it does not come."""
    deadline = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0)


def watch_a_peak() -> None:
    """Hold 64 MiB until a peak has seen them."""
    with MemoryWatch(1 << 60, print, period=0.001) as watch:
        wait_until(lambda: watch.memory)
        peak = watch.new_peak()
        before, held = peak.bytes, np.full(64 * MIB, 7, np.uint8)
        wait_until(lambda: peak.bytes >= before + 60 * MIB)
        assert watch.end_peak(peak) == peak.bytes >= len(held)


def watch_growth() -> None:
    """Hold 64 MiB until they are seen, though all processes are looked at only at the beginning."""
    with MemoryWatch(1 << 60, print, period=3600.0) as watch:
        wait_until(lambda: watch.memory)
        before = watch.memory
        held = np.full(64 * MIB, 7, np.uint8)
        wait_until(lambda: watch.memory >= before + 60 * MIB)
        assert len(held) == 64 * MIB


IN_A_NEW_PROCESS: dict[str, Callable[[], None]] = {
    "a watch gives the peak since one was begun": watch_a_peak,
    "growth is seen between two looks at all processes": watch_growth,
    "a task that fits is left alone": do_what_fits,
    "a task that takes too much is given up while it grows": grow_beyond_the_bound,
}
"""This one may hold much of earlier tests, or keep what is freed."""


def try_each() -> None:
    """Print what each of these tests fails with, if it does."""
    said = {}
    for name, function in IN_A_NEW_PROCESS.items():
        try:
            function()
        except BaseException:  # noqa: BLE001  # of any kind; it is told
            said[name] = traceback.format_exc()
    sys.stdout.write(json.dumps(said))


@pytest.fixture(scope="module")
def failed() -> dict[str, str]:
    """What they fail with in one process that has nothing else to give back meanwhile."""
    command = [sys.executable, "-c", "from tests.pipeline.test_watch import try_each; try_each()"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("name", IN_A_NEW_PROCESS)
def test_in_a_new_process(name: str, failed: dict[str, str]) -> None:
    assert failed.get(name) is None, failed[name]


def test_a_unit_is_named_with_its_file() -> None:
    unit = Unit("web/ab-00000", "web", "part 1.jsonl", 0, 1, 1)
    task = Task("ingest", "web.ab-00000", grow, unit, "f")
    assert task.name == "unit web.ab-00000 (web: part 1.jsonl)"
    assert Task("ingest", "resolve", grow, None, "f").name == "unit resolve"


GROWING = (
    "import sys; held = []\nfor line in sys.stdin: held.append(b'x' * int(line)); print(flush=True)"
)
SHARING = (
    "import mmap, os, signal; shared = mmap.mmap(-1, 64 << 20); shared.write(b'x' * (64 << 20))\n"
    "child = os.fork()\nif not child: shared[:]; print(flush=True); signal.pause()\n"
    "input(); os.kill(child, 9); os.waitpid(child, 0); print(flush=True); input()"
)


@contextmanager
def only_below(child: int) -> Iterator[None]:
    """Let the watch see a child alone: of this process's other children, such as Ray's, some may end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            watch_module,
            "process_tree",
            lambda root: [pid for pid in process_tree(root) if pid in process_tree(child)],
        )
        yield


@pytest.mark.parametrize("limit", [1, 1 << 40])
def test_only_processes_that_changed_are_looked_at_again(limit: int) -> None:
    watch = MemoryWatch(limit, print)
    held, looked = [], []
    with (
        subprocess.Popen(
            [sys.executable, "-uc", GROWING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as child,
        only_below(child.pid),
    ):
        assert child.stdin is not None
        assert child.stdout is not None
        for size in (0, 0, 64 * MIB):
            print(size, file=child.stdin, flush=True)
            child.stdout.readline()  # it holds so much more now
            looked.append(child.pid in watch.look(anew=False))
            held.append(watch.memory)
        looked.append(child.pid in watch.look())
        looks = [child.pid in watch.look(anew=False) for _ in range(2 * LOOKS_ANEW)]
        child.stdin.close()
    assert looked == [True, False, limit == 1, True]  # with much room, that it grew is told without
    assert held[2] > held[1] + 60 * MIB
    assert looks.count(True) == 2


def test_what_a_process_shared_with_one_that_ended_counts_for_it_alone() -> None:
    watch = MemoryWatch(1 << 40, print)
    with (
        subprocess.Popen(
            [sys.executable, "-uc", SHARING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as child,
        only_below(child.pid),
    ):
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()
        watch.look(anew=False)
        print(file=child.stdin, flush=True)
        child.stdout.readline()  # the other one has ended
        watch.look(anew=False)
        held = watch.memory
        watch.look()
        assert abs(watch.memory - held) < 4 * MIB
        child.stdin.close()
