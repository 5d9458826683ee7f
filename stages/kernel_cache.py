"""Kernel cache: where compiled kernels are kept while no lasting place for them can be written.

    docker run -u 12345, a read-only root, cron     no HOME, and sources of another user
    -> /tmp/shardmill-kernels-k3v9x0aw              made by one process, used by those that it starts

numba keeps machine code beside the sources or below HOME. Whoever can write into the folder can change
what this program does, so nobody else can: its name is new each time, its mode is 0700, and its owner is
looked at again by each process that is given it.
"""

import atexit
import os
import shutil
import stat
import tempfile
import warnings
from functools import cache
from multiprocessing import parent_process
from pathlib import Path

from stages.errors import ShardmillWarning

GIVEN = "SHARDMILL_KERNELS"
"""Environment variable in which a process gives its folder to those that it starts."""
_ADVICE = "set NUMBA_CACHE_DIR to a folder that this user can write, and they are compiled once"
_NO_PLACE = "compiled kernels cannot be kept beside the program, nor below HOME"


_made: dict[int, Path] = {}
"""The folder that a process made, by the number of the process: a fork does not remove it."""


@cache
def passing_folder() -> Path | None:
    """Return a folder that lasts as long as the process that made it; None if there can be none.

    Warns once, in that process.
    """
    given = os.environ.get(GIVEN)
    if given is not None:
        return Path(given) if given and _is_own(Path(given)) else None
    folder = _new_folder()
    os.environ[GIVEN] = "" if folder is None else str(folder)
    where = "each process compiles its own" if folder is None else f"until the end they are in {folder}"
    warnings.warn(f"{_NO_PLACE}; {where}; {_ADVICE}", ShardmillWarning, stacklevel=2)
    return folder


def remove_passing_folder() -> None:
    """Remove the folder, if this process made one."""
    folder = _made.pop(os.getpid(), None)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _new_folder() -> Path | None:
    if parent_process() is not None:  # it starts nobody who would use the folder, and may be killed
        return None
    try:
        folder = Path(tempfile.mkdtemp(prefix="shardmill-kernels-"))
    except OSError:
        return None
    _made[os.getpid()] = folder
    atexit.register(remove_passing_folder)
    return folder


def _is_own(folder: Path) -> bool:
    """Say whether a folder is of this user, and open to nobody else."""
    try:
        found = folder.lstat()
    except OSError:  # it is on another machine
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
