"""Byte cuts: which bytes of a text go because strings of k bytes stand elsewhere.

As `stages.dedup.cuts` with bytes in place of words: a byte goes if a repeated window covers it, and its
copy in the first place of that window stays, or goes for a still better one. Windows are given in
ranges: those that follow each other, and whose first places do.

What goes is then made smaller, by a quarter of `min_bytes` at each end at the most, so that it begins
and ends at the best border that there is: of lines, else of sentences, clauses, words, characters. White
space around it goes as a writer would have it.
"""

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.dedup.cuts import blank_before, line_begin, lines_end, merged  # lines are cut in one way

_SHRINK = 4
_FARTHEST = 1_024
"""Bytes that it is made smaller by at each end, at the most."""
_AROUND = 64
"""Bytes of a text before and after a place that are looked at for a border."""
_CONTINUED, _MASK = 0x80, 0xC0
"""Of a byte of UTF-8 that is no first one of a character."""
_CLOSING = "[\"')\\]\u201d\u2019\u00bb\u300d\u300f\uff09]*"
_SENTENCE = f"[.!?\u2026\u0964\u061f]{_CLOSING}(?=\\s)|[\u3002\uff01\uff1f]{_CLOSING}"
_CLAUSE = "[,:\u060c](?=\\s)|[;{}\u3001\uff0c\uff1b\uff1a]"
_BEGINS = tuple(
    re.compile(one) for one in ("\\n\\s*", f"(?:{_SENTENCE})\\s*", f"(?:{_CLAUSE})\\s*", "\\s+")
)
"""What stands before a line, a sentence, a clause, a word."""
_LINE_ENDS, _WORD_ENDS = re.compile("\\s*\\n"), re.compile("\\s+")
_ENDS = re.compile(_SENTENCE), re.compile(_CLAUSE)


class WindowRanges(NamedTuple):
    """R ranges of repeated windows of a text."""

    starts: NDArray[np.int64]
    """(R,) ascending, the byte where the first window of each begins."""
    firsts: NDArray[np.int64]
    """(R,) where its first place in the same text begins; -1 in another text."""
    counts: NDArray[np.int64]
    """(R,) windows of each."""


def repeated_bytes(
    text: NDArray[np.uint8], repeats: WindowRanges, *, min_bytes: int
) -> NDArray[np.int64]:
    """Return the ranges of bytes that go, (N, 2), whole characters.

    Args:
        text: (B,) in UTF-8.
        repeats: of windows whose first place is elsewhere.
        min_bytes: of a window.
    """
    goes = _covered(len(text), repeats.starts, repeats.counts - 1 + min_bytes)
    overlapping = (repeats.firsts >= 0) & (repeats.starts - repeats.firsts < min_bytes)
    stays = repeats.firsts[overlapping], repeats.counts[overlapping] - 1 + min_bytes
    goes &= ~_covered(len(text), *stays)
    edges = np.flatnonzero(np.diff(goes, prepend=False, append=False))
    ranges = [_whole_characters(text, low, high) for low, high in edges.reshape(-1, 2).tolist()]
    return np.array([one for one in ranges if one[0] < one[1]], np.int64).reshape(-1, 2)


def without_taken(ranges: NDArray[np.int64], taken: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return ranges of a text as they lie in what is left of it; those that then touch are one.

    0:10 20:30 without 10:20 -> 0:20

    Args:
        ranges: (N, 2), ascending and apart.
        taken: (T, 2) that are gone, ascending and apart.
    """
    if not len(taken):
        return [(low, high) for low, high in ranges.tolist()]
    ends, sums = taken[:, 1], np.concatenate([[0], np.cumsum(taken[:, 1] - taken[:, 0])])
    numbers = np.searchsorted(ends, ranges, side="right")
    inside = np.append(taken[:, 0], np.iinfo(np.int64).max)[numbers]
    left = np.minimum(ranges, inside) - sums[numbers]
    return merged([(low, high) for low, high in left.tolist() if low < high])


def with_taken(low: int, high: int, taken: NDArray[np.int64]) -> tuple[int, int]:
    """Return where a range of what is left of a text lies in the text itself."""
    sums = np.concatenate([[0], np.cumsum(taken[:, 1] - taken[:, 0])])
    places = taken[:, 0] - sums[:-1]
    begin = low + sums[np.searchsorted(places, low, side="right")]
    end = high + sums[np.searchsorted(places, high, side="left")]
    return int(begin), int(end)


def readable_bytes(text: bytes, first: int, last: int, *, min_bytes: int) -> tuple[int, int] | None:
    """Return the range of bytes that goes, from a border of the text to another, or None.

    White space beside the range may go with it, but no other byte of the text around it.

    Args:
        text: in UTF-8.
        first: the first byte that is repeated, the first of a character.
        last: after the last one, likewise.
        min_bytes: of a repeated string.
    """
    most = min(min(min_bytes, last - first) // _SHRINK, _FARTHEST)
    low = _space_after(text, _first_border(text, first, first + most))
    high = _space_before(text, _last_border(text, last, last - most))
    if low >= high:
        return None
    before, after = _space_before(text, low), _space_after(text, high)
    begins = before == 0 or text.find(b"\n", before, low) >= 0
    ends = after == len(text) or text.find(b"\n", high, after) >= 0
    if begins and ends:
        begin = line_begin(text, low)
        return begin, lines_end(text, high, blank_before=blank_before(text, begin))
    if ends:
        return before, high
    return low, high if before == low else after


def _covered(length: int, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which bytes of a text lie in one of some ranges."""
    steps = np.zeros(length + 1, np.int32)
    np.add.at(steps, starts, 1)
    np.subtract.at(steps, starts + sizes, 1)
    covered: NDArray[np.bool_] = np.cumsum(steps, dtype=np.int32)[:length] > 0
    return covered


def _whole_characters(text: NDArray[np.uint8], low: int, high: int) -> tuple[int, int]:
    while low < high and text[low] & _MASK == _CONTINUED:
        low += 1
    while high < len(text) and low < high and text[high] & _MASK == _CONTINUED:
        high -= 1
    return low, high


def _first_border(text: bytes, first: int, most: int) -> int:
    """Return the first place from one on that begins a line, or else a sentence, a clause, a word."""
    if _space_before(text, first) == 0:
        return first
    begin = _character_at(text, max(0, first - _AROUND))
    around = text[begin : _character_at(text, most)].decode()
    least = len(text[begin:first].decode())
    for border in _BEGINS:
        for found in border.finditer(around):
            if least <= found.end():
                return begin + len(around[: found.end()].encode())
    return first


def _last_border(text: bytes, last: int, least: int) -> int:
    """Return the last place up to one that ends a line, or else a sentence, a clause, a word."""
    if _space_after(text, last) == len(text):
        return last
    begin = _character_at(text, least)
    around = text[begin : _character_at(text, min(len(text), last + _AROUND))].decode()
    most = len(text[begin:last].decode())
    for places in (
        [found.start() for found in _LINE_ENDS.finditer(around)],
        *([found.end() for found in border.finditer(around)] for border in _ENDS),
        [found.start() for found in _WORD_ENDS.finditer(around)],
    ):
        fitting = [place for place in places if place <= most]
        if fitting:
            return begin + len(around[: fitting[-1]].encode())
    return last


def _character_at(text: bytes, place: int) -> int:
    """Return where the character of a place begins."""
    while 0 < place < len(text) and text[place] & _MASK == _CONTINUED:
        place -= 1
    return place


def _space_before(text: bytes, place: int) -> int:
    """Return where the white space before a place begins."""
    while place > 0:
        begin = _character_at(text, max(0, place - _AROUND))
        left = text[begin:place].decode().rstrip()
        if left:
            return begin + len(left.encode())
        place = begin
    return place


def _space_after(text: bytes, place: int) -> int:
    """Return where the white space from a place on ends."""
    while place < len(text):
        end = _character_at(text, min(len(text), place + _AROUND))
        left = text[place:end].decode().lstrip()
        if left:
            return end - len(left.encode())
        place = end
    return place
