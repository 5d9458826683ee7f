"""Limits of a process: what a shell, a service or a container lets it have, if that is what it ran into.

    ulimit -f   the size of a file        EFBIG
    ulimit -u   processes and threads     EAGAIN, "can't start new thread"
    ulimit -v   address space             ENOMEM, MemoryError
    ulimit -n   open files                EMFILE

A limit is no fault of the disk, nor of a file: once it is raised, the same command goes on.
"""

import errno
import resource
from pathlib import Path

from pipeline.system.printable import show_bytes
from stages.errors import Stopped

_PIDS = Path("/sys/fs/cgroup/pids.max")
_ADDRESS_SPACE = 4 << 30
"""Bytes that the libraries of a run map; with less, some of them end the process or wait for ever."""
_NO_THREAD = ("can't start new thread", "Failed to launch worker thread")
"""What Python and pyarrow say if they can start none."""


def limit_of(number: int | None) -> str | None:
    """Return the limit that a fault of the system comes from, with its name; None if none is set.

    Args:
        number: of the fault.
    """
    match number:
        case errno.EFBIG:
            return _said(
                resource.RLIMIT_FSIZE, "a file of this process may have {} (ulimit -f)", size=True
            )
        case errno.ENOMEM:
            return _said(
                resource.RLIMIT_AS, "this process may have {} of address space (ulimit -v)", size=True
            )
        case errno.EMFILE:
            return _said(resource.RLIMIT_NOFILE, "this process may have {} files open (ulimit -n)")
        case errno.EAGAIN:
            return _processes()
    return None


def says_no_thread(error: BaseException) -> bool:
    """Say whether an exception without a number means that no thread can be started."""
    return any(said in str(error) for said in _NO_THREAD)


def require_address_space() -> None:
    """Refuse to begin where the libraries could not: they do not say what they lack.

    Raises:
        Stopped: the address space is limited to too little.
    """
    value, _ = resource.getrlimit(resource.RLIMIT_AS)
    if value != resource.RLIM_INFINITY and value < _ADDRESS_SPACE:
        raise Stopped(
            f"{limit_of(errno.ENOMEM)}, and needs {show_bytes(_ADDRESS_SPACE)}, most of which it never"
            " uses; raise the limit and run again"
        )


def _processes() -> str | None:
    own = _said(resource.RLIMIT_NPROC, "this user may have {} processes and threads (ulimit -u)")
    try:
        pids = _PIDS.read_text(encoding="ascii").strip()
    except OSError:
        pids = ""
    group = (
        f"this container may have {int(pids):,} processes and threads (pids.max)"
        if pids.isdecimal()
        else None
    )
    return ", and ".join(filter(None, (own, group))) or None


def _said(kind: int, text: str, *, size: bool = False) -> str | None:
    value, _ = resource.getrlimit(kind)
    if value == resource.RLIM_INFINITY:
        return None
    return text.format(show_bytes(value) if size else f"{value:,}")
