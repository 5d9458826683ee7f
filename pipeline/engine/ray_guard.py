"""Guard: a small process that ends the Ray of this process if this process is killed.

Whoever is killed ends nothing. Most of Ray's processes then end by themselves, but its agents wait for
a service that is gone, for 70 seconds; and the folder with Ray's token stays.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_MARK = "SHARDMILL_RAY"
"""Names the folder in the environment of all processes of a Ray."""
_SCRIPT = """
read -r said
[ "$said" = ended ] && exit
sleep 5
for file in $(grep -lsF "$1=$2" /proc/[0-9]*/environ); do
    pid=${file#/proc/}
    kill -9 "${pid%/environ}"
done
rm -rf "$2"
"""
"""Waits for a word of the process that started it, or for the end of that process."""


@contextmanager
def guard(folder: Path) -> Iterator[None]:
    """Have the Ray that starts in the block end, and a folder go, if this process is killed in it.

    Args:
        folder: what this Ray alone uses.
    """
    process = subprocess.Popen(  # noqa: S603  # ours, and the name of a folder
        ["/bin/sh", "-c", _SCRIPT, "shardmill-guard", _MARK, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    before = os.environ.pop(_MARK, "")
    os.environ[_MARK] = str(folder)  # only now: the guard is none of those that it ends
    try:
        yield
    finally:
        os.environ.pop(_MARK)
        if before:
            os.environ[_MARK] = before
        with suppress(OSError):  # it may have been killed, too
            process.communicate(b"ended\n")
