"""A disk that fails: calls of the system below a folder are counted, and one or more are refused.

    with faulty_disk(Fault(root, at=40, number=errno.EIO, lasting=False)) as calls:
        ...                       the 40th call below root raises EIO

Python's own calls are counted: opening, reading, writing, syncing, renaming, linking, making and
removing. What libraries do in compiled code is not. In other processes the fault that FAULTY_DISK
describes is installed as they start, by `write_site`.
"""

import builtins
import errno
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

VARIABLE = "FAULTY_DISK"
_BY_PATH = ("open", "replace", "rename", "link", "mkdir", "unlink", "remove", "listdir", "scandir")
_BY_DESCRIPTOR = ("write", "fsync")
_OF_A_FILE = ("read", "readline", "write", "flush", "truncate")


@dataclass(frozen=True)
class Fault:
    """Which call is refused, and how."""

    root: str
    """Calls below this folder count."""
    at: int
    """The number of the first call that is refused, from 1; 0 refuses none."""
    number: int = errno.EIO
    lasting: bool = False
    """Whether all later calls are refused too."""

    def text(self) -> str:
        """Return it as a variable of the environment holds it."""
        return f"{self.at}:{self.number}:{int(self.lasting)}:{self.root}"

    @classmethod
    def of_text(cls, text: str) -> "Fault":
        """Return the fault that a variable of the environment describes."""
        at, number, lasting, root = text.split(":", 3)
        return cls(root, int(at), int(number), lasting=lasting == "1")


class Calls:
    """Counts the calls below a folder, and refuses some."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.seen = 0
        self.refused: list[str] = []

    def check(self, name: str, place: object, *, has_name: bool = True) -> None:
        """Count a call.

        Raises:
            OSError: it is refused; as from the system, with the file's name where it has one.
        """
        path = self._path(place)
        if path is None or not path.startswith(self.fault.root):
            return
        self.seen += 1
        at = self.fault.at
        if at and (self.seen == at or (self.fault.lasting and self.seen > at)):
            self.refused.append(f"{name} {path.removeprefix(self.fault.root)}")
            names = [path] if has_name else []
            raise OSError(self.fault.number, os.strerror(self.fault.number), *names)

    @staticmethod
    def _path(place: object) -> str | None:
        if isinstance(place, int):
            try:
                return os.readlink(f"/proc/self/fd/{place}")  # noqa: PTH115  # Path would call what is counted
            except OSError:
                return None
        if isinstance(place, str | os.PathLike):
            return os.path.abspath(os.fspath(place))  # noqa: PTH100  # Path would call what is counted
        return None


class _File:
    """An open file of which reads and writes count."""

    def __init__(self, file: Any, calls: Calls, path: object) -> None:
        self._file, self._calls, self._path = file, calls, path

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._file, name)
        if name not in _OF_A_FILE:
            return found

        def counted(*arguments: Any) -> Any:
            self._calls.check(name, self._path, has_name=False)
            return found(*arguments)

        return counted

    def __enter__(self) -> Self:
        self._file.__enter__()
        return self

    def __exit__(self, *error: object) -> Any:
        return self._file.__exit__(*error)

    def __iter__(self) -> Iterator[Any]:
        self._calls.check("read", self._path, has_name=False)
        return iter(self._file)


@contextmanager
def faulty_disk(fault: Fault) -> Iterator[Calls]:
    """Count the calls of this process below a folder, and refuse as the fault says."""
    calls = Calls(fault)
    before = install(calls)
    try:
        yield calls
    finally:
        for home, name, function in before:
            setattr(home, name, function)


def install(calls: Calls) -> list[tuple[Any, str, Callable[..., Any]]]:
    """Put counting functions in place of the system's; return what was there."""
    before: list[tuple[Any, str, Callable[..., Any]]] = []

    def put(home: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        function = getattr(home, name)
        before.append((home, name, function))
        setattr(home, name, make(function))

    def checked(name: str, *, has_name: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def make(function: Callable[..., Any]) -> Callable[..., Any]:
            def counted(place: Any = ".", *arguments: Any, **options: Any) -> Any:
                if options.get("dir_fd") is None:
                    calls.check(name, place, has_name=has_name)
                return function(place, *arguments, **options)

            return counted

        return make

    def opened(function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(place: Any, *arguments: Any, **options: Any) -> Any:
            calls.check("open", place)
            path = calls._path(place)  # noqa: SLF001  # the same file
            file = function(place, *arguments, **options)
            inside = path is not None and path.startswith(calls.fault.root)
            return _File(file, calls, place) if inside else file

        return counted

    for name in _BY_PATH:
        put(os, name, checked(name, has_name=True))
    for name in _BY_DESCRIPTOR:
        put(os, name, checked(name, has_name=False))
    put(io, "open", opened)
    put(builtins, "open", opened)
    return before


def write_site(folder: Path) -> None:
    """Write what installs the fault of the environment in every Python that starts with this folder.

    The folder goes first on PYTHONPATH; only processes of Ray's workers are hit, none of its daemons.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(
        "from tests.material import faulty_disk\nfaulty_disk.install_in_worker()\n", encoding="utf-8"
    )


def install_in_worker() -> None:
    """Install the fault of the environment if this process is one of Ray's workers."""
    text = os.environ.get(VARIABLE)
    with suppress(ValueError):
        if text and any(word.endswith("default_worker.py") for word in sys.orig_argv):
            install(Calls(Fault.of_text(text)))
