r"""JSON: a document a line, or the objects of a whole file.

A line that gives no document gives a drop instead, with the reason; nothing raises and nothing
disappears. In the flow: bytes -> lines -> **raw documents** -> cleaned text.

JSON files to raw documents: a list of objects, one object, or JSON lines under the name of JSON.

    [{"text": "a"},           {"text": "a",           {"text": "a"}
     {"text": "b"}]            "id": 7}               {"text": "b"}

A list is never held: `stages.reading.json_values` finds the values in it, and one is parsed at a time.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
import orjson

from stages.columns import Drop, DropReason
from stages.reading.columns_seen import ColumnsSeen
from stages.reading.faults import ContentError
from stages.reading.fields import document_of
from stages.reading.json_grammar import FAULT, fresh_state, value_end
from stages.reading.json_values import INK, json_values
from stages.reading.kept_values import loaded
from stages.reading.lines import BYTE_ORDER_MARK, Line, inked, lines_of_slice, split_lines
from stages.reading.reader import StreamReader
from stages.reading.records import FieldMapping, Record, bad_utf8, foreign_detail, too_large
from stages.reading.structure import too_costly


@dataclass(frozen=True)
class JsonLines:
    """A stream of JSON objects, one a line."""

    fields: FieldMapping
    max_bytes: int

    def lines(self, chunks: Iterable[bytes]) -> Iterator[Line]:
        """Return the lines that are not blank."""
        return inked(split_lines(chunks, max_bytes=self.max_bytes))

    def parse(self, line: Line, columns: ColumnsSeen) -> Record:
        """Return the document of a line, unless parsing it would take far more than its bytes."""
        costly = too_costly(line, max_bytes=self.max_bytes)
        return costly or parse_line(line, self.fields, columns)


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


_BEGIN = b"{"


class JsonFile(JsonLines):
    """A stream that is a list of objects, objects one after the other, or JSON lines."""

    def lines(self, chunks: Iterable[bytes]) -> Iterator[Line]:
        """Return the values, or the lines that are not blank.

        Raises:
            ContentError: the file is cut, is in another encoding, or where a record ends is unknown.
        """
        rest = iter(chunks)
        head, is_lines = _head_of(rest, max_bytes=self.max_bytes)
        if foreign := foreign_detail(0, head):
            raise ContentError(foreign, "encoding")
        whole = chain([head], rest)
        return super().lines(whole) if is_lines else json_values(whole, max_bytes=self.max_bytes)


def _head_of(chunks: Iterator[bytes], *, max_bytes: int) -> tuple[bytes, bool]:
    """Take the beginning of a stream; return it, and whether the stream is JSON lines.

    It is if its first line is an object, whole or broken, and not the first line of one that goes on:
    what follows must be an object on a line of its own.
    """
    head = b""
    for chunk in chunks:
        head += chunk
        first = INK.search(head, len(BYTE_ORDER_MARK) * head.startswith(BYTE_ORDER_MARK))
        if first is None or (first.start() == 0 and BYTE_ORDER_MARK.startswith(head)):
            continue
        if not head.startswith(_BEGIN, first.start()) or len(head) > max_bytes:
            return head, False
        line_end = head.find(b"\n", first.start())
        if line_end < 0:
            continue
        following = INK.search(head, line_end)
        line = head[first.start() : following.end() if following else line_end]
        state, stack = fresh_state()
        end = int(value_end(np.frombuffer(line, np.uint8), 0, state, stack, False))  # noqa: FBT003
        if end >= 0 and not state[FAULT]:
            return head, not head[first.start() + end : line_end].strip()
        if following is not None:
            on_own_line = head.endswith(b"\n", 0, following.start())
            return head, bool(state[FAULT]) and on_own_line and following.group() == _BEGIN
    return head, False


JSON = StreamReader("JSON", (".json",), JsonFile)
