"""Regular files: opened in a way that never waits, and refused if something else stands there.

A FIFO waits for its other end for ever, and a device such as /dev/zero never ends. What stands at a path
is looked at before it is opened and again after, since another program may replace it in between.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}

Refuse = Callable[[str | None], None]
"""Takes what stands there instead of a regular file, None if one does; raises to refuse it."""


def kind_of(mode: int) -> str | None:
    """Return what a path is instead of a regular file, or None if it is one.

    Args:
        mode: as `os.stat` gives it.
    """
    return None if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "no regular file")


def open_regular(path: Path, check: Refuse, flags: int = os.O_RDONLY) -> int:
    """Open a file that `check` takes, and return its descriptor.

    Args:
        path: the file; links are followed.
        check: refuses what is no regular file.
        flags: as `os.open` takes them; with O_CREAT the file may be missing.

    Raises:
        OSError: as the system says.
    """
    try:
        check(kind_of(path.stat().st_mode))
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    try:
        check(kind_of(os.fstat(descriptor).st_mode))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_regular(path: Path, check: Refuse) -> bytes:
    """Return the bytes of a file that `check` takes.

    Raises:
        OSError: as the system says.
    """
    with os.fdopen(open_regular(path, check), "rb") as file:
        return file.read()
