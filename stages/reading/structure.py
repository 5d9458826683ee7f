"""Structure: what parsing a JSON line could take, known before it is parsed.

A list of two bytes, `[]`, becomes an object of 56 and a place of 8 in the list around it, so a line of
32 MiB may parse to gigabytes, whether or not its field is read. What could become an object is counted
by the characters that make one, those inside of strings left out.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from stages.columns import Drop, DropReason
from stages.kernels import kernel
from stages.reading.lines import Line

COSTS: Final = {b",": 56, b":": 20, b'"': 40, b"[": 70, b"{": 200}
"""Bytes, at the most, for each such character. Measured with orjson 3.11 on lines of 4 MiB: a number in
a list 51, a string 84 to 120, an empty list 64, an object with a key 247, each more key 105."""
_MOST = 100
"""Bytes, at the most, for a byte of a line: of `{},{},{}`."""
_BASE = 1 << 20
_FACTOR = 2
_QUOTE, _ESCAPE = ord('"'), ord("\\")


def parse_limit(max_bytes: int) -> int:
    """Return what parsing a line may take beyond its text, for the longest document that is read."""
    return _BASE + _FACTOR * max_bytes


def too_costly(line: Line, *, max_bytes: int) -> Drop | None:
    """Return the drop of a JSON line that could take too much memory to parse, or None.

    Args:
        line: the line.
        max_bytes: `ingest.max_document_bytes`.
    """
    limit = parse_limit(max_bytes)
    cost = cost_beyond(limit, line.data)
    if cost is None:
        return None
    detail = (
        f"its lists, objects, numbers and strings could take {cost:,} bytes to parse, over {limit:,}"
        " (which follows ingest.max_document_bytes); leave such fields out of the file"
    )
    return Drop(line.number, line.position, DropReason.TOO_LARGE, detail)


def cost_beyond(limit: int, data: bytes) -> int | None:
    """Return the bytes that parsing JSON could take beyond its text, or None if no more than a limit."""
    if _MOST * len(data) <= limit or _cost(data) <= limit:
        return None
    counts = _count_structure(np.frombuffer(data, np.uint8), np.frombuffer(b"".join(COSTS), np.uint8))
    cost = int(counts @ np.array(list(COSTS.values()), np.int64))
    return cost if cost > limit else None


def _cost(data: bytes) -> int:
    """Return the cost with what stands inside of strings: never too little, and fast."""
    return sum(data.count(character) * cost for character, cost in COSTS.items())


@kernel
def _count_structure(data: NDArray[np.uint8], characters: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Count some characters of JSON outside of its strings, whose quotes count: (C,) int64."""
    number = np.full(256, -1, np.int64)
    for place in range(len(characters)):
        number[characters[place]] = place
    counts = np.zeros(len(characters), np.int64)
    inside, place = False, 0
    while place < len(data):
        byte = data[place]
        if inside and byte == _ESCAPE:
            place += 1
        elif byte == _QUOTE:
            inside = not inside
            counts[number[byte]] += 1
        elif not inside and number[byte] >= 0:
            counts[number[byte]] += 1
        place += 1
    return counts
