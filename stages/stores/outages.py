"""Outages: who is told that a store does not answer while a request is tried again."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_EVERY = 30.0
"""Seconds in which one line is said, however many requests wait."""


@dataclass
class _Listeners:
    """Those of this process."""

    tell: list[Callable[[str], None]] = field(default_factory=list)
    last: float | None = None
    """When a line was said; None if none was since somebody listens."""


_LISTENERS = _Listeners()


@contextlib.contextmanager
def telling_of_outages(tell: Callable[[str], None]) -> Iterator[None]:
    """Have a function told of requests that wait, in one line each time."""
    _LISTENERS.tell.append(tell)
    _LISTENERS.last = None
    try:
        yield
    finally:
        _LISTENERS.tell.remove(tell)


def tell_outage(line: str) -> None:
    """Say that a request waits, unless that was said a moment ago."""
    now = time.monotonic()
    if _LISTENERS.last is None or now - _LISTENERS.last >= _EVERY:
        _LISTENERS.last = now
        for tell in list(_LISTENERS.tell):
            tell(line)
