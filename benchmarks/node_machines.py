"""A Ray cluster on this machine, each of its nodes as a machine of its own, as far as one kernel goes.

    with ray_machines() as machines:
        machines.start(Machine("n2"), Machine("n3", mounts=(hidden("/data"),)))

Each node has an address on loopback, a host name, and what it sees of the disk: Linux namespaces of its
mounts, its name and its processes. So one signal ends all of a node, as if its power failed. Needs root,
or a kernel that lets users make namespaces of their own.
"""

import contextlib
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pipeline.engine.memory import process_tree

ROOT = Path(__file__).resolve().parents[1]
HEAD = "n1"
"""The node where runs are called."""
_OBJECT_STORE = 100 << 20
_START_SECONDS = 120.0
_STARTS = 3
"""Ray gives up by itself after 30 s, which a busy machine may need."""
_PATIENT = {
    "RAY_agent_register_timeout_ms": "120000",
    "RAY_raylet_start_wait_time_s": "120",
    "RAY_USAGE_STATS_ENABLED": "0",
}


@dataclass(frozen=True)
class Machine:
    """A node that may be started.

    Args:
        name: of its host: n and a number.
        cores: that Ray has there.
        mounts: commands, done in its own view of the disk.
        code: the folder of its packages `pipeline` and `stages`.
        environment: further variables.
    """

    name: str
    cores: int = 1
    mounts: tuple[str, ...] = ()
    code: Path = ROOT
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """Its address on loopback; the head has not 127.0.0.1, for which Ray takes another one."""
        return f"127.0.0.{10 + int(self.name.removeprefix('n'))}"


def hidden(folder: Path) -> str:
    """Return a mount after which a folder is empty."""
    return f"mount -t tmpfs none {shlex.quote(str(folder))}"


def read_only(folder: Path) -> str:
    """Return a mount after which nothing can be written to a folder."""
    path = shlex.quote(str(folder))
    return f"mount --bind {path} {path} && mount -o remount,bind,ro {path}"


def replaced(folder: Path, other: Path) -> str:
    """Return a mount after which a folder has what another has."""
    return f"mount --bind {shlex.quote(str(other))} {shlex.quote(str(folder))}"


class RayMachines:
    """The nodes of one cluster.

    Args:
        folder: for Ray's files, with a short path.
        environment: of all nodes, and of runs.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._port = _free_port()
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self._calls: list[subprocess.Popen[bytes]] = []
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32), encoding="utf-8")
        guarded = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
        self.environment = {**os.environ, **_PATIENT, **guarded, **environment, "PYTHONPATH": str(ROOT)}
        """What runs that join need."""

    @property
    def address(self) -> str:
        """Of the cluster."""
        return f"{Machine(HEAD).address}:{self._port}"

    def start(self, *machines: Machine) -> None:
        """Start nodes at the same time, and wait for all; the first of a cluster is its head.

        Raises:
            SystemExit: one does not start.
        """
        for machine in machines:
            self._begin(machine)
        for machine in machines:
            for _ in range(_STARTS - 1):
                if self._wait(machine.name):
                    break
                self.kill(machine.name)
                self._begin(machine)
            else:
                if not self._wait(machine.name):
                    raise SystemExit(f"{machine.name} did not start: {self._log(machine.name)[-800:]}")

    def call(self, words: Sequence[str], said: Path) -> "subprocess.Popen[bytes]":
        """Start Python on the head, in the folder of the file that gets what it says."""
        with said.open("wb") as file:
            started = subprocess.Popen(
                [sys.executable, *words],
                env=self.environment,
                cwd=said.parent,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        self._calls.append(started)
        return started

    def processes(self, name: str) -> list[int]:
        """Return the processes of a node that live."""
        return process_tree(self._nodes[name].pid) if name in self._nodes else []

    def daemon(self, name: str, daemon: str) -> int:
        """Return the process of a daemon of Ray on a node: raylet or gcs_server."""
        for pid in self.processes(name):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() == daemon:
                    return pid
        raise SystemExit(f"{name} has no {daemon}")

    def kill(self, name: str) -> int:
        """End all processes of a node by SIGKILL, its raylet first; return how many there were."""
        processes = self.processes(name)
        with contextlib.suppress(SystemExit):
            os.kill(self.daemon(name, "raylet"), signal.SIGKILL)
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._nodes.pop(name).wait()
        return len(processes)

    def stop(self, name: str) -> None:
        """Stop all processes of a node, as if its machine hung."""
        for pid in self.processes(name)[1:]:  # the first only waits for the others
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def wake(self, name: str) -> None:
        """Let a node that was stopped go on."""
        for pid in self.processes(name)[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def files_seen(self, name: str, folder: Path) -> dict[str, str]:
        """Return what a node sees below a folder: paths, with the size and time of each file."""
        place = Path(f"/proc/{self.daemon(name, 'raylet')}/root")
        found = {}
        for path in sorted((place / folder.relative_to("/")).rglob("*")):
            about = path.lstat()
            said = f"{about.st_size} {about.st_mtime_ns}" if path.is_file() else "folder"
            found[path.relative_to(place).as_posix()] = said
        return found

    def close(self) -> None:
        """End what was called, and all nodes, the head last."""
        for started in self._calls:
            started.kill()
            started.wait()
        for name in sorted(self._nodes, reverse=True):
            self.kill(name)

    def _begin(self, machine: Machine) -> None:
        start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block"]
        about = ["--node-ip-address", machine.address, "--num-cpus", str(machine.cores)]
        if machine.name == HEAD:
            own = ["--head", "--port", str(self._port), "--temp-dir", str(self._folder / "ray")]
            call = [*start, *about, *own, "--include-dashboard", "false"]
        else:
            inside = " && ".join(
                [f"hostname {machine.name}", *machine.mounts, f'exec {shlex.join(start)} "$@"']
            )
            call = [*_own_namespaces(), "sh", "-c", inside, "sh", *about, "--address", self.address]
        with (self._folder / f"{machine.name}.log").open("wb") as log:
            self._nodes[machine.name] = subprocess.Popen(
                [*call, "--object-store-memory", str(_OBJECT_STORE)],
                env={**self.environment, "PYTHONPATH": str(machine.code), **machine.environment},
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _wait(self, name: str) -> bool:
        """Wait until Ray says that a node has started; say whether it did."""
        end = time.monotonic() + _START_SECONDS
        while "Ray runtime started" not in self._log(name):
            if self._nodes[name].poll() is not None or time.monotonic() > end:
                return False
            time.sleep(0.1)
        return True

    def _log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")


def _own_namespaces() -> list[str]:
    """Return the command that gives a process its own mounts, host name and processes."""
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *user, "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]


def missing_namespaces() -> str | None:
    """Return why no node can have its own view of the disk here; None if it can."""
    if shutil.which("unshare") is None:
        return "unshare (util-linux) is not installed"
    call = [*_own_namespaces(), "sh", "-c", "hostname n2 && mount -t tmpfs none /mnt"]
    done = subprocess.run(call, check=False, capture_output=True, text=True)
    return None if done.returncode == 0 else f"no namespaces: {done.stderr.strip()}"


@contextlib.contextmanager
def ray_machines(environment: Mapping[str, str] | None = None) -> Iterator[RayMachines]:
    """Have a cluster without nodes yet, and end it with all that it left."""
    folder = Path(tempfile.mkdtemp(prefix="nodes-"))  # sockets have paths of at most 107 bytes
    machines = RayMachines(folder, environment or {})
    try:
        yield machines
    finally:
        machines.close()
        shutil.rmtree(folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
