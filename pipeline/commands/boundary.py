"""The boundary of the command line: whatever a command raises becomes one line and an exit code.

    command -> exception -> shardmill: FILE: what was found; the way out -> 0, 1, 2, 3, 75 or 130

An unexpected error is a fault of this program: its traceback is left in a file, and is shown on the
terminal if SHARDMILL_DEBUG is set.
"""

import contextlib
import errno
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

from pipeline.system.disk_faults import explained, fault_of_driver, named
from pipeline.system.limits import limit_of, says_no_thread
from pipeline.system.printable import printable
from pipeline.system.stopping import Signals, exit_code
from stages.errors import ConfigError, ShardmillError, Stopped, VerificationError

DONE, UNEXPECTED, USAGE, FAILED = 0, 1, 2, 3
DEBUG = "SHARDMILL_DEBUG"
"""Environment variable that puts tracebacks on the terminal."""
_OURS = ("pipeline", "stages", "shardmill")
_MOST = 400
"""Characters of an unexpected error's message."""


def exit_code_of(call: Callable[[], object], signals: Signals) -> int:
    """Call, say in one line what went wrong, and return the exit code."""
    code = DONE
    try:
        call()
        _flush()
    except BaseException as error:  # noqa: BLE001  # the last one to catch it
        with signals.tidying():
            code = _printed_code(error, signals)
    if code == DONE and signals.number is not None:  # it was lost on the way
        code = signals.end()
    return code


def _printed_code(error: BaseException, signals: Signals) -> int:
    """Say what an exception means, and return its exit code."""
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    stop = signals.stop_of(error)
    if stop is not None:
        return say(stop, exit_code(stop))
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    known = _foreseen(error)
    if known is None:
        return say(_unexpected(error), UNEXPECTED)
    return say(known, _code(known))


def _foreseen(error: BaseException) -> ShardmillError | None:
    """Return the error that explains an exception, or None if it is a fault of this program."""
    if isinstance(error, ShardmillError):
        return error
    if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] not in _OURS:
        return ConfigError(
            f"the module {error.name!r} is not installed; the command line needs all of the pipeline:"
            " pip install 'shardmill[run]'"
        )
    if isinstance(error, MemoryError):
        limit = limit_of(errno.ENOMEM)
        why = "" if limit is None else f": {limit}; raise the limit"
        return Stopped(
            f"out of memory{why}; free some, or give fewer --workers, and run again to resume"
        )
    if says_no_thread(error):
        limit = limit_of(errno.EAGAIN) or "the system has no more of them"
        return Stopped(
            f"no thread can be started: {limit}; raise the limit, or give fewer --workers, and run again"
            " to resume"
        )
    fault = fault_of_driver(error)  # before OSError: some of theirs are both
    if fault is None and isinstance(error, OSError):
        fault = explained(error)
    return fault


def _code(error: ShardmillError) -> int:
    if isinstance(error, Stopped):
        return exit_code(error)
    return FAILED if isinstance(error, VerificationError) else USAGE


def _unexpected(error: BaseException) -> str:
    """Return the line of a fault of this program, with the file that its traceback is in."""
    lines = str(error).strip().splitlines() or [""]
    what = lines[0] if len(lines) == 1 else f"{lines[0]} ... {lines[-1].strip()}"
    if len(what) > _MOST:
        what = f"{what[:_MOST]}..."
    try:
        descriptor, name = tempfile.mkstemp(prefix="shardmill-error-", suffix=".txt")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            traceback.print_exception(error, file=file)
        where = f"report it with {name}"
    except OSError:
        where = f"set {DEBUG}=1 to see where it comes from, and report it"
    return f"unexpected error: {type(error).__name__}: {what}; this is a bug: please {where}"


def say(message: object, code: int) -> int:
    """Print one line for people, and return the code."""
    with contextlib.suppress(OSError, ValueError):  # the terminal may be gone
        sys.stderr.write(f"shardmill: {printable(str(message))}\n")
        sys.stderr.flush()
    return code


def _flush() -> None:
    for stream, name in ((sys.stdout, "/dev/stdout"), (sys.stderr, "/dev/stderr")):
        with contextlib.suppress(BrokenPipeError), named(Path(name)):  # `head` may read no more
            stream.flush()
