"""Machine memory: how much this process may have, which a container's limit may make less.

/proc/self/cgroup            0::/user.slice/job
/sys/fs/cgroup               user.slice/job/memory.max, user.slice/memory.max, memory.max
"""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_LIMITS = {"": "memory.max", "memory": "memory.limit_in_bytes"}
"""Files of limits, by the controller of their hierarchy: cgroup v2 has none, v1 has one named so."""


def machine_memory(root: Path = Path("/")) -> int:
    """Return the bytes of this machine's memory, or of the least limit of this process if that is less.

    Args:
        root: folder in which `proc` and `sys` are.
    """
    held = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([held, *_limits(root)])


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
