r"""Standard streams: there even if the caller closed them, and able to print any text.

    shardmill run ... 2>&-             descriptor 2 is /dev/null, and no file of the run gets it
    LC_ALL=C shardmill inspect ...     what the encoding has not is written out, as in caf\xe9

Nothing is imported here that takes time: this is the first thing that the command line does.
"""

import io
import os
import sys
from typing import TextIO, cast


def prepare_standard_streams() -> None:
    """Open /dev/null for each standard stream that is closed, and let output take every character."""
    for number in (0, 1, 2):
        _open_if_closed(number)
    sys.stdin = sys.stdin or _null("r")
    sys.stdout = sys.stdout or _null("w")
    sys.stderr = sys.stderr or _null("w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _open_if_closed(number: int) -> None:
    try:
        os.fstat(number)
    except OSError:
        null = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, so this one
        assert null == number, (null, number)
        os.set_inheritable(number, True)  # noqa: FBT003  # its only parameter


def _null(mode: str) -> TextIO:
    return cast("TextIO", open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123  # no path of a user
