"""Memory that work takes, as Python counts it."""

import tracemalloc
from collections.abc import Callable

_TRIES = 3


def takes_less(bound: float, work: Callable[[], object]) -> bool:
    """Say whether work takes less than `bound` bytes at its peak.

    Python counts what all threads of the process take, those of Ray among them. What they take comes on
    top and is another amount each time. So work that takes too much is looked at again: if it is the
    work itself, it takes as much again.
    """
    for _ in range(_TRIES):
        tracemalloc.start()
        work()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak > 0
        if peak < bound:
            return True
    return False
