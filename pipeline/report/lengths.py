"""Lengths: how many tokens documents have, from the offsets of the token store, a unit at a time."""

from pathlib import Path
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from stages.errors import FormatError
from stages.store.arrays import open_array
from stages.store.folders import files_below

_MOST = 1 << 20
"""Tokens up to which lengths are counted one by one; the few longer ones count as so long."""
_POINTS = {"p10": 0.1, "median": 0.5, "p90": 0.9, "p99": 0.99}


class LengthBin(TypedDict):
    """Documents of about one length."""

    least: int
    most: int
    """Tokens, a power of two."""
    documents: int
    tokens: int


class LengthsContent(TypedDict):
    """How long the documents of the token store are, in tokens, EOS counted."""

    documents: int
    points: dict[str, int]
    """p10, median, p90 and p99; at most 2**20."""
    longest: int
    bins: list[LengthBin]


def lengths_of(output: Path) -> LengthsContent | None:
    """Return how long the documents of a run are; None without a token store that can be read."""
    counts, longest = np.zeros(_MOST + 1, np.int64), 0
    for place in files_below(output / "tokens"):
        if place.name != "offsets.npy":
            continue
        try:
            lengths = np.diff(np.asarray(open_array(place)))
        except (OSError, ValueError, FormatError):  # damaged: `verify` names it
            return None
        if len(lengths):
            longest = max(longest, int(lengths.max()))
            counts += np.bincount(np.minimum(lengths, _MOST), minlength=_MOST + 1)
    return _content(counts, longest) if counts.any() else None


def _content(counts: NDArray[np.int64], longest: int) -> LengthsContent:
    upto, total = np.cumsum(counts), int(counts.sum())
    tokens = counts * np.arange(len(counts))
    points = {name: int(np.searchsorted(upto, total * share)) for name, share in _POINTS.items()}
    bins: list[LengthBin] = []
    least, most = 1, 1
    while least <= _MOST:
        part = slice(least, most + 1)
        here = int(counts[part].sum())
        if here or bins:
            held = int(tokens[part].sum())
            bins.append({"least": least, "most": most, "documents": here, "tokens": held})
        least, most = most + 1, most * 2
    while bins and not bins[-1]["documents"]:
        bins.pop()
    return {"documents": total, "points": points, "longest": longest, "bins": bins}
