"""Lines of a byte stream with their places, never holding more than one line and one chunk.

A slice of a plain file has the lines that start in it, wherever they end. Finding the first one needs
the byte before the slice alone, so slices are read in any order.
"""

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, filterfalse
from operator import attrgetter
from typing import BinaryIO

from stages.reading.slices import Slice

CHUNK_BYTES = 1 << 20
"""Bytes read at a time."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Some programs begin a UTF-8 file with it; it is no part of the first line."""


@dataclass(frozen=True)
class Line:
    """One line and its place; a paragraph or a whole text is one long line here."""

    number: int
    """1 for the first line of the file."""
    position: int
    """Byte offset of its first byte in the decompressed file."""
    data: bytes
    """Its bytes without the line feed; empty if it was too long to hold."""
    size: int
    """Its bytes in the file, the line feed not counted."""
    lines: int = 1
    """Lines of the file that a record takes, if a line feed may stand in one."""

    @property
    def content(self) -> bytes:
        """Its bytes without the byte order mark that may begin a file."""
        return self.data if self.position else self.data.removeprefix(BYTE_ORDER_MARK)

    @property
    def blank(self) -> bool:
        """Say whether it holds nothing but white space; one too long to hold is not blank."""
        return self.size == len(self.data) and not self.content.strip()

    @property
    def noticed(self) -> str | None:
        """Return what it is counted under, beside the records, if it is none; None of a record."""
        return None

    @property
    def end(self) -> int:
        """Byte offset of what follows its line feed."""
        return self.position + self.size + 1


def split_lines(
    chunks: Iterable[bytes],
    *,
    max_bytes: int,
    position: int = 0,
    number: int = 1,
    end: int | None = None,
) -> Iterator[Line]:
    r"""Yield the lines of a stream in order; a line over `max_bytes` keeps its size, not its data.

    b"ab\ncd" -> Line(1, 0, b"ab", 2), Line(2, 3, b"cd", 2)

    Args:
        chunks: the bytes, from the start of a line.
        max_bytes: longest line held.
        position: byte offset of the first line.
        number: its number.
        end: no line that starts at this byte or later is given or read.
    """
    buffer: list[bytes] = []
    size = 0
    for chunk in chunks:
        start = 0
        if end is not None and position >= end:
            return
        while (stop := chunk.find(b"\n", start)) >= 0:
            size += stop - start
            if size <= max_bytes:
                buffer.append(chunk[start:stop])
            yield Line(number, position, joined(buffer) if size <= max_bytes else b"", size)
            number, position, buffer, size = number + 1, position + size + 1, [], 0
            start = stop + 1
            if end is not None and position >= end:
                return
        if start < len(chunk):
            size += len(chunk) - start
            if size <= max_bytes:
                buffer.append(chunk[start:])
            else:
                buffer = []
    if size:
        yield Line(number, position, joined(buffer) if size <= max_bytes else b"", size)


def joined(parts: list[bytes], between: bytes = b"") -> bytes:
    """Join parts of a line and let go of them: of a long one there would be two copies."""
    data = between.join(parts)
    parts.clear()
    return data


def inked(lines: Iterable[Line]) -> Iterator[Line]:
    """Return the lines that are not blank; a line that was taken is not held here."""
    return filterfalse(attrgetter("blank"), lines)


def lines_of_slice(file: BinaryIO, part: Slice, *, max_bytes: int) -> Generator[Line, None, int | None]:
    """Return the lines that start in a slice of a plain file, blank ones too."""
    yield from lines_after(file, part, at=part.first - 1, max_bytes=max_bytes, end=part.last)
    return None


def lines_after(
    file: BinaryIO, part: Slice, *, at: int, max_bytes: int, end: int | None
) -> Iterator[Line]:
    """Yield the lines after the one that holds byte `at`, which is not after the slice's first.

    None at all if that line goes on to the end of the slice; from the file's start if `at` is -1.
    """
    if at < 0:
        file.seek(0)
        yield from split_lines(read_chunks(file), max_bytes=max_bytes, end=end)
        return
    number = part.before - _line_feeds(file, at, part.first) + 1
    file.seek(at)
    position = at
    while position < part.last and (chunk := file.read(CHUNK_BYTES)):
        start = chunk.find(b"\n") + 1
        if start:
            yield from split_lines(
                chain([chunk[start:]], read_chunks(file)),
                max_bytes=max_bytes,
                position=position + start,
                number=number + 1,
                end=end,
            )
            return
        position += len(chunk)


def read_chunks(file: BinaryIO) -> Iterator[bytes]:
    """Yield the bytes of a file from where it stands."""
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def _line_feeds(file: BinaryIO, first: int, last: int) -> int:
    """Count the line feeds in a range of bytes."""
    file.seek(first)
    count = 0
    while first < last and (chunk := file.read(min(CHUNK_BYTES, last - first))):
        count += chunk.count(b"\n")
        first += len(chunk)
    return count
