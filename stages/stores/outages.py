"""Outages: who is told that a store does not answer while a request is tried again."""

import contextlib
import time
from collections.abc import Callable, Iterator

_EVERY = 30.0
"""Seconds in which one line is said, however many requests wait."""
_LISTENERS: list[Callable[[str], None]] = []
_last = [0.0]
"""When a line was said, by the clock of this process."""


@contextlib.contextmanager
def telling_of_outages(tell: Callable[[str], None]) -> Iterator[None]:
    """Have a function told of requests that wait, in one line each time."""
    _LISTENERS.append(tell)
    _last[0] = 0.0
    try:
        yield
    finally:
        _LISTENERS.remove(tell)


def tell_outage(line: str) -> None:
    """Say that a request waits, unless it was said a moment ago."""
    now = time.monotonic()
    if _LISTENERS and (not _last[0] or now - _last[0] >= _EVERY):
        _last[0] = now
        for tell in _LISTENERS:
            tell(line)
