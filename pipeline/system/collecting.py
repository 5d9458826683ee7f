"""Collecting: when Python looks for garbage, objects that hold each other and that nobody else holds."""

import gc

LOOKS = 1000
"""Looks at what is young between two at all objects, of which there are hundreds of thousands."""


def collect_rarely() -> None:
    """Let Python look for garbage among all objects rarely, and among young ones as often as ever.

    The libraries make 400,000 that stay. To look through them again and again while they are imported
    takes a tenth of the CPU time of a short command.
    """
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, LOOKS)
