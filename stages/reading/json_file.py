r"""JSON files to raw documents: a list of objects, one object, or JSON lines under the name of JSON.

    [{"text": "a"},           {"text": "a",           {"text": "a"}
     {"text": "b"}]            "id": 7}               {"text": "b"}

A list is never held: `stages.reading.json_values` finds the values in it, and one is parsed at a time.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np

from stages.reading.faults import ContentError
from stages.reading.json_grammar import FAULT, fresh_state, value_end
from stages.reading.json_values import INK, json_values
from stages.reading.jsonl import JsonLines
from stages.reading.lines import BYTE_ORDER_MARK, Line
from stages.reading.reader import StreamReader
from stages.reading.records import foreign_detail

_BEGIN = b"{"


class JsonFile(JsonLines):
    """A stream that is a list of objects, objects one after the other, or JSON lines."""

    def pieces(self, chunks: Iterable[bytes]) -> Iterator[Line]:
        """Return the values, or the lines that are not blank.

        Raises:
            ContentError: the file is cut, is in another encoding, or where a record ends is unknown.
        """
        rest = iter(chunks)
        head, is_lines = _head_of(rest, max_bytes=self.max_bytes)
        if foreign := foreign_detail(0, head):
            raise ContentError(foreign, "encoding")
        whole = chain([head], rest)
        return super().pieces(whole) if is_lines else json_values(whole, max_bytes=self.max_bytes)


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
