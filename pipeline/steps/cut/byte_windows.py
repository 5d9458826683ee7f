"""Byte windows: the phases of repeated strings of bytes, which come before those of all spans.

    cut/spans/substring/GROUP/  the stretches of each text by minimizer; a check is the number of windows
    cut/shared/PARTITION.npy   (N, 2) uint64: place and windows of stretches whose minimizer is shared
    cut/spans/windows/GROUP/   the windows of these stretches, as spans are

From there on windows of bytes are spans like others. `stages.dedup.byte_windows` says why no window that
stands twice is lost on the way.

Byte ranges: what goes of one text because strings of bytes are repeated.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.run_file.deduplication import Dedup
from pipeline.steps.cut.spans import (
    PARTITION_SPANS,
    SpanPartition,
    SpansAt,
    SpansRecord,
    kept_texts,
    placed_between,
    repeats_key,
    span_blocks,
    spans_key,
    spans_of_groups,
    write_spans,
)
from pipeline.steps.dedup.unit_groups import UnitGroup
from pipeline.steps.records import UnitRecord
from stages.columns import utf8_of
from stages.dedup.buckets import shared_keys
from stages.dedup.byte_cuts import (
    WindowRanges,
    readable_bytes,
    repeated_bytes,
    with_taken,
    without_taken,
)
from stages.dedup.byte_windows import byte_windows
from stages.dedup.cuts import Cut, without
from stages.dedup.repeats import documents_of, ordinals_of
from stages.store.arrays import array_writer, open_array

WINDOWS = "windows"
"""In place of the method's name, in the folders of its windows."""
_MOST_PLACES = 1 << 20
"""Repeated windows of a group that are sorted at a time: 16 bytes each, three times."""
_HALF = np.uint64(32)


class SharedRecord(UnitRecord):
    """The stretches of a partition that are shared."""

    windows: int
    """In them."""


@dataclass(frozen=True)
class WindowGroup:
    """A group of units whose windows in shared stretches are hashed."""

    group: UnitGroup
    dedup: Dedup
    shared: int
    """Partitions of stretches."""
    partitions: int
    """Of windows."""
    earlier: bool = False
    """Whether the units are of an earlier run."""


class RepeatedRanges(NamedTuple):
    """R ranges of repeated spans: they follow each other, and so do their first places."""

    places: NDArray[np.uint64]
    """(R,) ascending, the place of the first span of each."""
    firsts: NDArray[np.uint64]
    """(R,) its first place."""
    counts: NDArray[np.int64]
    """(R,) spans of each."""

    def of(self, document: int) -> "RepeatedRanges":
        """Return those of one document."""
        bounds = np.array([document, document + 1], np.uint64) << _HALF
        own = slice(*np.searchsorted(self.places, bounds))
        return RepeatedRanges(self.places[own], self.firsts[own], self.counts[own])

    def have_first(self) -> bool:
        """Say whether a first place is among them."""
        return bool((self.places == self.firsts).any())

    def have_others(self) -> bool:
        """Say whether another than a first place is among them."""
        return bool((self.places != self.firsts).any())


def min_bytes_of(dedup: Dedup) -> int:
    """Return the bytes of a window."""
    assert dedup.substrings is not None
    assert dedup.substrings.min_bytes is not None
    return dedup.substrings.min_bytes


def window_partitions(windows: int) -> int:
    """Return the number of ranges that the keys of windows are cut into."""
    return max(1, -(-windows // PARTITION_SPANS))


def _shared_key(partition: int) -> str:
    return f"cut/shared/{partition:05d}.npy"


def write_shared(workspace: Workspace, work: SpanPartition) -> SharedRecord:
    """Write the stretches of a partition whose minimizer is that of another one, too."""
    parts = spans_of_groups(workspace, work)

    def keys() -> Iterator[tuple[NDArray[np.uint64], NDArray[np.int64]]]:
        return ((block.keys, block.places.view(np.int64)) for block in span_blocks(parts))

    shared, windows = shared_keys(keys()), 0
    with array_writer(workspace.create(_shared_key(work.number)), dtype="<u8", shape=(2,)) as append:
        for block in span_blocks(parts):
            chosen = shared.find(block.keys) >= 0
            counts = block.checks[chosen].astype(np.uint64)
            append(np.column_stack([block.places[chosen], counts]))
            windows += int(counts.sum())
    return SharedRecord(windows=windows)


def cut_windows(workspace: Workspace, work: WindowGroup) -> SpansRecord:
    """Write the windows of the shared stretches of a group of units, ordered by partition."""
    files = (open_array(workspace.path(_shared_key(n)), dtype="<u8") for n in range(work.shared))
    stretches = placed_between(files, work.group.first << 32, work.group.last << 32)
    key = spans_key(WINDOWS, work.group.number, earlier=work.earlier)
    return write_spans(workspace, key, _windows(workspace, work, stretches), partitions=work.partitions)


def _windows(
    workspace: Workspace, work: WindowGroup, stretches: NDArray[np.uint64]
) -> Iterator[tuple[np.uint64, SpansAt]]:
    """Yield the windows of each document, with the place that its first byte has in the run."""
    min_bytes = min_bytes_of(work.dedup)
    for unit in work.group.units:
        for rows, table in kept_texts(workspace, unit) if unit.cut else ():
            data, offsets = utf8_of(table.column("text"))
            numbers = unit.first + rows
            lows = np.searchsorted(stretches[:, 0], numbers.astype(np.uint64) << _HALF)
            highs = np.searchsorted(stretches[:, 0], (numbers + 1).astype(np.uint64) << _HALF)
            for row in np.flatnonzero(lows < highs):
                own = stretches[lows[row] : highs[row]]
                keys, checks, starts = byte_windows(
                    data[offsets[row] : offsets[row + 1]],
                    starts=ordinals_of(own[:, 0]),
                    counts=own[:, 1].astype(np.int64),
                    min_bytes=min_bytes,
                )
                yield np.uint64(numbers[row] - work.group.first) << _HALF, (keys, checks, starts)


class PlacedRanges:
    """The repeated windows of bytes of a group of units, read as they are needed.

    Args:
        workspace: where the repeats are.
        method: name.
        partitions: that they lie in.
    """

    def __init__(self, workspace: Workspace, method: str, partitions: int) -> None:
        paths = (workspace.path(repeats_key(method, partition)) for partition in range(partitions))
        self._files: list[Any] = [open_array(path, dtype="<u8") for path in paths]

    def of(self, first: int, last: int) -> RepeatedRanges:
        """Return those of some documents that follow each other."""
        ranges = np.concatenate([np.empty((0, 3), np.uint64), *self._between(first << 32, last << 32)])
        return RepeatedRanges(ranges[:, 0].copy(), ranges[:, 1].copy(), ranges[:, 2].astype(np.int64))

    def _between(self, low: int, high: int) -> Iterator[NDArray[np.uint64]]:
        """Yield ranges of places, (R, 3), in parts of a bounded number of windows."""
        bounds = np.array([low, high], np.uint64)
        count = sum(int(np.diff(np.searchsorted(file[:, 0], bounds))[0]) for file in self._files)
        if count > _MOST_PLACES and high - low > 1:
            middle = (low + high) // 2
            yield from self._between(low, middle)
            yield from self._between(middle, high)
            return
        yield window_ranges(placed_between(self._files, low, high))


def window_ranges(repeats: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Join repeated windows that follow each other, and whose first places do.

    5 at 1, 6 at 2, 7 at 9    ->    5 at 1 twice, 7 at 9 once

    Args:
        repeats: (N, 2) places, ascending, and first places.

    Returns:
        (R, 3) uint64, with the number of windows.
    """
    begins = np.append(True, (np.diff(repeats, axis=0) != 1).any(axis=1))[: len(repeats)]
    starts = np.flatnonzero(begins)
    counts = np.diff(np.append(starts, len(repeats)))
    return np.column_stack([repeats[starts], counts.astype(np.uint64)])


def byte_cuts(
    text: NDArray[np.uint8], repeats: RepeatedRanges, taken: NDArray[np.int64], *, min_bytes: int
) -> Iterator[tuple[Cut, int]]:
    """Yield the bytes that repeated windows cover, as far as they can be cut out readably.

    Bytes that other methods cut are no longer there: the bytes beside them are neighbours.

    Args:
        text: (B,) in UTF-8.
        repeats: of the text's windows that stand more than once, first places among them.
        taken: (T, 2) ranges of bytes that other methods cut, ascending and apart.
        min_bytes: of a window.

    Yields:
        A cut, and the first place of the byte that it begins with, or is near.
    """
    chosen = repeats.places != repeats.firsts
    if not chosen.any():
        return
    places, firsts, counts = (column[chosen] for column in repeats)
    own = np.where(documents_of(places) == documents_of(firsts), ordinals_of(firsts), -1)
    starts = ordinals_of(places)
    ranges = repeated_bytes(text, WindowRanges(starts, own, counts), min_bytes=min_bytes)
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
            number = int(np.searchsorted(starts, source, side="right")) - 1
            yield Cut(begin, end, source), int(firsts[number]) + source - int(starts[number])
            done = end
