r"""Standard streams: there even if the caller closed them, and able to print any text.

    shardmill run ... 2>&-             descriptor 2 is /dev/null, and no file of the run gets it
    shardmill run ... 2>&1 | head      once head is gone, the rest goes to /dev/null, and the run goes on
    LC_ALL=C shardmill inspect ...     what the encoding has not is written out, as in caf\xe9

Nothing is imported here that takes time: this is the first thing that the command line does.
"""

import errno
import io
import os
import select
import stat
import sys
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, TextIO, cast

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_GONE = frozenset({errno.EPIPE, errno.ECONNRESET, errno.ESHUTDOWN})
"""Faults by which a stream says that nobody reads it any more."""
_HUNG_UP = frozenset({errno.EIO, errno.ENXIO})
"""Those of a terminal that was closed."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.ESTALE})
"""Faults of a file of messages: stderr tells how work goes, and the work is worth more."""


def prepare_standard_streams() -> None:
    """Make the standard streams such that none of them ends the work.

    One that is closed is /dev/null. Output takes every character. What nobody reads any more goes to
    /dev/null, and so does what is written to stderr where its file takes no more. A result that a file
    does not take, on stdout, is a fault.
    """
    for number in (0, 1, 2):
        _open_if_closed(number)
    sys.stdin = sys.stdin or _null("r")
    sys.stdout = sys.stdout or _null("w")
    sys.stderr = sys.stderr or _null("w")
    sys.stdout = _lasting(sys.stdout, 1, frozenset())
    sys.stderr = _lasting(sys.stderr, 2, _FULL)


def _open_if_closed(number: int) -> None:
    try:
        os.fstat(number)
    except OSError:
        null = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, so this one
        assert null == number, (null, number)
        os.set_inheritable(number, True)  # noqa: FBT003  # its only parameter


def _lasting(stream: TextIO, number: int, forgiven: AbstractSet[int]) -> TextIO:
    """Return a stream that takes every character and outlives its reader.

    Args:
        stream: the one that Python opened.
        number: its descriptor; another, such as that of a test, is only made to take every character.
        forgiven: the faults, beside those of a reader that is gone, after which the rest is dropped.
    """
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    stream.reconfigure(errors="backslashreplace")
    if stream.fileno() != number:
        return stream
    is_device = stat.S_ISCHR(os.fstat(number).st_mode)  # a terminal that hung up says that it is none
    gone = _GONE | forgiven | (_HUNG_UP if is_device else frozenset())
    return io.TextIOWrapper(
        io.BufferedWriter(_LastingStream(stream, gone)),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


class _LastingStream(io.RawIOBase):
    """A stream that leads to /dev/null once some fault of it says that nobody reads it.

    Args:
        stream: whose descriptor is written to; it is held, since its end would close that.
        gone: numbers of those faults.
    """

    def __init__(self, stream: TextIO, gone: AbstractSet[int]) -> None:
        self._stream, self._descriptor, self._gone = stream, stream.fileno(), gone

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        return True

    def write(self, data: "ReadableBuffer") -> int:
        while True:
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:  # a reader that is slow, of a pipe that does not wait
                select.select([], [self._descriptor], [])
            except OSError as error:
                if error.errno not in self._gone:
                    raise
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, self._descriptor)
                os.close(null)


def _null(mode: str) -> TextIO:
    return cast("TextIO", open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123  # no path of a user
