"""Memory of a run over time: the peak, the peak of each step, and who held it.

A process's memory is the sum of Pss_Anon and Pss_Shmem of /proc/PID/smaps_rollup: pages that are its
own, and its share of shared memory (Ray's object store counts once, not once a process). Pages of
mapped files are left out: the kernel can drop them at any time. It is sampled, so a peak shorter than
the period may be missed; VmHWM misses none, but counts mapped files and shared pages in every process.

    process_memory.py MARKER_OR_PID     what one running benchmark, or one process tree, holds now
"""

import argparse
import json
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from run_processes import RunProcess, cpu_seconds, process_tree, run_processes

PERIOD = 0.5
STARTING = "(starting)"
"""Stands for the step before the first one is known."""
_FIELDS = ("Pss_Anon:", "Pss_Shmem:")
_TOP = 5


def private_bytes(pid: int) -> int:
    """Return the memory of one process in bytes; 0 if it is gone."""
    total = 0
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith(_FIELDS):
                total += int(line.split()[1]) * 1024
    return total


def running_step(output: Path, pids: Iterable[int]) -> str:
    """Return the step that the run's status names, if the status is that of one of the processes."""
    with suppress(OSError, ValueError):
        status = json.loads((output / "status.json").read_bytes())
        if status.get("pid") in set(pids):
            return str(status.get("step", STARTING))
    return STARTING


@dataclass
class Peaks:
    """The highest memory seen, in all and by step, and the CPU time of every process seen."""

    samples: int = 0
    peak: int = 0
    peak_step: str = ""
    top: list[tuple[str, int]] = field(default_factory=list)
    """Labels and bytes of the largest processes at the peak."""
    by_step: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    workers_by_step: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    """The largest single Ray worker in each step."""
    cpu: dict[RunProcess, tuple[str, float]] = field(default_factory=dict)
    """The latest label and CPU seconds of each process."""

    def add(self, step: str, memory: list[tuple[RunProcess, int]]) -> None:
        """Count one sample."""
        self.samples += 1
        total = sum(held for _, held in memory)
        workers = [held for process, held in memory if process.is_worker]
        self.by_step[step] = max(self.by_step[step], total)
        self.workers_by_step[step] = max([self.workers_by_step[step], *workers])
        if total > self.peak:
            largest = sorted(memory, key=lambda entry: -entry[1])[:_TOP]
            self.peak, self.peak_step = total, step
            self.top = [(process.label, held) for process, held in largest]

    def add_cpu(self, process: RunProcess, seconds: float) -> None:
        """Keep the latest CPU time of a process; it only grows."""
        _, before = self.cpu.get(process, ("", 0.0))
        self.cpu[process] = (process.label, max(before, seconds))

    def figures(self) -> dict[str, Any]:
        """Return all of it for a report, memory in MiB."""
        return {
            "samples": self.samples,
            "peak_mib": mib(self.peak),
            "peak_step": self.peak_step,
            "peak_processes": [{"process": name, "mib": mib(held)} for name, held in self.top],
            "by_step_mib": {step: mib(held) for step, held in self.by_step.items()},
            "largest_worker_by_step_mib": {
                step: mib(held) for step, held in self.workers_by_step.items()
            },
            "cpu_seconds": round(sum(seconds for _, seconds in self.cpu.values()), 2),
            "cpu_seconds_by_process": self._cpu_by_label(),
            "processes": len(self.cpu),
        }

    def _cpu_by_label(self) -> dict[str, float]:
        labels: defaultdict[str, float] = defaultdict(float)
        for label, seconds in self.cpu.values():
            labels[label] += seconds
        most = sorted(labels.items(), key=lambda entry: -entry[1])
        return {label: round(seconds, 2) for label, seconds in most}


class MemorySampler(threading.Thread):
    """Samples the processes of a run until it is stopped.

    Args:
        find: gives the processes to sample.
        output: the run's folder, whose status names the step.
        period: seconds from one sample to the next.
        driver: the process of that status, where it is none of those that are sampled.
    """

    def __init__(
        self,
        find: Callable[[], list[RunProcess]],
        output: Path,
        *,
        period: float = PERIOD,
        driver: int = 0,
    ) -> None:
        super().__init__(name="memory", daemon=True)
        self.peaks = Peaks()
        self.seconds = 0.0
        self._find = find
        self._output = output
        self._period = period
        self._driver = driver
        self._stopped = threading.Event()

    def run(self) -> None:
        """Sample until stopped."""
        while not self._stopped.wait(self._period):
            began = time.thread_time()
            self.sample()
            self.seconds += time.thread_time() - began

    def sample(self) -> None:
        """Take one sample."""
        processes = self._find()
        for process in processes:
            self.peaks.add_cpu(process, cpu_seconds(process.pid))
        memory = [(process, private_bytes(process.pid)) for process in processes]
        pids = [self._driver, *(process.pid for process in processes)]
        self.peaks.add(running_step(self._output, pids), memory)

    def stop(self) -> dict[str, Any]:
        """Stop sampling; give the figures, with the CPU time that sampling took."""
        self._stopped.set()
        self.join()
        return {**self.peaks.figures(), "sampling_cpu_seconds": round(self.seconds, 2)}


def mib(held: float) -> float:
    """Return bytes in MiB."""
    return round(held / 2**20, 1)


def main() -> int:
    """Print what the processes of a run hold now."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "run", metavar="MARKER_OR_PID", help="a benchmark's marker, or a root process id"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the result there too")
    arguments = parser.parse_args()
    by_pid = arguments.run.isdigit()
    processes = process_tree(int(arguments.run)) if by_pid else run_processes(arguments.run)
    held: Counter[str] = Counter()
    for process in processes:
        held[f"{process.pid:>8} {process.label}"] = private_bytes(process.pid)
    for name, size in held.most_common():
        print(f"{mib(size):>9,.1f} MiB {name}")
    print(f"{mib(held.total()):>9,.1f} MiB in {len(processes)} processes")
    if arguments.json:
        arguments.json.write_text(json.dumps(dict(held), indent=1) + "\n", encoding="utf-8")
    return 0 if processes else 1


if __name__ == "__main__":
    sys.exit(main())
