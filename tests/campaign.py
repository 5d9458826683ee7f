"""How far tests search: a slice of each search by default, all of it with SHARDMILL_CAMPAIGN=full.

The slice is what every change has to pass, in minutes. `make campaign` searches all, in hours.
"""

import os
from collections.abc import Sequence
from typing import TypeVar

FULL = os.environ.get("SHARDMILL_CAMPAIGN") == "full"
_SHARE, _LEAST = 8, 5
Case = TypeVar("Case")


def examples(number: int) -> int:
    """Return how many examples hypothesis draws, of the number that a campaign draws."""
    return number if FULL else max(min(number, _LEAST), number // _SHARE)


def some_of(cases: Sequence[Case], number: int) -> Sequence[Case]:
    """Return that many of a campaign's cases, evenly from all of them."""
    if FULL or number >= len(cases):
        return cases
    return [cases[place * len(cases) // number] for place in range(number)]
