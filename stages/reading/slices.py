"""Slices: the pieces of a file that can be read apart.

A plain file is cut by bytes, Parquet by row groups, Arrow by record batches; slices are read in any
order. A compressed file has none: it is read from front to back.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Slice:
    """A piece of a file that can be read without what stands before it."""

    first: int
    """Its first byte, row group or record batch; the first byte in a stream of record batches."""
    last: int
    """The one after its last."""
    before: int
    """Line feeds, or rows, in the file before it."""
    held: int = 0
    """Bytes that are in memory at once while it is read, if more than the longest document is."""


def byte_slices(size: int, unit: int, line_feeds: Sequence[int]) -> list[Slice]:
    """Cut a plain file into slices of `unit` bytes; an empty one has one slice.

    Args:
        size: bytes of the file.
        unit: bytes of a slice.
        line_feeds: for each slice, the line feeds in it.
    """
    slices, before = [], 0
    for first, count in zip(range(0, max(size, 1), unit), line_feeds, strict=True):
        slices.append(Slice(first, min(first + unit, size), before))
        before += count
    return slices


def run_slices(pieces: Iterable[tuple[int, int]], unit: int) -> list[Slice]:
    """Join pieces (rows, bytes) to runs of at most `unit` bytes; a larger piece is a run alone.

    [(5, 40), (5, 40), (9, 300)] with unit = 100 -> Slice(0, 2, 0), Slice(2, 3, 10)
    """
    borders, rows, held, count = [(0, 0)], 0, 0, 0
    for number, (piece_rows, piece_bytes) in enumerate(pieces):
        if number and held + piece_bytes > unit:
            borders.append((number, rows))
            held = 0
        rows, held, count = rows + piece_rows, held + piece_bytes, number + 1
    ends = [*borders, (count, rows)]
    return [Slice(first, last, before) for (first, before), (last, _) in pairwise(ends)]
