"""Fatal signals: what would kill the process without a word, as one line and exit code 75.

    SIGBUS    a page of a mapped file that the system cannot give: the disk fills while a file system
              writes the page to a new place, or another program cuts a file that is being read
    SIGABRT   a library gives up; where the address space is limited (ulimit -v), that is why

Python's own handlers run between two instructions of Python, to which the process does not return. So
the handler is one of C's, and it ends the process: what is committed stays.
"""

import ctypes
import errno
import os
import signal
from typing import Any

from pipeline.system.limits import limit_of

_STOPPED = 75
_NO_PAGE = (
    "the system could not give a page of a mapped file (SIGBUS): the disk is full or failed, or another"
    " program cut the file; free space and run again to resume"
)


def end_at_fatal_signals() -> None:
    """Let a fatal signal of this process say what it is and end it with code 75."""
    _HANDLED[signal.SIGBUS] = _NO_PAGE
    limit = limit_of(errno.ENOMEM)
    if limit is not None:
        _HANDLED[signal.SIGABRT] = (
            f"a library ran out of memory (SIGABRT): {limit}; raise the limit and run again to resume"
        )
    try:
        install: Any = ctypes.CDLL(None).signal
    except (AttributeError, OSError):  # a system without this call, or without a C library to load
        return
    install.argtypes, install.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
    for number in _HANDLED:
        install(number, ctypes.cast(_HANDLER, ctypes.c_void_p))


def _end(number: int) -> None:
    try:
        os.write(2, f"shardmill: {_HANDLED[number]}\n".encode())
    finally:  # whatever becomes of the line: the signal would come again for ever
        os._exit(_STOPPED)


_HANDLED: dict[int, str] = {}
"""What is said of each signal that is handled."""
_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int)(_end)
"""Held for as long as the process lives: C knows only its address."""
