"""How many files may be mapped at a time, by the descriptors that a process may have (`ulimit -n`).

Each mapped file keeps a descriptor. A process needs others: a worker sends each tensor over one, and
trainers and libraries open files. So some are left to them, and the rest is for mapped files.
"""

import resource

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
