"""A Python that has imported the libraries once, and forks for each call of pytest.

Half the time of a short test is the import of the libraries. The product and its tests are not imported
before the fork: each call names the tree that they come from.
"""

import importlib
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_PATIENCE = 10.0
"""Seconds that a process may take to end."""
LIBRARIES = (
    "pytest",
    "hypothesis",
    "numpy",
    "numba",
    "pyarrow.parquet",
    "pydantic",
    "typer",
    "jinja2",
    "scipy.stats",
    "tokenizers",
    "sentencepiece",
    "zstandard",
    "ray",
    "torch",
)
"""What most tests import; one that is not installed is passed over."""


@dataclass(frozen=True)
class Call:
    """A call of pytest.

    Attributes:
        folder: the tree, in which it is called.
        arguments: of pytest.
        temporary: an empty folder for temporary files.
        printed: the file that gets what is printed.
        failed: the file that gets the id of what failed first: a test, or a module of tests.
        running: the file that gets the id of the test that runs.
        keep_bytecode: whether compiled modules are kept beside their sources.
    """

    folder: Path
    arguments: tuple[str, ...]
    temporary: Path
    printed: Path
    failed: Path
    running: Path
    keep_bytecode: bool = False


class WarmPython:
    """Calls pytest, one call at a time, each in a process group of its own."""

    def __init__(self, libraries: Sequence[str] = LIBRARIES) -> None:
        """Start the process that forks, and that imports some libraries before.

        It is no daemon, because a daemon may start no processes, and tests do.
        """
        fresh = multiprocessing.get_context("spawn")
        self._calls, theirs = fresh.Pipe()
        self._process = fresh.Process(target=_serve, args=(theirs, libraries))
        self._process.start()
        self._group = 0

    def begin(self, call: Call) -> None:
        """Begin a call."""
        self._calls.send(call)
        self._group = self._calls.recv()

    def status(self, seconds: float) -> int | None:
        """Return the exit status of pytest; None if it runs for longer than so many seconds."""
        return int(self._calls.recv()) if self._calls.poll(seconds) else None

    def end(self, *, running: bool) -> None:
        """End what is left of the call's processes."""
        with suppress(ProcessLookupError):
            os.killpg(self._group, signal.SIGKILL)
        if running:
            self._calls.recv()

    def close(self) -> None:
        """End the process that forks."""
        self._calls.close()
        self._process.join(_PATIENCE)
        self._process.kill()


def _serve(calls: "Connection[Any, Any]", libraries: Sequence[str]) -> None:
    """Import the libraries; then fork for each call, and answer with the process and its exit status."""
    for name in libraries:
        with suppress(ImportError):
            importlib.import_module(name)
    for name in ("__mp_main__", "mutants", "mutant_trees", "warm_python"):
        sys.modules.pop(name, None)  # a tree has its own
    with suppress(EOFError):
        while call := calls.recv():
            child = os.fork()
            if not child:
                _pytest(call)
            calls.send(child)
            calls.send(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


class _Noted:
    """A plugin of pytest that writes down what runs, and what failed first."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note the test that begins."""
        self._call.running.write_text(nodeid, encoding="utf-8")

    def pytest_runtest_logreport(self, report: "Report") -> None:
        """Look at what came of a test."""
        if report.failed and not self._call.failed.exists():
            self._call.failed.write_text(report.nodeid, encoding="utf-8")

    pytest_collectreport = pytest_runtest_logreport


class Report(Protocol):
    """What pytest says of a test."""

    failed: bool
    nodeid: str


def _pytest(call: Call) -> None:
    """Become the process of a call."""
    os.setsid()
    printed = os.open(call.printed, os.O_WRONLY | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(printed, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(call.folder)
    os.environ.update(
        PYTHONPATH=str(call.folder),
        TMPDIR=str(call.temporary),
        PYTHONDONTWRITEBYTECODE="" if call.keep_bytecode else "1",
    )
    sys.dont_write_bytecode = not call.keep_bytecode
    sys.path[:0] = [str(call.folder)]
    status = 1
    try:
        import pytest  # noqa: PLC0415  # it is a library of the process that forked

        status = int(pytest.main(list(call.arguments), plugins=[_Noted(call)]))
    except BaseException:  # noqa: BLE001  # nothing above says what it is
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
