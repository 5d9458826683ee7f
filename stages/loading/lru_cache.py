"""What is mapped at a time: values by key, few of them; the least recently used goes first.

How many files may be mapped at a time, by the descriptors that a process may have (`ulimit -n`).

Each mapped file keeps a descriptor. A process needs others: a worker sends each tensor over one, and
trainers and libraries open files. So some are left to them, and the rest is for mapped files.
"""

import resource
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class LruCache(Generic[_Key, _Value]):
    """At most so many values; each is made when it is first asked for, and again once it was let go.

    Threads may share it. There is no lock, which a fork could find held for ever: each step is one call
    of a dict, and between two of them another thread may have let go of anything. Two threads may make
    the same value, and one of the two is kept.

    Args:
        bound: how many, at least 1.
    """

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self._values: dict[_Key, _Value] = {}

    def __getstate__(self) -> dict[str, object]:
        """Return what another process needs: it makes the values itself."""
        return {"bound": self.bound, "_values": {}}

    def __len__(self) -> int:
        """Values kept now."""
        return len(self._values)

    def clear(self) -> None:
        """Let all values go."""
        self._values.clear()

    def get(self, key: _Key, make: Callable[[_Key], _Value]) -> _Value:
        """Return a value, made if it is not kept."""
        value = self._values.pop(key, None)
        if value is None:
            self._keep(self.bound - 1)  # before another is made: what both take may not be there
            value = make(key)
        self._values[key] = value  # a dict keeps the order in which keys were set
        self._keep(self.bound)
        return value

    def _keep(self, most: int) -> None:
        while len(self._values) > most:
            try:
                self._values.pop(next(iter(self._values)), None)
            except (RuntimeError, StopIteration):  # another thread changed it in between
                continue


RESERVED = 128
"""Descriptors that are left to the rest of the process."""


def affordable(bound: int, *, files: int) -> int:
    """Return how many groups of files may be open at a time: at most `bound`, and at least 1.

    Args:
        bound: of a process that may have as many descriptors as it wants.
        files: of a group.
    """
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return bound
    return max(1, min(bound, (allowed - RESERVED) // files))
