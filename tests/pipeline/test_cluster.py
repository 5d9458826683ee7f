"""What starting Ray promises: where Ray does not start, the run stops and says so; it can be resumed."""

import contextlib
import errno
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import ray

from pipeline.engine import cluster, ray_room
from pipeline.engine.cluster import ClusterConfig, ray_cluster
from stages.errors import ConfigError, Stopped
from stages.kernel_cache import GIVEN
from tests.campaign import some_of

pytestmark = pytest.mark.slow


class SlowStarts:
    """Stands for `ray.init` on a machine that is too busy: it raises nothing more telling.

    Args:
        error: what it raises.
    """

    def __init__(self, error: BaseException) -> None:
        self._error = error
        self.folders: list[Path] = []
        self.processes: list[subprocess.Popen[bytes]] = []

    def __call__(self, *, _temp_dir: str | None = None, **_: object) -> NoReturn:
        """Begin a session and a process, and fail."""
        if _temp_dir is not None:
            name = f"session_2026-12-01_10-00-00_{len(self.folders):06d}_{os.getpid()}"
            self.folders.append(Path(_temp_dir, name))
            self.folders[-1].mkdir()
        self.processes.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]))
        raise self._error


@pytest.fixture
def slow_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[BaseException], SlowStarts]:
    """Return what has Ray raise an error whenever it is started."""

    def fail(error: BaseException) -> SlowStarts:
        starts = SlowStarts(error)
        monkeypatch.setattr(ray, "is_initialized", lambda: False)
        monkeypatch.setattr(ray, "init", starts)
        monkeypatch.setattr(ray, "shutdown", lambda: None)
        monkeypatch.setattr(ray_room, "_fault_of", lambda _: None)
        monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
        (tmp_path / "ray").mkdir()
        return starts

    return fail


TOO_SLOW = Exception("The current node timed out during startup.")
OUT_OF_PROCESSES = OSError(errno.EAGAIN, "Resource temporarily unavailable")


@pytest.mark.parametrize(
    ("address", "fault", "starts", "error", "message"),
    [
        (None, TOO_SLOW, 3, Stopped, "Ray did not start: .* timed out .*: run again to resume, or with"),
        (None, ConnectionError("no GCS"), 3, Stopped, "Ray did not start: no GCS.*run again to resume"),
        (None, OUT_OF_PROCESSES, 1, Stopped, "Ray did not start: .* unavailable.* run again to resume"),
        ("10.0.0.1:6379", TOO_SLOW, 1, ConfigError, "--address 10.0.0.1:6379: no cluster: .* timed out"),
    ],
)
def test_ray_that_starts_too_slowly_is_tried_again_without_leftovers_and_then_stops_the_run(
    address: str | None,
    fault: Exception,
    starts: int,
    error: type[Exception],
    message: str,
    slow_starts: Callable[[BaseException], SlowStarts],
    tmp_path: Path,
) -> None:
    slow, before, notes = slow_starts(fault), dict(os.environ), list[str]()
    earlier = tmp_path / f"ray/session_2026-11-30_10-00-00_000000_{os.getpid()}"
    earlier.mkdir()
    with (
        pytest.raises(error, match=message),
        ray_cluster(ClusterConfig(1, address, 2 << 30), notes.append),
    ):
        pytest.fail("it did not start")
    settings = dict.fromkeys(("RAY_USAGE_STATS_ENABLED", "RAY_prestart_worker_first_driver"), "")
    assert {**os.environ, **settings} == {**before, **settings}
    assert [one.wait(timeout=30) for one in slow.processes] == [-signal.SIGKILL] * starts
    assert list((tmp_path / "ray").iterdir()) == [earlier]
    assert len(slow.folders) == (0 if address else starts)
    assert notes == [f"Ray did not start: {fault}; trying it again"] * (starts - 1)


@pytest.mark.parametrize("address", [None, "10.0.0.1:6379"])
@pytest.mark.parametrize("folder", [None, "/kernels"])
def test_workers_are_given_the_folder_of_kernels_or_that_there_is_none(
    address: str | None, folder: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[dict[str, Any]] = []
    monkeypatch.setattr("ray.init", lambda **words: given.append(words))
    monkeypatch.delenv(GIVEN, raising=False)
    if folder is not None:
        monkeypatch.setenv(GIVEN, folder)
    if address is None:
        cluster._init(ClusterConfig(1, None, 1 << 30), tmp_path, tmp_path)  # noqa: SLF001  # without a Ray
    else:
        cluster._join(address, tmp_path, set())  # noqa: SLF001  # likewise
    assert given[0]["runtime_env"]["env_vars"][GIVEN] == (folder or "")


def test_a_fault_of_the_program_is_not_taken_for_one_of_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(**_: object) -> NoReturn:
        raise TypeError("init() got an unexpected keyword argument")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", wrong)
    with pytest.raises(TypeError), ray_cluster(ClusterConfig(1, None, 2 << 30), print):
        pytest.fail("it did not start")


RUNS = """if True:
    import os, signal, sys, threading, time
    import ray
    from pipeline.engine.cluster import ClusterConfig, ray_cluster
    from pipeline.engine.memory import process_tree
    from pipeline.engine.dataflow import Dataflow
    from pipeline.engine.progress import Progress
    from pipeline.engine.memory import WorkerResources
    from pipeline.engine.tasks import Phase
    from pipeline.engine.watch import MemoryWatch
    from pathlib import Path
    from pipeline.state.worker_place import FolderPlace
    from stages.errors import Stopped
    from tests.memory_book import MemoryBook, step_run, task_of

    def wait(workspace, payload):
        (workspace.root / "works").touch()
        while True:
            time.sleep(0.01)

    def kill_when_it_works(root, name):
        while not (root / "works").exists():
            time.sleep(0.01)
        for pid in process_tree(os.getpid()):
            if name in Path(f"/proc/{pid}/comm").read_text():
                os.kill(pid, signal.SIGKILL)

    for _ in range(int(sys.argv[3])):
        with ray_cluster(ClusterConfig(1, None, 2 << 30), print):
            print(ray.get(ray.put("an earlier one answers")))
        assert "RAY_AUTH_TOKEN_PATH" not in os.environ

    ray.cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    root, name = Path(sys.argv[1]), sys.argv[2]
    threading.Thread(target=kill_when_it_works, args=(root, name), daemon=True).start()
    try:
        with ray_cluster(ClusterConfig(1, None, 2 << 30), print):
            resources, watch = WorkerResources(1, None, 2 << 30), MemoryWatch(1 << 50, print)
            flow = Dataflow(
                FolderPlace(root, root / "tmp/attempt"),
                resources,
                MemoryBook(),
                progress=Progress(None, None),
                watch=watch,
            )
            try:
                flow.do([step_run("step", Phase("", [task_of("step", "unit", wait, None)]))])
            finally:
                flow.close()
    except Stopped as error:
        print(error)
    assert "RAY_AUTH_TOKEN_PATH" not in os.environ
"""
"""A program that starts Ray for one run after another, the last of which loses a daemon at work."""


@pytest.mark.parametrize(
    ("daemon", "earlier"),
    some_of([("raylet", 0), ("raylet", 1), ("gcs_server", 0), ("gcs_server", 1)], 1),
)
def test_a_process_starts_ray_again_and_stops_when_it_loses_a_daemon_before_ray_ends_the_process(
    daemon: str, earlier: int, tmp_path: Path
) -> None:
    alone = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    command = [sys.executable, "-c", RUNS, str(tmp_path), daemon, str(earlier)]
    alone["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(command, env=alone, capture_output=True, text=True, check=False)
    lost = f"Ray's {daemon} ended (killed, or out of memory); run again to resume"
    said = done.stdout.splitlines()
    assert (lost in said, done.returncode) == (True, 0), done.stderr[-3000:]
    assert said[:earlier] == ["an earlier one answers"] * earlier
    assert (tmp_path / "works").exists()


def test_each_ray_that_a_process_starts_has_the_token_of_the_first_in_a_file_of_this_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ray reads a token once in a process, and goes on with it whatever it is told later."""
    tokens: list[str] = []

    def started(**_: object) -> NoReturn:
        file = Path(os.environ["RAY_AUTH_TOKEN_PATH"])
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        tokens.append(file.read_text())
        raise TypeError

    for name in ("RAY_AUTH_TOKEN_PATH", "RAY_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", started)
    for _ in range(2):
        with pytest.raises(TypeError), ray_cluster(ClusterConfig(1, None, 2 << 30), print):
            pytest.fail("it did not start")
        assert "RAY_AUTH_TOKEN_PATH" not in os.environ
    assert tokens == [tokens[0]] * 2
    assert len(tokens[0]) == 64


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, TypeError])
def test_what_ray_had_started_when_its_start_broke_off_is_ended(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    children = []

    def broken(**_: object) -> NoReturn:
        children.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]))
        raise error

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", broken)
    with pytest.raises(error), ray_cluster(ClusterConfig(1, None, 2 << 30), print):
        pytest.fail("it did not start")
    (child,) = children
    assert child.wait(timeout=30) == -signal.SIGKILL


SHOWS = """if True:
    import os, sys
    import ray
    from pathlib import Path
    from pipeline.engine.cluster import ClusterConfig, ray_cluster
    from pipeline.system.stopping import active_signals

    with active_signals():
        with ray_cluster(ClusterConfig(1, None, 2 << 30), print):
            folder = Path(ray._private.worker._global_node.get_temp_dir_path())
            print(folder)
            print(oct(folder.parent.stat().st_mode))
            paths = [line.split()[-1] for line in open("/proc/net/unix") if str(folder) in line]
            print(max(map(len, paths)))
            print(max(len(str(path)) for path in folder.rglob("sockets/*")))
        status = dict(line.split(":\\t") for line in Path("/proc/self/status").read_text().splitlines())
        print(int(status["SigCgt"], 16) >> 14 & 1)  # SIGTERM is 15
"""
"""A program that starts Ray, says where its sockets lie, and whether SIGTERM is handled at the end."""


@pytest.mark.parametrize("length", [60, 120])
def test_ray_starts_below_a_long_folder_for_temporary_files_and_leaves_nothing(
    length: int, tmp_path: Path
) -> None:
    long = tmp_path / ("x" * max(1, length - len(str(tmp_path)) - 1))
    long.mkdir()
    assert len(str(long)) >= length
    alone = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    alone |= {"PYTHONPATH": str(Path(__file__).resolve().parents[2]), "TMPDIR": str(long)}
    done = subprocess.run(
        [sys.executable, "-c", SHOWS], env=alone, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    folder, mode, *longest, is_handled = done.stdout.splitlines()
    assert is_handled == "1", "Ray gives the signal back to the system when it is left"
    assert mode == "0o40700"
    private = Path(folder).parent
    assert private.parent == Path("/tmp")  # noqa: S108  # Ray's own, and gone
    assert not private.exists()
    assert list(long.iterdir()) == []
    expected = len(f"{folder}/{ray_room._socket()}")  # noqa: SLF001  # the length alone is asked for
    assert all(abs(int(found) - expected) <= 2 for found in longest)  # ids of processes differ in length


STORM = """if True:
    import os, subprocess, sys, time
    from pathlib import Path
    from pipeline.engine.cluster import ClusterConfig, ray_cluster
    from pipeline.engine.memory import process_tree
    from pipeline.system.stopping import active_signals

    def of_ray():
        below = set(process_tree(os.getpid())) - {os.getpid()}
        calls = [Path(f"/proc/{pid}/cmdline").read_text() for pid in below]  # one that ended has none
        return [call for call in calls if "ray" in call]

    with active_signals() as signals:
        signals.ends_process = True
        try:
            with ray_cluster(ClusterConfig(1, None, 2 << 30), print):
                before = of_ray()
                subprocess.Popen(["sh", "-c", f"while kill -TERM {os.getpid()}; do sleep 0.01; done"])
                time.sleep(60)
        except BaseException as error:
            time.sleep(1)
            print(len(before) > 3, of_ray())
            sys.stdout.flush()
            os._exit(signals.end(error))
"""
"""A program that gets SIGTERM again and again, from when Ray has started."""


def test_signals_that_come_again_and_again_while_ray_is_left_end_the_process_in_order() -> None:
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-c", STORM],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 75, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "True []", "Ray's processes are gone"
    assert "SIGTERM: stopped; run again to resume" in done.stderr


KILLED = """if True:
    import os, signal
    from pipeline.engine.cluster import ClusterConfig, ray_cluster

    with ray_cluster(ClusterConfig(1, None, 2 << 30), print):
        print(os.environ["SHARDMILL_RAY"], flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""
"""A program that is killed when it has just started Ray, whose agents would wait for a minute."""


def test_the_ray_of_a_process_that_is_killed_ends_and_so_does_its_folder() -> None:
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-c", KILLED],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    folder = Path(done.stdout.strip())
    assert folder.is_dir()
    mark, end = f"SHARDMILL_RAY={folder}".encode(), time.monotonic() + 30
    while (left := processes_with(mark)) or folder.exists():
        assert time.monotonic() < end, left
        time.sleep(0.2)


def processes_with(mark: bytes) -> list[str]:
    """Return the processes that have something in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in path.read_bytes().split(b"\0"):
                found.append(path.with_name("cmdline").read_text())
    return found
