r"""JSON files to raw documents: a list of objects, one object, or JSON lines under the name of JSON.

    [{"text": "a"},           {"text": "a",           {"text": "a"}
     {"text": "b"}]            "id": 7}               {"text": "b"}

A list is never held: compiled code finds where each value in it ends, and only that is parsed. A string
does not go over a line end, which JSON forbids, so a quote that is left open spoils its record and not
those behind it. A list that is not closed is a drop of its own, since the file was cut.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from stages.columns import Drop, DropReason
from stages.kernels import kernel
from stages.reading.columns_seen import ColumnsSeen
from stages.reading.jsonl import JsonLines
from stages.reading.lines import BYTE_ORDER_MARK, Line, joined
from stages.reading.reader import StreamReader
from stages.reading.records import Record

_INK = re.compile(rb"[^ \t\r\n]")
_WHITE = b" \t\r\n"
_OPEN, _CLOSE, _COMMA, _LINE_FEED = ord("["), ord("]"), ord(","), ord("\n")
_QUOTE, _ESCAPE, _BEGIN, _END = ord('"'), ord("\\"), ord("{"), ord("}")


class JsonFile(JsonLines):
    """A stream that is a list of objects, objects one after the other, or JSON lines."""

    def pieces(self, chunks: Iterable[bytes]) -> Iterator[Line]:
        """Return the values, or the lines that are not blank."""
        rest = iter(chunks)
        head, is_lines = _head_of(rest, max_bytes=self.max_bytes)
        whole = chain([head], rest)
        return super().pieces(whole) if is_lines else json_values(whole, max_bytes=self.max_bytes)

    def parse(self, piece: Line, columns: ColumnsSeen) -> Record:
        """Return the document of a value."""
        if not piece.size:
            detail = "the list is not closed; the file was cut short"
            return Drop(piece.number, piece.position, DropReason.BAD_JSON, detail)
        return super().parse(piece, columns)


def json_values(chunks: Iterable[bytes], *, max_bytes: int) -> Iterator[Line]:
    r"""Return the values of lists, and those outside of lists, in order.

    b'[{"a": 1},\n 7] {}' -> Line(1, 1, b'{"a": 1}', 8), Line(2, 12, b"7", 1), Line(2, 15, b"{}", 2)

    At the end of a list that is not closed, an empty one.

    Args:
        chunks: the bytes; a byte order mark is in the first one as a whole.
        max_bytes: longest value held; a longer one keeps its size, not its data.
    """
    at = _Place(max_bytes)
    for chunk in chunks:
        data = np.frombuffer(chunk, np.uint8)
        start = 0
        if not at.position and chunk.startswith(BYTE_ORDER_MARK):
            start = len(BYTE_ORDER_MARK)
        while start < len(chunk):
            if not at.inside:
                start = at.enter(chunk, start)
                continue
            stop = int(_value_end(data, start, at.state, at.in_list))
            end = stop if stop >= 0 else len(chunk)
            at.hold(chunk[start:end])
            at.count(chunk, start, end)
            start = end
            if stop >= 0:
                yield at.leave()
        at.position += len(chunk)
    broken = at.inside and at.state.any()  # it says itself that the file was cut
    if at.inside:
        yield at.leave()
    if at.in_list and not broken:
        yield Line(at.number, at.position, b"", 0)


@dataclass
class _Place:
    """Where in a file the reading is."""

    max_bytes: int
    position: int = 0
    """Of the chunk."""
    number: int = 1
    """Of the line."""
    in_list: bool = False
    inside: bool = False
    """Of a value."""
    state: NDArray[np.int64] = field(default_factory=lambda: np.zeros(3, np.int64))
    """Of the value: the objects and lists that are open, whether a string is, and an escape in it."""
    begin: tuple[int, int] = (0, 0)
    """Line and position of the value."""
    held: list[bytes] = field(default_factory=list)
    size: int = 0

    def enter(self, chunk: bytes, start: int) -> int:
        """Go on to the next value of a chunk, or to its end; return the place."""
        ink = _INK.search(chunk, start)
        end = ink.start() if ink else len(chunk)
        self.count(chunk, start, end)
        if ink is None:
            return end
        byte = chunk[end]
        if self.in_list and byte in (_COMMA, _CLOSE):
            self.in_list = byte == _COMMA
            return end + 1
        if not self.in_list and byte == _OPEN:
            self.in_list = True
            return end + 1
        self.inside, self.begin = True, (self.number, self.position + end)
        self.state[:] = 0
        return end

    def hold(self, part: bytes) -> None:
        """Add a part of the value."""
        self.size += len(part)
        if self.size <= self.max_bytes:
            self.held.append(part)
        else:
            self.held.clear()

    def count(self, chunk: bytes, start: int, end: int) -> None:
        """Count the line feeds of a part of a chunk."""
        self.number += chunk.count(b"\n", start, end)

    def leave(self) -> Line:
        """Return the value, at its end."""
        size, whole = self.size, self.size <= self.max_bytes
        data = joined(self.held).rstrip(_WHITE) if whole else b""
        self.inside, self.held, self.size = False, [], 0
        return Line(*self.begin, data, len(data) if whole else size)


@kernel
def _value_end(  # noqa: C901  # one state machine
    data: NDArray[np.uint8],
    start: int,
    state: NDArray[np.int64],
    in_list: bool,  # noqa: FBT001  # compiled code takes no keywords
) -> int:
    """Return where a value of JSON ends that goes on at a place, or -1 if it goes on behind the data.

    In a list that is the comma or bracket behind it; outside, what follows its last bracket, or a line.
    """
    depth, inside, escaped = state[0], state[1], state[2]
    found = -1
    for place in range(start, len(data)):
        byte = data[place]
        if inside:
            if escaped and byte != _LINE_FEED:
                escaped = 0
            elif byte == _ESCAPE:
                escaped = 1
            elif byte in (_QUOTE, _LINE_FEED):
                inside, escaped = 0, 0
        elif byte == _QUOTE:
            inside = 1
        elif byte in (_OPEN, _BEGIN):
            depth += 1
        elif byte in (_CLOSE, _END):
            if depth == 0 and in_list and byte == _CLOSE:
                found = place
                break
            depth = max(0, depth - 1)
            if depth == 0 and not in_list:
                found = place + 1
                break
        elif depth == 0 and byte == (_COMMA if in_list else _LINE_FEED):
            found = place
            break
    state[0], state[1], state[2] = depth, inside, escaped
    return found


def _head_of(chunks: Iterator[bytes], *, max_bytes: int) -> tuple[bytes, bool]:
    """Take the beginning of a stream; return it, and whether the stream is JSON lines.

    It is if its first line is an object, whole or broken, and not the first line of one that goes on:
    what follows must be an object on a line of its own.
    """
    head = b""
    for chunk in chunks:
        head += chunk
        first = _INK.search(head, len(BYTE_ORDER_MARK) * head.startswith(BYTE_ORDER_MARK))
        if first is None or (first.start() == 0 and BYTE_ORDER_MARK.startswith(head)):
            continue
        if head[first.start()] != _BEGIN or len(head) > max_bytes:
            return head, False
        line_end = head.find(b"\n", first.start())
        if line_end < 0:
            continue
        line = head[first.start() : line_end]
        end = int(_value_end(np.frombuffer(line, np.uint8), 0, np.zeros(3, np.int64), False))  # noqa: FBT003
        if end >= 0:
            return head, not line[end:].strip()
        following = _INK.search(head, line_end)
        if following is not None:
            return head, head[following.start() - 1] == _LINE_FEED and head[following.start()] == _BEGIN
    return head, False


JSON = StreamReader("JSON", (".json",), JsonFile)
