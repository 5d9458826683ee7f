"""Stopping in order: a signal or a full disk ends a command with what is committed, to be resumed."""

import errno
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from pipeline.memory import show_bytes
from stages.errors import ConfigError, Interrupted, Stopped


class Terminated(BaseException):
    """SIGTERM arrived; like KeyboardInterrupt it is no Exception, so that nothing swallows it."""


@contextmanager
def enough_disk(output: Path) -> Iterator[None]:
    """Turn a full disk or quota, here or at a worker, into a stop that names it."""
    try:
        yield
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        free = f"the disk is full ({show_bytes(shutil.disk_usage(output).free)} are left)"
        what = free if error.errno == errno.ENOSPC else "the disk quota is used up"
        raise Stopped(f"{output}: {what}; free space and run again to resume") from error


@contextmanager
def named_faults(folder: Path) -> Iterator[None]:
    """Turn what the disk refuses into a line that names the file, or the folder if none is known."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{error.filename or folder}: {error.strerror or error}") from error


@contextmanager
def signals_stop() -> Iterator[None]:
    """Turn SIGTERM into an exception, so that locks, actors and files are left in order."""

    def terminate(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # the signature
        raise Terminated

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    except Terminated as error:
        raise Stopped("SIGTERM: stopped; run again to resume") from error
    except KeyboardInterrupt as error:
        raise Interrupted("Ctrl-C: stopped; run again to resume") from error
    except SystemError as error:  # what Ray's compiled half makes of either
        if isinstance(error.__cause__, Terminated):
            raise Stopped("SIGTERM: stopped; run again to resume") from error
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise Interrupted("Ctrl-C: stopped; run again to resume") from error
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
