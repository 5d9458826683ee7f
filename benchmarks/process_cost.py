"""What a command costs, all of its processes counted: CPU seconds, wall seconds and memory.

    process_cost.py FOLDER [--period 0.25] -- COMMAND ...

Prints one JSON object; what the command says goes to FOLDER/output.log. This process is a subreaper: it
adopts every process that the command leaves behind, as Ray's daemons are, and waits for it. So the CPU
seconds of the children that it waited for are those of all processes, with one exception: a program may
tell the system that it does not wait for its own children, and then their time is lost. Therefore the
processes are also sampled, found by a marker in their environment. Sampling misses what a process does
after its last sample. `cpu_seconds` is the larger of the two sums. Linux only.
"""

import argparse
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from process_memory import MemorySampler
from run_processes import launch, new_marker, run_processes

LOG = "output.log"
PERIOD = 0.25
"""Seconds from one sample to the next."""
LEFTOVER_SECONDS = 60.0
"""Longest wait for processes that the command left behind."""
_SET_CHILD_SUBREAPER = 36
"""Option of prctl(2)."""
_POLL = 0.05


@dataclass(frozen=True)
class Cost:
    """What a command cost."""

    exit_code: int
    wall_seconds: float
    """Until the command itself ended."""
    cpu_seconds: float
    waited_cpu_seconds: float
    """User and system time of all processes that were waited for."""
    sampled_cpu_seconds: float
    peak_mib: float
    """Largest sum over all processes of a sample: Pss_Anon and Pss_Shmem."""
    processes: int
    """How many were seen in samples."""


def adopt_orphans() -> None:
    """Make this process the parent of all descendants that lose theirs.

    Raises:
        OSError: the system refuses.
    """
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def measure_here(command: Sequence[str], folder: Path, *, period: float) -> Cost:
    """Run a command; return what it cost. This process must have had no other child."""
    adopt_orphans()
    marker = new_marker()
    began = time.monotonic()
    sampler = MemorySampler(lambda: run_processes(marker), folder, period=period)
    try:
        process = launch(command, marker, log=folder / LOG)
        sampler.start()
        exit_code = process.wait()
        wall = time.monotonic() - began
        _wait_for_orphans(time.monotonic() + LEFTOVER_SECONDS)
        figures = sampler.stop()
    finally:
        for left in run_processes(marker):
            os.kill(left.pid, signal.SIGKILL)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    waited = usage.ru_utime + usage.ru_stime
    return Cost(
        exit_code=exit_code,
        wall_seconds=wall,
        cpu_seconds=max(waited, figures["cpu_seconds"]),
        waited_cpu_seconds=waited,
        sampled_cpu_seconds=figures["cpu_seconds"],
        peak_mib=figures["peak_mib"],
        processes=figures["processes"],
    )


def _wait_for_orphans(deadline: float) -> None:
    """Wait for all children that are left, none of which this process started."""
    with suppress(ChildProcessError):
        while time.monotonic() < deadline:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if not pid:
                time.sleep(_POLL)


def measure(command: Sequence[str], folder: Path, *, period: float = PERIOD) -> Cost:
    """Run a command under a process of its own that measures it; return what it cost.

    Args:
        command: the words of the command.
        folder: where what it says is written; made if need be.
        period: seconds from one sample to the next.
    """
    folder.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, __file__, str(folder), "--period", str(period), "--", *command]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True)  # noqa: S603  # what is measured
    return Cost(**json.loads(done.stdout))


def last_line(folder: Path) -> str:
    """Return the last line that a measured command said."""
    text = (folder / LOG).read_text(encoding="utf-8", errors="replace")
    return ([line.strip() for line in text.splitlines() if line.strip()] or ["no message"])[-1]


def main() -> None:
    """Measure the command and print what it cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, help="where what the command says is written")
    parser.add_argument("--period", type=float, default=PERIOD, help="seconds between two samples")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    cost = measure_here(arguments.command, arguments.folder, period=arguments.period)
    print(json.dumps(asdict(cost)))


if __name__ == "__main__":
    main()
