r"""JSON values: those of lists, and those one after the other, as pieces of a stream with their places.

Where the grammar holds, the end of a value is certain, and one that the parser refuses is one drop.
Where it is broken, the next value is looked for in one place alone:

    {"text": "a"},      An object that begins a line and is broken in it, and looks like one and no more,
    {"text": "b},       is one drop, if the next line begins an object or ends the list.
    {"text": "c"}

All else stops the run, since records could be lost unseen: an object that is broken and goes over
several lines or shares its line, a list in the list that holds objects, what is no value outside of a
list. So does a list that is not closed at the end, since the file was cut.

A comma that is missing between two objects, or there twice, is no fault: the objects are certain.
"""

import re
from collections.abc import Iterable, Iterator

import numpy as np

from stages.reading.faults import ContentError
from stages.reading.json_grammar import (
    AFTER,
    COLON,
    DEPTH,
    FAULT,
    INNER_LIST,
    LINE_FEED,
    NAME,
    NAME_OR_END,
    NEED,
    STRING,
    TOO_DEEP,
    VALUE,
    VALUE_OR_END,
    fresh_state,
    value_end,
)
from stages.reading.lines import BYTE_ORDER_MARK, Line, joined

INK = re.compile(rb"[^ \t\r\n]")
_WHITE = b" \t\r\n"
_OPEN, _CLOSE, _COMMA, _BEGIN = ord("["), ord("]"), ord(","), ord("{")
_FEED = b"\n"
_ANOTHER = re.compile(rb'[^:\[ \t\r][ \t\r]*\{[ \t\r]*"|[,}][ \t\r]*\{[ \t\r]*\}')
"""What may be the beginning of another record on the same line."""
_BETWEEN = 1 << 20
"""White space that is looked through for the next line, bytes."""
_NEEDED = {
    VALUE: "a value",
    VALUE_OR_END: "a value or ]",
    NAME: "a name in quotes",
    NAME_OR_END: "a name in quotes or }",
    COLON: "a colon",
    AFTER: "a comma, or the end of what is open,",
}
_FAULTS = {
    LINE_FEED: "the line ends in a string: a quote is missing, or a line feed is not written as \\n",
    INNER_LIST: "a list inside of the list holds objects: one of the brackets is too many",
    TOO_DEEP: "more than 1,024 brackets are open",
}


def json_values(chunks: Iterable[bytes], *, max_bytes: int) -> Iterator[Line]:
    r"""Return the values of lists, and those outside of lists, in order.

    b'[{"a": 1},\n 7] {}' -> Line(1, 1, b'{"a": 1}', 8), Line(2, 12, b"7", 1), Line(2, 15, b"{}", 2)

    Args:
        chunks: the bytes.
        max_bytes: longest value held; a longer one keeps its size, not its data.

    Raises:
        ContentError: a list is not closed, or where a value ends cannot be told.
    """
    values = _Values(chunks, max_bytes)
    while values.enter():
        yield values.value()
    if values.in_list:
        raise ContentError(
            f"its list is not closed at the end, byte {values.position:,}, after {values.count:,}"
            " records; the file was cut short",
            None,
        )


class _Values:
    """The values of a stream, one after the other.

    Args:
        chunks: the bytes.
        max_bytes: longest value held.
    """

    def __init__(self, chunks: Iterable[bytes], max_bytes: int) -> None:
        self._chunks = iter(chunks)
        self._max_bytes = max_bytes
        self._chunk = b""
        self._at = self._base = 0
        """Where in the chunk it is, and where in the stream the chunk is."""
        self._line = 1
        self._leads = True
        """Whether what comes is the first on its line, but for the bracket of the list."""
        self.in_list = False
        self.count = 0
        """Values that have begun."""

    @property
    def position(self) -> int:
        """Of the byte that comes next."""
        return self._base + self._at

    def enter(self) -> bool:
        """Go on to the next value; say whether there is one."""
        while self._skip_white():
            byte = self._chunk[self._at]
            if self.in_list and byte in (_COMMA, _CLOSE):
                self.in_list, self._leads = byte == _COMMA, False
                self._at += 1
            elif not self.in_list and byte == _OPEN:
                self.in_list = True
                self._at += 1
            elif not self.in_list and self._at_mark():
                self._at += len(BYTE_ORDER_MARK)
            else:
                self.count += 1
                return True
        return False

    def value(self) -> Line:
        """Return the value that begins here, and go on to what is behind it.

        Raises:
            ContentError: it is not closed, or where it ends cannot be told.
        """
        begin, line, size, end = self.position, self._line, 0, -1
        state, stack = fresh_state()
        buffer: list[bytes] = []
        while end < 0:
            data = np.frombuffer(self._chunk, np.uint8)
            end = int(value_end(data, self._at, state, stack, self.in_list))
            if state[FAULT]:
                fault = self._base + end - begin
                after = self._past_fault(joined(buffer), size, fault=fault)
                if after is None:
                    raise self._unknown_end(
                        begin, line, self._base + end, int(state[NEED]), int(state[FAULT])
                    )
                return Line(line, begin, after, len(after))
            stop = end if end >= 0 else len(self._chunk)
            size += stop - self._at
            if size <= self._max_bytes:
                buffer.append(self._chunk[self._at : stop])
            else:
                buffer.clear()
            self._line += self._chunk.count(_FEED, self._at, stop)
            self._at = stop
            if end < 0 and not self._more():
                if state[DEPTH] or state[STRING] or self.in_list:
                    raise self._not_closed(begin, line)
                break
        whole_data = joined(buffer)
        content = whole_data.rstrip(_WHITE)
        self._leads = _FEED in whole_data[len(content) :]
        return Line(line, begin, content, size if size > self._max_bytes else len(content))

    def _past_fault(self, data: bytes, size: int, *, fault: int) -> bytes | None:
        """Go on behind a broken object and return it, if it is certain where the next value begins.

        Args:
            data: of the object, before the chunk.
            size: bytes of that, held or not.
            fault: where in the object it is broken.
        """
        if not (self.in_list and self._leads) or len(data) < size:
            return None
        text = data + self._chunk[self._at :]
        position, line = self.position - size, self._line - data.count(_FEED)
        while True:
            feed = text.find(_FEED)
            if (len(text) if feed < 0 else feed) > self._max_bytes:
                return None
            following = INK.search(text, feed) if feed >= 0 else None
            if following is not None:
                break
            more = next(self._chunks, None)
            if more is None or (feed >= 0 and len(text) - feed > _BETWEEN):
                return None
            text += more
        place = following.start()
        content = text[:feed].rstrip(_WHITE)
        ends = fault == place or content.removesuffix(b",").rstrip(_WHITE).endswith(b"}")
        if not (text[0] == _BEGIN and text[place] in (_BEGIN, _CLOSE) and fault <= place and ends):
            return None
        if _ANOTHER.search(content):
            return None
        self._chunk, self._base, self._at = text[place:], position + place, 0
        self._line, self._leads = line + text.count(_FEED, 0, place), True
        return content

    def _skip_white(self) -> bool:
        """Go on to what is no white space; say whether there is any."""
        while True:
            ink = INK.search(self._chunk, self._at)
            stop = ink.start() if ink else len(self._chunk)
            feeds = self._chunk.count(_FEED, self._at, stop)
            self._line, self._leads = self._line + feeds, self._leads or feeds > 0
            self._at = stop
            if ink is not None:
                return True
            if not self._more():
                return False

    def _at_mark(self) -> bool:
        """Say whether a byte order mark comes, of a file that was joined to another, or the first."""
        while BYTE_ORDER_MARK.startswith(self._chunk[self._at :]):
            if self._chunk.endswith(BYTE_ORDER_MARK):
                return True
            more = next(self._chunks, None)
            if more is None:
                return False
            self._base += self._at
            self._chunk, self._at = self._chunk[self._at :] + more, 0
        return self._chunk.startswith(BYTE_ORDER_MARK, self._at)

    def _more(self) -> bool:
        """Go on to the next chunk; say whether there is one."""
        for chunk in self._chunks:
            if chunk:
                self._base += len(self._chunk)
                self._chunk, self._at = chunk, 0
                return True
        return False

    def _unknown_end(self, begin: int, line: int, place: int, need: int, fault: int) -> ContentError:
        """Say where a value is broken, if where it ends is not known."""
        what = _FAULTS.get(fault)
        if what is None:
            found = bytes([self._chunk[place - self._base]])
            shown = (
                found.decode("ascii")
                if found.isascii() and found.decode().isprintable()
                else f"0x{found.hex()}"
            )
            what = f"{_NEEDED[need]} must come, not {shown}"
            if begin == place and not self.in_list:
                what = f"outside of a list {shown} begins no value"
        return ContentError(
            f"its record {self.count:,}, which begins in line {line:,} at byte {begin:,}, is broken at"
            f" byte {place:,}: {what}. Where the next record begins is not certain, so reading stops",
            None,
        )

    def _not_closed(self, begin: int, line: int) -> ContentError:
        """Say that a value goes on at the end of the stream."""
        return ContentError(
            f"its record {self.count:,}, which begins in line {line:,} at byte {begin:,}, is not closed"
            f" at the end, byte {self.position:,}; the file was cut, or a quote or bracket is missing",
            None,
        )
