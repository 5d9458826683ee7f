"""Collecting: when Python looks for garbage, objects that hold each other and that nobody else holds."""

import gc

OBJECTS = 50_000
"""New objects between two looks."""


def collect_rarely() -> None:
    """Let Python look for garbage after 50,000 new objects, not after 700.

    The libraries make 400,000 that stay. To look through them again and again while they are imported is
    a seventh of the CPU time of a short command. What holds itself waits longer to be freed, some ten
    megabytes of it; all else is freed at once, as ever.
    """
    gc.set_threshold(OBJECTS)
