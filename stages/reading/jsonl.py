"""JSON lines to raw documents: one object a line, its fields named by the source's config.

A line that gives no document gives a drop instead, with the reason; nothing raises and nothing
disappears. In the flow: bytes -> lines -> **raw documents** -> cleaned text.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import orjson

from stages.columns import Drop, DropReason
from stages.reading.columns_seen import ColumnsSeen
from stages.reading.fields import document_of
from stages.reading.json_numbers import loaded
from stages.reading.lines import Line, inked, lines_of_slice, split_lines
from stages.reading.reader import StreamReader
from stages.reading.records import FieldMapping, Record, bad_utf8, foreign_detail, too_large
from stages.reading.structure import too_costly


@dataclass(frozen=True)
class JsonLines:
    """A stream of JSON objects, one a line."""

    fields: FieldMapping
    max_bytes: int

    def pieces(self, chunks: Iterable[bytes]) -> Iterator[Line]:
        """Return the lines that are not blank."""
        return inked(split_lines(chunks, max_bytes=self.max_bytes))

    def parse(self, piece: Line, columns: ColumnsSeen) -> Record:
        """Return the document of a line, unless parsing it would take far more than its bytes."""
        costly = too_costly(piece, max_bytes=self.max_bytes)
        return costly or parse_line(piece, self.fields, columns)


def parse_line(line: Line, fields: FieldMapping, columns: ColumnsSeen | None = None) -> Record:
    """Return the document that a line holds, or the reason why it holds none.

    Args:
        line: the line.
        fields: which fields of its object hold what.
        columns: counts the fields that are there.
    """
    if line.size > len(line.data):
        return too_large(line.number, line.position, line.size)
    try:
        record = loaded(line.content)
    except orjson.JSONDecodeError as error:
        return _bad_line(line, f"{error.msg}, at character {error.pos:,} of the record")
    if not isinstance(record, dict):
        kind = type(record).__name__
        return Drop(line.number, line.position, DropReason.BAD_JSON, f"of type {kind}, not an object")
    return document_of(record, line, fields, columns)


def _bad_line(line: Line, why: str) -> Drop:
    """Tell bytes that are no UTF-8 from text that is no JSON."""
    try:
        line.data.decode()
    except UnicodeDecodeError as error:
        return bad_utf8(line.number, line.position, error)
    foreign = foreign_detail(line.position, line.data)
    reason = DropReason.BAD_UTF8 if foreign else DropReason.BAD_JSON
    return Drop(line.number, line.position, reason, foreign or why)


JSON_LINES = StreamReader("JSON lines", (".jsonl", ".ndjson"), JsonLines, read_slice=lines_of_slice)
