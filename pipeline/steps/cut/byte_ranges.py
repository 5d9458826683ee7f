"""Byte ranges: what goes of one text because strings of bytes are repeated."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pipeline.steps.cut.byte_windows import RepeatRuns
from stages.dedup.byte_cuts import (
    WindowRuns,
    readable_bytes,
    repeated_bytes,
    with_taken,
    without_taken,
)
from stages.dedup.cuts import Cut, without
from stages.dedup.repeats import documents_of, ordinals_of


def byte_cuts(
    text: NDArray[np.uint8], runs: RepeatRuns, taken: NDArray[np.int64], *, min_bytes: int
) -> Iterator[tuple[Cut, int]]:
    """Yield the bytes that repeated windows cover, as far as they can be cut out readably.

    Bytes that other methods cut are no longer there: the bytes beside them are neighbours.

    Args:
        text: (B,) in UTF-8.
        runs: of the text's windows that stand more than once, first places among them.
        taken: (T, 2) ranges of bytes that other methods cut, ascending and apart.
        min_bytes: of a window.

    Yields:
        A cut, and the first place of the byte that it begins with, or is near.
    """
    chosen = runs.places != runs.firsts
    if not chosen.any():
        return
    places, firsts, counts = (column[chosen] for column in runs)
    own = np.where(documents_of(places) == documents_of(firsts), ordinals_of(firsts), -1)
    starts = ordinals_of(places)
    ranges = repeated_bytes(text, WindowRuns(starts, own, counts), min_bytes=min_bytes)
    left = without(text, taken).tobytes()
    done = 0
    for low, high in without_taken(ranges, taken):
        found = readable_bytes(left, low, high, min_bytes=min_bytes)
        if found is None:
            continue
        begin, end = with_taken(*found, taken)
        begin = max(begin, done)
        if begin < end:
            source = with_taken(low, high, taken)[0]
            run = int(np.searchsorted(starts, source, side="right")) - 1
            yield Cut(begin, end, source), int(firsts[run]) + source - int(starts[run])
            done = end
