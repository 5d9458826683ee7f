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
from stages.errors import Interrupted, Stopped


class Terminated(BaseException):
    """SIGTERM arrived; like KeyboardInterrupt it is no Exception, so that nothing swallows it."""


@contextmanager
def enough_disk(output: Path) -> Iterator[None]:
    """Turn a full disk, here or at a worker, into a stop that names it."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        free = show_bytes(shutil.disk_usage(output).free)
        raise Stopped(
            f"{output}: the disk is full ({free} are left); free space and run again to resume"
        ) from error


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
