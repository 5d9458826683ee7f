"""Memory: how much this process may have, what a piece of work takes of it, and when it goes back.

Memory release: freed memory goes back to the system, which else counts it as held.

Machine memory: how much this process may have, which a container's limit may make less.

/proc/self/cgroup            0::/user.slice/job
/sys/fs/cgroup               user.slice/job/memory.max, user.slice/memory.max, memory.max
"""

import contextlib
import ctypes
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import pyarrow as pa

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_PEAK = "5"
"""Written to `_RESET`, it sets the process's peak to what it holds now: proc(5)."""


def watched_memory() -> Callable[[], int | None]:
    """Begin to watch; the returned function gives the bytes taken since, at the most.

    It counts all resident pages, those of files too. It gives None where the system keeps no peak that
    can be set back, as outside of Linux.
    """
    try:
        _RESET.write_text(_PEAK, encoding="ascii")
        before = _kept("VmRSS")
    except (OSError, ValueError):
        return lambda: None
    return lambda: max(0, _kept("VmHWM") - before)


def _kept(name: str) -> int:
    """Return a number of bytes that the system keeps of this process."""
    found = re.search(rf"^{name}:\s+(\d+) kB$", _STATUS.read_text(encoding="ascii"), re.MULTILINE)
    if found is None:
        raise ValueError(f"{_STATUS}: has no {name}")
    return int(found[1]) << 10


def release_freed_memory() -> None:
    """Return freed memory to the system: what comes next may be small, or need it elsewhere."""
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(AttributeError, OSError):  # glibc alone has it
        ctypes.CDLL(None).malloc_trim(0)


_LIMITS = {"": "memory.max", "memory": "memory.limit_in_bytes"}
"""Files of limits, by the controller of their hierarchy: cgroup v2 has none, v1 has one named so."""


def machine_memory(root: Path = Path("/")) -> int:
    """Return the bytes of this machine's memory, or of the least limit of this process if that is less.

    Args:
        root: folder in which `proc` and `sys` are.
    """
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([physical, *_limits(root)])


def _limits(root: Path) -> Iterator[int]:
    """Yield the limits of the groups that this process is in, and of those above them."""
    mounted = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, _, of = line.partition(":")
        controllers, _, path = of.partition(":")
        for controller in controllers.split(","):
            if controller not in _LIMITS:
                continue
            group = PurePosixPath(path)
            for above in (group, *group.parents):
                # In a container, the path may be that outside of it; then only the top is there.
                limit = _read(mounted / controller / str(above).lstrip("/") / _LIMITS[controller])
                if limit.strip().isdecimal() and int(limit) > 0:
                    yield int(limit)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
