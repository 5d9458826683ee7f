"""Memory: what the run's processes hold, and how `resources.memory` is kept.

The limit counts anonymous and shared memory (Pss_Anon and Pss_Shmem of /proc/PID/smaps_rollup), because
the system can reclaim all other pages, such as those of mapped files. It counts this process and all
below it: workers, Ray's daemons, Ray's object store. On the nodes of a cluster that was joined it counts
the workers of the run.

It is kept in three ways. A step whose least need does not fit is refused before it starts. Each task
reserves its need before it starts (`pipeline.engine.dataflow`). A watch (`pipeline.engine.watch`, and
`node_watch` on a cluster) stops workers before the sum passes the limit.
"""

import contextlib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from pipeline.system.printable import show_bytes
from stages.errors import ConfigError

MIB = 1 << 20
BASE = 448 * MIB
"""Ray's daemons and this process: 380 to 415 MiB measured with ray 2.60, with the driver's sums."""
WORKER = 96 * MIB
"""An idle worker with its libraries: 58 MiB measured, 90 MiB with compiled kernels."""
INLINE = 256 * MIB
"""This process when it does the work itself, idle: 65 MiB measured, 245 MiB once it has compiled the
kernels of all steps."""


@dataclass(frozen=True)
class WorkerResources:
    """Who does the work."""

    workers: int
    """0: this process, without Ray."""
    address: str | None
    memory: int
    """Of a node, bytes."""
    follows_cores: bool = False
    """Whether the number of workers follows the cores of the cluster that was joined."""
    inputs: tuple[tuple[Path, int], ...] = ()
    """Local files that every node must have, with their bytes."""


@dataclass(frozen=True)
class AskedWorkers:
    """Who is asked to do the work, before it is known how much memory the run may hold."""

    count: int
    address: str | None = None
    follows_cores: bool = False

    def within(self, memory: int) -> WorkerResources:
        """Return them with the bytes that the run may hold on a node."""
        return WorkerResources(self.count, self.address, memory, follows_cores=self.follows_cores)


@dataclass(frozen=True)
class Need:
    """The memory that a step asks for."""

    bytes: int
    """Of one worker, beyond `WORKER`."""
    remedy: str = ""
    """What lowers it, if the step takes more than there is."""
    lowered: int | None = None
    """Bytes once the remedy is followed; None if that depends on the value of a setting."""


def fitting_workers(memory: int, workers: int, *, step: str, need: int, remedy: str = "") -> int:
    """Return how many workers of a step fit into `memory` at once, at most as many as asked for.

    Args:
        memory: `resources.memory`, bytes.
        workers: asked for; 0 is this process, without Ray.
        step: for the message.
        need: bytes that a worker of this step may take beyond an idle one's.
        remedy: what else than more memory would help.

    Raises:
        ConfigError: not even one fits.
    """
    base, worker = (BASE, WORKER) if workers else (INLINE, 0)
    fitting = (memory - base) // (worker + need)
    if fitting < 1:
        least = base + worker + need
        shares = (
            f"{show_bytes(base)} for Ray and the driver, {show_bytes(worker + need)} for a worker"
            if workers
            else f"{show_bytes(base)} for the program, {show_bytes(need)} for its work"
        )
        raise ConfigError(
            f"resources.memory = {show_bytes(memory)}: step {step} needs {show_bytes(least)} on a node"
            f" ({shares}); set it to {-(-least // MIB)}MiB or more{remedy and f', or {remedy}'}"
        )
    return min(workers, fitting)


def room_of_worker(memory: int, workers: int) -> int:
    """Return what a step's work may take, with one worker, or with none in this process."""
    return memory - (BASE + WORKER if workers else INLINE)


def unreclaimable_bytes(pid: int) -> int:
    """Return the anonymous and shared bytes of a process, shared ones divided among those that share."""
    total = 0
    with contextlib.suppress(OSError):  # it ended meanwhile
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith(("Pss_Anon:", "Pss_Shmem:")):
                total += int(line.split()[1]) << 10
    return total


def process_tree(*roots: int) -> list[int]:
    """Return processes and all below them."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                fields = (entry / "stat").read_text(encoding="utf-8", errors="replace")
                parent = int(fields.rpartition(")")[2].split()[1])
                children[parent].append(int(entry.name))
    tree = [*roots]
    for pid in tree:
        tree += children[pid]
    return tree
