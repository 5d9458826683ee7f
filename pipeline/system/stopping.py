"""Stopping in order: a signal ends a command with what is committed, to be resumed.

    signal -> Terminated, raised in the main thread -> locks, actors, files are left in order -> 75, 130

The first code of a call installs the handlers (`pipeline.main`); a session in somebody else's process
installs its own. Ray's compiled half turns exceptions into others, `ray.init` installs a handler of its
own, and Python drops what is raised while an object is deleted. So what counts is which signal arrived,
not which exception came of it, and a signal that came to nothing is raised again.

Fatal signals: what would kill the process without a word, as one line and exit code 75.

    SIGBUS    a page of a mapped file that the system cannot give: the disk fills while a file system
              writes the page to a new place, or another program cuts a file that is being read
    SIGABRT   a library gives up; where the address space is limited (ulimit -v), that is why

Python's own handlers run between two instructions of Python, to which the process does not return. So
the handler is one of C's, and it ends the process: what is committed stays.

Collecting: when Python looks for garbage, objects that hold each other and that nobody else holds.
"""

import contextlib
import ctypes
import errno
import gc
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self

from pipeline.system.limits import limit_of
from stages.errors import Interrupted, ShardmillError, Stopped

AGAIN_SECONDS = 2.0
"""After which a signal is raised again that was lost on the way."""
FORCE_SECONDS = 2.0
"""After which a second signal ends the process at once. An earlier one is the first, passed on twice."""
STOPPED, INTERRUPTED = 75, 130
_NAMES = {signal.SIGTERM: "SIGTERM", signal.SIGINT: "Ctrl-C", signal.SIGHUP: "SIGHUP"}


class Terminated(KeyboardInterrupt):
    """A signal arrived; Ray's compiled half knows no other exception that stands for one."""


class Signals:
    """The signals that end a process in order, while it is in the `with` block."""

    def __init__(self) -> None:
        self.number: int | None = None
        """The first that arrived."""
        self.ends_process = False
        """Whether this process ends when its command does."""
        self._since = 0.0
        self._tidying = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Install the handlers."""
        for number in _NAMES:
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN or number == signal.SIGTERM:  # nohup ignores SIGHUP
                self._before[number] = before or signal.SIG_DFL
        self._before[signal.SIGALRM] = signal.getsignal(signal.SIGALRM) or signal.SIG_DFL
        self.install()
        return self

    def __exit__(self, *_: object) -> None:
        """Put back the handlers that were there before."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, before in self._before.items():
            signal.signal(number, before)

    def install(self) -> None:
        """Take the signals, again if some library took them."""
        for number in self._before:
            signal.signal(number, self._arrive)

    def ignore(self) -> None:
        """Let no signal change how the process ends, now that its exit code is decided."""
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)
        self._before = {}  # nothing is put back: the process ends

    @contextmanager
    def tidying(self) -> Iterator[None]:
        """Put off signals while things are left in order; a second one later on ends the process."""
        self._tidying += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            yield
        finally:
            self._tidying -= 1
            if self.number is not None and not self._tidying:
                signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)

    def stop_raising(self) -> None:
        """Raise no more: whoever stops the work knows of the signal."""
        signal.setitimer(signal.ITIMER_REAL, 0)

    def stop_of(self, error: BaseException) -> Stopped | None:
        """Return the stop that an exception stands for, or None if no signal is behind it."""
        number = self.number
        if number is None and isinstance(error, KeyboardInterrupt):
            number = signal.SIGINT
        if isinstance(error, SystemExit) and error.code in {signal.SIGTERM, -signal.SIGTERM}:
            number = signal.SIGTERM  # from the handler that `ray.init` installs
        said = isinstance(error, ShardmillError) and not isinstance(error, Stopped)
        return None if number is None or said else stop_by(number)

    def end(self, error: BaseException | None = None) -> int:
        """Say that a signal ended the call, and return its exit code."""
        with self.tidying():
            stop = self.stop_of(error or KeyboardInterrupt())
            assert stop is not None
            with contextlib.suppress(OSError):
                os.write(2, f"shardmill: {stop}\n".encode())
            return exit_code(stop)

    def _arrive(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  # the signature
        if number == signal.SIGALRM:
            if self.number is None:
                return  # nobody is to be stopped
        elif self.number is None:
            self.number, self._since = number, time.monotonic()
        elif time.monotonic() - self._since > FORCE_SECONDS:
            self._force()
        else:
            return
        if not self._tidying:
            signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
            raise Terminated(signal.Signals(number).name)

    def _force(self) -> None:
        """End the process as a kill would; what is committed stays."""
        assert self.number is not None
        stop = stop_by(self.number)
        with contextlib.suppress(OSError):
            os.write(2, f"\nshardmill: {stop} (at once, after a second signal)\n".encode())
        os._exit(exit_code(stop))


def stop_by(number: int) -> Stopped:
    """Return the stop that a signal asks for."""
    kind = Interrupted if number == signal.SIGINT else Stopped
    name = _NAMES.get(signal.Signals(number), signal.Signals(number).name)
    return kind(f"{name}: stopped; run again to resume")


def exit_code(stop: Stopped) -> int:
    """Return the exit code of a stop."""
    return INTERRUPTED if isinstance(stop, Interrupted) else STOPPED


_active: list[Signals] = []
"""What handles the signals of this process, which has one set of them: the last."""


@contextmanager
def active_signals() -> Iterator[Signals]:
    """Handle the process's signals; the innermost block decides what a signal does."""
    if threading.current_thread() is not threading.main_thread():
        yield Signals()  # handlers belong to the main thread
        return
    with Signals() as signals:
        _active.append(signals)
        try:
            yield signals
        finally:
            _active.remove(signals)


@contextmanager
def signals_stop() -> Iterator[None]:
    """Turn a signal into an exception, so that locks, actors and files are left in order.

    Raises:
        Stopped: SIGTERM or SIGHUP arrived.
        Interrupted: Ctrl-C was pressed.
    """
    with contextlib.nullcontext(_active[-1]) if _active else active_signals() as signals:
        try:
            yield
        except BaseException as error:
            stop = signals.stop_of(error)
            if stop is None:
                raise
            signals.stop_raising()
            raise stop from error


def reason_of(error: BaseException) -> str:
    """Return what a run's status says of the exception that ended it."""
    stop = _active[-1].stop_of(error) if _active else None
    return str(stop or error) or type(error).__name__


@contextmanager
def tidying() -> Iterator[None]:
    """Put off signals while things are left in order."""
    with _active[-1].tidying() if _active else contextlib.nullcontext():
        yield


def ends_process() -> bool:
    """Say whether a signal arrived that ends this process, which then needs nothing any more."""
    return bool(_active) and _active[-1].ends_process and _active[-1].number is not None


def install_again() -> None:
    """Take the signals again that a library took."""
    if _active and threading.current_thread() is threading.main_thread():
        _active[-1].install()


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


LOOKS = 1000
"""Looks at what is young between two at all objects, of which there are hundreds of thousands."""


def collect_rarely() -> None:
    """Let Python look for garbage among all objects rarely, and among young ones as often as ever.

    The libraries make 400,000 that stay. To look through them again and again while they are imported
    takes a tenth of the CPU time of a short command.
    """
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, LOOKS)
