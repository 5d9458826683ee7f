"""Peak memory: what a piece of work takes in this process, beyond what the process held before it."""

import re
from collections.abc import Callable
from pathlib import Path

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
