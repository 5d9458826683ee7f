"""Atomic write: a folder, or a file, is made beside its place, and is there only when it is whole.

    TO.partial    what is being written, held by one process
    TO            the same, renamed when the last of it is on the disk

Who writes into it brings each file to the disk.
"""

import fcntl
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from pipeline.state.journal import run_lock
from pipeline.state.storage import make_folder
from pipeline.system.disk_faults import making
from stages.errors import ConfigError, Stopped
from stages.store.digests import sync_path


def partial_of(to: Path) -> Path:
    """Return the place at which something is made."""
    return to.parent / f"{to.name}.partial"


@contextmanager
def atomic_write(
    to: Path, *, option: str | None = None, names: Collection[str] | None = None
) -> Iterator[Path]:
    """Yield the place beside a target; it gets the target's name when the work inside has ended.

    Args:
        to: the target; the caller refuses one that holds something.
        option: that names it, for the message if no folder can be made.
        names: of all files that are written at once: other files there are refused, and if the work
            fails, all of it goes; none of a target that is a file itself. None for a folder that stays
            if the work fails, since the next call continues it; the caller refuses what is not its own.

    Raises:
        ConfigError: something else stands there.
        Stopped: another process holds it.
    """
    partial = partial_of(to)
    if names is None or names:
        with making(to, option) if option else nullcontext():
            make_folder(partial.absolute())
        strangers = sorted({entry.name for entry in partial.iterdir()} - set(names or ()))
        if names and strangers:
            raise ConfigError(f"{partial}: holds {strangers[0]}, which is not ours; move it away")
    elif partial.is_symlink() or (partial.exists() and not partial.is_file()):
        raise ConfigError(f"{partial}: is no file; move it away")
    else:
        partial.touch()
    with run_lock(partial) if names is None else locked(partial):
        try:
            yield partial
        except BaseException:
            if names is not None:
                shutil.rmtree(partial) if names else partial.unlink()
            raise
        sync_path(partial)
        partial.rename(to)  # with its lock: a free one would be taken while the name changes
        sync_path(to.absolute().parent)


@contextmanager
def locked(place: Path) -> Iterator[None]:
    """Hold what is being written; the lock goes with its holder, and leaves no file.

    Raises:
        Stopped: another process holds it.
    """
    descriptor = os.open(place, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise Stopped(f"{place}: another process writes it; wait for it, then run again") from error
    finally:
        os.close(descriptor)
