"""The processes of a measured run: found by a variable of their environment, wherever they are.

Ray's daemons and workers change their parent, their group and their title, but a process keeps the
environment it was started with, and so does every process that it starts. Linux only.
"""

import json
import os
import secrets
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

VARIABLE = "SHARDMILL_BENCHMARK"
_TICKS = os.sysconf("SC_CLK_TCK")
_WORKER_TITLE = "ray::"
_NO_WORKERS = ("ray::IDLE", "ray::DashboardAgent", "ray::RuntimeEnvAgent")


@dataclass(frozen=True)
class RunProcess:
    """One process of a run."""

    pid: int
    started: int
    """Clock ticks from the machine's start to the process's: with the pid, its name for good."""
    command: str = field(compare=False)
    """Command line, or the title that the process gave itself; it changes in a worker's life."""

    @property
    def is_worker(self) -> bool:
        """Say whether it is a Ray actor or task, not one of Ray's daemons or an idle process."""
        return self.command.startswith(_WORKER_TITLE) and not self.command.startswith(_NO_WORKERS)

    @property
    def label(self) -> str:
        """A short name for people."""
        words = self.command.split()
        if not words or self.command.startswith(_WORKER_TITLE):
            return words[0] if words else "?"
        scripts = [Path(word).name for word in words[1:] if not word.startswith("-")]
        name = Path(words[0]).name
        return f"{name} {scripts[0]}" if name.startswith("python") and scripts else name


def new_marker() -> str:
    """Return a value of the variable that no other run has."""
    return f"run-{secrets.token_hex(8)}"


def launch(command: Sequence[str], marker: str, *, log: Path) -> subprocess.Popen[bytes]:
    """Start a command whose processes can be found by the marker; what it says goes to the log."""
    with log.open("ab") as stream:
        return subprocess.Popen(  # noqa: S603  # the command is what the caller measures
            list(command),
            env=os.environ | {VARIABLE: marker},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )


@contextmanager
def launched(
    command: Sequence[str], marker: str, *, log: Path, patience: float = 60.0
) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a command that does not outlive the block: it is told to stop, and killed if it does not.

    Args:
        command: its words.
        marker: by which its processes can be found.
        log: gets what it says.
        patience: seconds that it has to stop.
    """
    process = launch(command, marker, log=log)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(patience)
            process.kill()
            process.wait()


@contextmanager
def ended_with_block(child: int) -> Iterator[None]:
    """Kill a forked process, and wait for it, if the block that waits for it is left by an exception."""
    try:
        yield
    except BaseException:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        raise


def run_command(
    command: str, run_file: Path, output: Path, *, workers: int, overrides: Sequence[str]
) -> list[str]:
    """Return the command line of `shardmill run`."""
    words = [*shlex.split(command), "run", str(run_file), "--output", str(output)]
    words += ["--workers", str(workers)]
    return words + [word for override in overrides for word in ("--set", override)]


def corpus_override(corpus: str) -> str:
    """Return the setting that puts one corpus, a glob of files, in place of a run file's sources.

    Its records have their id in "id" and their language in "lang", if they have them.
    """
    place = json.dumps(str(Path(corpus).absolute()))
    return f'sources=[{{name="corpus", paths=[{place}], id_column="id", language={{column="lang"}}}}]'


def run_processes(marker: str) -> list[RunProcess]:
    """Return the processes that run now and carry the marker."""
    wanted = f"{VARIABLE}={marker}".encode()
    return [process for pid in _pids() for process in _read_process(pid, wanted)]


def process_tree(root: int) -> list[RunProcess]:
    """Return a process and all that descend from it now, in no order."""
    parents = {}
    for pid in _pids():
        with suppress(OSError):
            parents[pid] = _stat(pid)[1]
    inside, found = {root} & parents.keys(), {root} & parents.keys()
    while found:
        found = {pid for pid, parent in parents.items() if parent in found}
        inside |= found
    return [process for pid in inside for process in _read_process(pid, None)]


def _pids() -> Iterator[int]:
    for name in os.listdir("/proc"):  # noqa: PTH208  # names are all that is needed
        if name.isdigit():
            yield int(name)


def _read_process(pid: int, wanted: bytes | None) -> Iterator[RunProcess]:
    """Yield the process if it carries what is wanted and has not ended meanwhile."""
    folder = Path(f"/proc/{pid}")
    with suppress(OSError):
        if wanted is None or wanted in (folder / "environ").read_bytes().split(b"\0"):
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").strip()
            if command:  # a zombie has none
                yield RunProcess(pid, _stat(pid)[19], command.decode(errors="replace"))


def _stat(pid: int) -> list[int]:
    """Return the numbers of /proc/PID/stat that follow the name; the state reads 0."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return [int(word) if word.lstrip("-").isdigit() else 0 for word in text.rpartition(")")[2].split()]


def cpu_seconds(pid: int) -> float:
    """Return the CPU time, user and system, of a process's own threads; 0 if it is gone."""
    with suppress(OSError):
        return sum(_stat(pid)[11:13]) / _TICKS
    return 0.0


def wait_until_gone(marker: str, *, timeout: float, poll: float = 0.1) -> float | None:
    """Wait until no process carries the marker; give the seconds, or None after the timeout."""
    began = time.monotonic()
    while run_processes(marker):
        if time.monotonic() - began > timeout:
            return None
        time.sleep(poll)
    return time.monotonic() - began
