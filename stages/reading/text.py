"""Plain text to raw documents: a document a file, or a document a paragraph group.

Groups are separated by one or more lines of nothing but white space. A document stands at its first
byte. In the flow: bytes -> lines -> **raw documents** -> cleaned text, which takes a byte order mark
and Windows line ends away.
"""

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from stages.columns import Drop, DropReason
from stages.reading.columns_seen import ColumnsSeen
from stages.reading.lines import CHUNK_BYTES, Line, joined, lines_after, split_lines
from stages.reading.reader import StreamReader, TextSplit
from stages.reading.records import (
    UNDETERMINED,
    FieldMapping,
    RawDocument,
    Record,
    bad_utf8,
    foreign_detail,
    too_large,
)
from stages.reading.slices import Slice
from stages.reading.source_code import ALL_CODE_ENDINGS


@dataclass(frozen=True)
class WholeText:
    """A stream that is one document."""

    fields: FieldMapping
    max_bytes: int

    def lines(self, chunks: Iterable[bytes]) -> Iterator[Line]:
        """Return all of it."""
        return whole_text(chunks, max_bytes=self.max_bytes)

    def parse(self, line: Line, columns: ColumnsSeen) -> Record:  # noqa: ARG002  # it has none
        """Return its document."""
        return parse_text(line, self.fields)


class Paragraphs(WholeText):
    """A stream of which each group of lines between blank ones is a document."""

    def lines(self, chunks: Iterable[bytes]) -> Iterator[Line]:
        """Return the groups."""
        return paragraphs(split_lines(chunks, max_bytes=self.max_bytes), max_bytes=self.max_bytes)


def parse_text(line: Line, fields: FieldMapping) -> Record:
    """Return the document that a line of text is, or the reason why it is none."""
    if line.size > len(line.data):
        return too_large(line.number, line.position, line.size)
    if foreign := foreign_detail(line.position, line.data):
        return Drop(line.number, line.position, DropReason.BAD_UTF8, foreign)
    try:
        text = line.data.decode()
    except UnicodeDecodeError as error:
        return bad_utf8(line.number, line.position, error)
    language = fields.language if isinstance(fields.language, str) else UNDETERMINED
    return RawDocument(line.number, line.position, text, None, language)


def whole_text(chunks: Iterable[bytes], *, max_bytes: int) -> Iterator[Line]:
    """Yield a whole file as one line; one over `max_bytes` keeps its size, not its data."""
    buffer: list[bytes] = []
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size <= max_bytes:
            buffer.append(chunk)
        else:
            buffer = []
    yield Line(1, 0, joined(buffer), size)


def paragraphs(
    lines: Iterable[Line],
    *,
    max_bytes: int,
    first: int = 0,
    last: int | None = None,
    inside: bool = False,
) -> Generator[Line, None, int | None]:
    r"""Yield the groups of lines between blank ones, each as one line.

    b"a\nb\n\n\nc\n" -> Line(1, 0, b"a\nb", 3), Line(5, 6, b"c", 1)

    Args:
        lines: the lines in order.
        max_bytes: longest group held; a longer one keeps its size, not its data.
        first: no group that starts before this byte is given.
        last: nor one that starts at this byte or later.
        inside: the first lines belong to a group that started earlier, and are passed over.

    Returns:
        The place of the line at `last` or later that ended the reading; None at the end of the lines.
    """
    start: Line | None = None
    buffer, size = bytearray(), 0  # a list of its lines would take more than a text of short ones
    for line in lines:
        if line.blank:
            if start is not None:
                yield _group(start, buffer, size)
            start, inside = None, False
            continue
        if start is None:
            if last is not None and line.position >= last:
                return line.position
            inside = inside or line.position < first
            if inside:
                continue
            start, buffer = line, bytearray()
        size = line.position + line.size - start.position
        if size <= max_bytes:
            buffer += line.data
            buffer += b"\n"
        else:
            buffer = bytearray()
    if start is not None:
        yield _group(start, buffer, size)
    return None


def paragraphs_of_slice(
    file: BinaryIO, part: Slice, *, max_bytes: int
) -> Generator[Line, None, int | None]:
    """Return the groups that start in a slice of a plain file; return as `paragraphs` does."""
    at = _last_ink(file, part.first)
    lines = lines_after(file, part, at=at, max_bytes=max_bytes, end=None)
    return paragraphs(lines, max_bytes=max_bytes, first=part.first, last=part.last, inside=at >= 0)


def _group(start: Line, buffer: bytearray, size: int) -> Line:
    """Return the lines of a group, each with its end; let go of them."""
    if not buffer:
        return Line(start.number, start.position, b"", size)
    end = len(buffer) - (2 if buffer.endswith(b"\r\n") else 1)
    with memoryview(buffer) as view:
        data = bytes(view[:end])
    buffer.clear()
    return Line(start.number, start.position, data, len(data))


def _last_ink(file: BinaryIO, before: int) -> int:
    """Return the place of the last byte that is no white space before a place, or -1.

    From there it is known whether a line continues a group or starts one.
    """
    while before > 0:
        first = max(0, before - CHUNK_BYTES)
        file.seek(first)
        ink = len(file.read(before - first).rstrip())
        if ink:
            return first + ink - 1
        before = first
    return -1


PROSE_ENDINGS = (".txt", ".md", ".rst", ".tex")
"""Of plain text that is no source code."""
_ENDINGS = (*PROSE_ENDINGS, *ALL_CODE_ENDINGS)
WHOLE_TEXT = StreamReader(
    "plain text", _ENDINGS, WholeText, has_columns=False, is_whole=True, split=TextSplit.FILE
)
PARAGRAPHS = StreamReader(
    "plain text",
    _ENDINGS,
    Paragraphs,
    read_slice=paragraphs_of_slice,
    without_gaps=False,
    has_columns=False,
    split=TextSplit.BLANK_LINE,
)
