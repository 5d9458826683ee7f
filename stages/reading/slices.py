"""Slices: the parts of a file that can be read apart.

A plain file is cut by bytes, Parquet by row groups, Arrow by record batches; slices are read in any
order. A compressed file has none: it is read from front to back.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Slice:
    """A part of a file that can be read without what stands before it."""

    first: int
    """Its first byte, row group or record batch; the first byte in a stream of record batches."""
    last: int
    """The one after its last."""
    before: int
    """Line feeds, or rows, in the file before it."""
    most_bytes: int = 0
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


def slices_of_blocks(blocks: Iterable[tuple[int, int]], unit: int) -> list[Slice]:
    """Join blocks (rows, bytes) to slices of at most `unit` bytes; a larger block is a slice alone.

    [(5, 40), (5, 40), (9, 300)] with unit = 100 -> Slice(0, 2, 0), Slice(2, 3, 10)
    """
    borders, rows, size, count = [(0, 0)], 0, 0, 0
    for number, (block_rows, block_bytes) in enumerate(blocks):
        if number and size + block_bytes > unit:
            borders.append((number, rows))
            size = 0
        rows, size, count = rows + block_rows, size + block_bytes, number + 1
    ends = [*borders, (count, rows)]
    return [Slice(first, last, before) for (first, before), (last, _) in pairwise(ends)]
