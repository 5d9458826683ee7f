"""Memory: what the run's processes hold, and how `resources.memory` is kept.

Counted is what only we can give back: the anonymous and shared memory (Pss_Anon and Pss_Shmem of
/proc/PID/smaps_rollup) of this process and all below it: workers, Ray's daemons, its object store. Pages
of mapped files are the system's to take.

It is kept in three ways: a step whose least need does not fit is refused before it starts; a step
runs on as many workers as fit (`fitting_workers`); and a watch gives up workers when the sum passes
the bound.
"""

import contextlib
import os
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, Self

from stages.errors import ConfigError, Stopped

MIB = 1 << 20
BASE = 512 * MIB
"""Ray's daemons and this process: 350 MiB measured with ray 2.60, and room for the driver's sums."""
WORKER = 96 * MIB
"""An idle worker with its libraries: 58 MiB measured, 90 MiB with compiled kernels."""
PERIOD_SECONDS = 1.0
"""Between two looks: one takes 5 ms a process."""


def fitting_workers(memory: int, workers: int, *, step: str, need: int, remedy: str = "") -> int:
    """Give how many workers of a step fit into `memory` at once, at most as many as asked for.

    Args:
        memory: `resources.memory`, bytes.
        workers: asked for.
        step: for the message.
        need: bytes that a worker of this step may take beyond an idle one's.
        remedy: what else than more memory would help.

    Raises:
        ConfigError: not even one fits.
    """
    fitting = (memory - BASE) // (WORKER + need)
    if fitting < 1:
        least = BASE + WORKER + need
        raise ConfigError(
            f"resources.memory = {show_bytes(memory)}: step {step} needs {show_bytes(least)} on a node"
            f" ({show_bytes(BASE)} for Ray and the driver, {show_bytes(WORKER + need)} for a worker);"
            f" set it to {-(-least // MIB)}MiB or more{remedy and f', or {remedy}'}"
        )
    return min(workers, fitting)


def show_bytes(size: float) -> str:
    """Give a size as people read it.

    1610612736 -> "1.5 GiB"
    """
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:  # noqa: PLR2004  # the step between units
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} GiB"


def held_bytes(pid: int) -> int:
    """Give the anonymous and shared bytes of a process, shared ones divided among those that share."""
    held = 0
    with contextlib.suppress(OSError):  # it ended meanwhile
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith(("Pss_Anon:", "Pss_Shmem:")):
                held += int(line.split()[1]) << 10
    return held


def process_tree(root: int) -> list[int]:
    """Give a process and all below it."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                fields = (entry / "stat").read_text(encoding="utf-8", errors="replace")
                parent = int(fields.rpartition(")")[2].split()[1])
                children[parent].append(int(entry.name))
    tree = [root]
    for pid in tree:
        tree += children[pid]
    return tree


class MemoryWatch:
    """Looks every second at what the run's processes hold on this node.

    Args:
        limit: `resources.memory`, bytes.
        note: tells people when workers are given up.
        period: seconds between two looks.
    """

    def __init__(
        self, limit: int, note: Callable[[str], None], *, period: float = PERIOD_SECONDS
    ) -> None:
        self.limit = limit
        self.note = note
        self._period = period
        self._held = 0
        self._peak = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="memory-watch", daemon=True)

    def __enter__(self) -> Self:
        """Begin to look."""
        if Path("/proc/self/smaps_rollup").exists():  # Linux alone has it; elsewhere nothing is watched
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop looking."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def held(self) -> int:
        """Bytes at the last look; 0 before the first."""
        return self._held

    def take_peak(self) -> int:
        """Give the most bytes seen since the last call, and begin anew."""
        peak, self._peak = max(self._peak, self._held), 0
        return peak

    def is_over(self) -> bool:
        """Say whether the last look was over the bound; what it saw then is forgotten."""
        over = self._held > self.limit
        if over:
            self._held = 0  # one look, one answer: the next one decides again
        return over

    def refuse(self, unit: str) -> NoReturn:
        """Stop the run: the last worker alone takes more than there is.

        Raises:
            Stopped: always.
        """
        raise Stopped(
            f"resources.memory = {show_bytes(self.limit)}: {show_bytes(self._peak)} were in use with one"
            f" worker left, on unit {unit}; set it higher and run again to resume"
        )

    def _look_on(self) -> None:
        while not self._ended.is_set():
            self._held = sum(held_bytes(pid) for pid in process_tree(os.getpid()))
            self._peak = max(self._peak, self._held)
            self._ended.wait(self._period)
