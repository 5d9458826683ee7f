"""What holding `resources.memory` promises.

What processes hold is seen, shared pages once; a step gets as many workers as fit, and is refused, with
what it needs and the way out, where not even one does.
"""

import mmap
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline.memory import (
    BASE,
    MIB,
    WORKER,
    MemoryWatch,
    fitting_workers,
    held_bytes,
    process_tree,
    show_bytes,
)
from pipeline.needs import require_memory, step_needs
from pipeline.pool import InlinePool
from pipeline.session import Request, plan_session
from pipeline.tasks import Task, Workspace
from stages.errors import ConfigError, Stopped
from tests.conftest import small_run

HOLD = "import sys; held = bytearray(b'x') * (64 << 20); print('ready', flush=True); sys.stdin.read()"


def test_what_a_process_below_holds_is_seen_and_gone_with_it() -> None:
    before = sum(held_bytes(pid) for pid in process_tree(mypid()))
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        assert child.pid in process_tree(mypid())
        assert held_bytes(child.pid) >= 64 * MIB
        assert sum(held_bytes(pid) for pid in process_tree(mypid())) >= before + 60 * MIB
        child.communicate()
    assert child.pid not in process_tree(mypid())
    assert held_bytes(child.pid) == 0


def mypid() -> int:
    """Give this process."""
    return int(Path("/proc/self").readlink().name)


def test_shared_memory_counts_and_pages_of_files_do_not(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(64 * MIB))
    before = held_bytes(mypid())
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert sum(mapped[:: mmap.PAGESIZE]) == 0
        assert held_bytes(mypid()) < before + 32 * MIB
    with mmap.mmap(-1, 64 * MIB) as shared:
        shared[:: mmap.PAGESIZE] = b"x" * (64 * MIB // mmap.PAGESIZE)
        assert held_bytes(mypid()) > before + 60 * MIB


@pytest.mark.parametrize(
    ("room", "workers", "fitting"), [(1, 8, 1), (2, 8, 2), (9, 8, 8), (3, 1, 1), (2.9, 3, 2)]
)
def test_as_many_workers_as_fit_are_given(room: float, workers: int, fitting: int) -> None:
    memory = BASE + int(room * (WORKER + 100 * MIB))
    assert fitting_workers(memory, workers, step="ingest", need=100 * MIB) == fitting


def test_a_step_of_which_no_worker_fits_is_refused_with_the_way_out() -> None:
    memory = BASE + WORKER + 100 * MIB - 1
    with pytest.raises(ConfigError) as error:
        fitting_workers(memory, 4, step="ingest", need=100 * MIB, remedy="lower x")
    assert str(error.value) == (
        "resources.memory = 708 MiB: step ingest needs 708 MiB on a node (512 MiB for Ray and the"
        " driver, 196 MiB for a worker); set it to 708MiB or more, or lower x"
    )
    assert fitting_workers(708 * MIB, 4, step="ingest", need=100 * MIB) == 1


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1 << 10, "1 KiB"), (3 << 29, "1.5 GiB")]
)
def test_sizes_are_shown_as_people_read_them(size: int, text: str) -> None:
    assert show_bytes(size) == text


def test_every_step_of_a_run_has_a_need_and_long_documents_raise_it() -> None:
    file = small_run(datasets=[{"name": "a"}, {"name": "b"}])
    needs = step_needs(file)
    steps = ["ingest", "dedup", "tokenizer", "split", "tokenize", "decode"]
    assert list(needs) == [*steps, "shard-a", "verify-a", "shard-b", "verify-b"]
    assert all(need.bytes > MIB for need in needs.values())
    short = step_needs(small_run(ingest={"max_document_bytes": "1MiB"}))
    assert short["ingest"].bytes < needs["ingest"].bytes
    require_memory(file, needs)


def test_a_plan_that_does_not_fit_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    file = small_run(resources={"memory": "1GiB"}, ingest={"max_document_bytes": "1GiB"})
    request = Request(file, tmp_path / "nowhere", tmp_path / "out", 0)
    with pytest.raises(ConfigError, match=r"step ingest needs .*lower ingest.max_document_bytes"):
        plan_session(request)
    assert not (tmp_path / "out").exists()


def test_a_watch_gives_the_peak_since_it_was_last_asked() -> None:
    with MemoryWatch(1 << 60, print, period=0.001) as watch:
        while not watch.held:
            time.sleep(0)
        assert watch.take_peak() >= watch.held > 10 * MIB
        assert not watch.is_over()


def nothing(work: Workspace, payload: object) -> dict[str, object]:  # noqa: ARG001  # the signature
    """Do nothing."""
    return {}


def test_a_plain_loop_that_holds_too_much_stops_and_says_so(tmp_path: Path) -> None:
    task = Task("part-0", nothing, None, "f")
    with MemoryWatch(1, print, period=0.001) as watch:
        pool = InlinePool(tmp_path, "attempt", watch=watch)
        with pytest.raises(Stopped, match=r"^resources.memory = 1 B: .* one worker left, .* part-0"):
            pool.run([task], lambda done, _: done)
