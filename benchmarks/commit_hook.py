"""A moment of a run in this process: right after a number of commits, the same in every run."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class CommitHook:
    """Calls something right after a number of commits, in this process."""

    def __init__(self) -> None:
        self._left: int | None = None
        self._marks: tuple[str, ...] = ()
        self._call: Callable[[], None] = lambda: None
        sys.addaudithook(self._event)

    @contextmanager
    def after(self, units: int, call: Callable[[], None]) -> Iterator[None]:
        """Call it once after so many units of ingest are committed; after the scan if none."""
        self._marks = ("/commits/ingest/",) if units else ("/commits/scan/", "/run.json")
        self._left, self._call = max(1, units), call
        try:
            yield
        finally:
            self._left = None

    @property
    def waiting(self) -> bool:
        """Return whether the moment has not come yet."""
        return self._left is not None

    def _event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._left is None or event not in ("os.link", "os.rename"):
            return
        if not any(mark in str(arguments[1]) for mark in self._marks):
            return
        self._left -= 1
        if not self._left:
            self._left = None
            self._call()
