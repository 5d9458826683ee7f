"""Lines of a byte stream with their places, never holding more than one line and one chunk."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """One line and its place."""

    number: int
    """1 for the first line of the file."""
    position: int
    """Byte offset of its first byte in the decompressed file."""
    data: bytes
    """Its bytes without the line feed; empty if it was too long to hold."""
    size: int
    """Its bytes in the file, the line feed not counted."""


def split_lines(chunks: Iterable[bytes], *, max_bytes: int) -> Iterator[Line]:
    r"""Give the lines of a stream in order; a line over `max_bytes` keeps its size, not its data.

    b"ab\ncd" -> Line(1, 0, b"ab", 2), Line(2, 3, b"cd", 2)
    """
    number, position, held, size = 1, 0, [], 0
    for chunk in chunks:
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            size += end - start
            held.append(chunk[start:end])
            yield Line(number, position, b"".join(held) if size <= max_bytes else b"", size)
            number, position, held, size = number + 1, position + size + 1, [], 0
            start = end + 1
        if start < len(chunk):
            size += len(chunk) - start
            held = [*held, chunk[start:]] if size <= max_bytes else []
    if size:
        yield Line(number, position, b"".join(held) if size <= max_bytes else b"", size)
