"""Cuts: which bytes of a text go because the same words stand elsewhere, and what is left of it.

Of substrings go the words that a repeated window covers. Each of these words also stands in the first
place of that window. There it is kept, or it goes for a still better place, so one copy of each is kept.
Where a text repeats itself with less than a window between, its first window is kept.

    window of 3    A B C D . . . . A B C D E   ->   the second A B C D goes
    window of 3    A A A A A                   ->   the first A A A is kept

What goes is then made smaller, by a quarter of `min_words` at each end at the most, so that it begins
and ends where lines or sentences do. Of whole lines their line ends go too, and of the blank lines
around them one group stays. No two words that stood apart are joined.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.dedup.spans import WordPlaces  # what is cut is counted in them
from stages.kernels import lean_kernel
from stages.store.ranges import copy_ranges

_SHRINK = 4
_SENTENCE_ENDS = tuple(
    mark.encode() for mark in (".", "!", "?", "\u2026", "\u3002", "\uff01", "\uff1f", "\u0964", "\u061f")
)
"""Of Latin, Chinese and Japanese, Hindi and Arabic."""
_CLOSING = (b'"', b"'", b")", b"]", b"\xe2\x80\x9d", b"\xe2\x80\x99", b"\xc2\xbb")
_BLANK = b" \t\r\f\v"


class Cut(NamedTuple):
    """One range of bytes that goes."""

    start: int
    end: int
    ordinal: int
    """Of the repeated span that it begins with."""


def repeated_words(
    words: int, *, repeats: NDArray[np.int64], firsts: NDArray[np.int64], min_words: int
) -> NDArray[np.int64]:
    """Return the ranges of words that go: (R, 2).

    Args:
        words: of the text.
        repeats: (N,) ascending, the ordinals of windows whose first place is elsewhere.
        firsts: (N,) the ordinals of these first places in the same text; -1 in another text.
        min_words: of a window.
    """
    marks = np.zeros(words, np.uint8)
    _mark(marks, repeats, min_words, 1)
    overlapping = (firsts >= 0) & (repeats - firsts < min_words)
    _mark(marks, np.unique(firsts[overlapping]), min_words, 0)
    edges = np.diff(marks.astype(np.int8), prepend=0, append=0)
    return np.column_stack([np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)])


@lean_kernel
def _mark(marks: NDArray[np.uint8], windows: NDArray[np.int64], size: int, value: int) -> None:
    """Mark the words of windows, each word once."""
    done = 0
    for window in windows:
        done = max(done, window)
        while done < window + size:
            marks[done] = value
            done += 1


def readable_cut(text: bytes, words: WordPlaces, first: int, last: int, *, min_words: int) -> Cut | None:
    """Return the bytes of words [first, last) that go, from a border of the text to another, or None.

    Args:
        text: in UTF-8.
        words: of the text.
        first: the first word that is repeated.
        last: after the last one.
        min_words: of a repeated string.
    """
    most = min(min_words // _SHRINK, (last - first) // _SHRINK)
    low = _first_border(text, words, first, first + most)
    high = _last_border(text, words, last, last - most)
    low += _would_join(words, low, high)
    if low >= high:
        return None
    begin, end = int(words.starts[low]), int(words.ends[high - 1])
    at_begin, at_end = begins_line(text, begin), ends_line(text, end)
    if at_begin and at_end:
        begin = line_begin(text, begin)
        return Cut(begin, lines_end(text, begin, end), first)
    if at_end:
        return Cut(int(words.ends[low - 1]), end, first)
    touches = low > 0 and words.ends[low - 1] == begin  # then the white space after it must stay
    return Cut(begin, int(words.ends[high - 1] if touches else words.starts[high]), first)


def _would_join(words: WordPlaces, low: int, high: int) -> bool:
    """Say whether the words before and after some would stand together without white space."""
    if low == 0 or high == len(words.starts):
        return False
    return bool(words.ends[low - 1] == words.starts[low] and words.ends[high - 1] == words.starts[high])


def line_begin(text: bytes, place: int) -> int:
    """Return where the line of a place begins."""
    return text.rfind(b"\n", 0, place) + 1


def lines_end(text: bytes, begin: int, place: int) -> int:
    """Return where lines end that go: after the line of a place.

    Where a blank line stands before them, or nothing, the blank lines after them go too.

    Args:
        text: in UTF-8.
        begin: of the first line.
        place: in the last line.
    """
    end = _after_line(text, place)
    if not text[line_begin(text, max(begin - 1, 0)) : begin].strip():
        while end < len(text) and not text[end : (after := _after_line(text, end))].strip():
            end = after
    return end


def begins_line(text: bytes, place: int) -> bool:
    """Say whether nothing but white space stands before a place in its line."""
    return not text[line_begin(text, place) : place].strip(_BLANK)


def ends_line(text: bytes, place: int) -> bool:
    """Say whether nothing but white space stands after a place in its line."""
    end = text.find(b"\n", place)
    return not text[place : len(text) if end < 0 else end].strip(_BLANK)


def left_out(
    ranges: Sequence[tuple[int, int]], taken: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return what of some ranges lies in none of others; both ascend, and none overlap in itself.

    0:10 20:30 without 5:8 25:40 -> 0:5 8:10 20:25
    """
    found, others = [], list(taken)
    for start, end in ranges:
        place = start
        for low, high in others:
            if high <= place or low >= end:
                continue
            if low > place:
                found.append((place, low))
            place = max(place, high)
        if place < end:
            found.append((place, end))
    return found


def merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges as few that neither overlap nor touch, ascending."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def without(text: NDArray[np.uint8], ranges: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return a text without some ranges of bytes, (R, 2), ascending and apart."""
    begins = np.concatenate([[0], ranges[:, 1]])
    lengths = np.concatenate([ranges[:, 0], [len(text)]]) - begins
    places = np.cumsum(lengths) - lengths
    left = np.empty(int(lengths.sum()), np.uint8)
    copy_ranges(text, left, begins, places, lengths)
    return left


def _first_border(text: bytes, words: WordPlaces, first: int, most: int) -> int:
    """Return the first word from one on that begins a line, or else a sentence, or else that word."""
    starts = [int(words.starts[word]) for word in range(first, most + 1)]
    for offset, start in enumerate(starts):
        if begins_line(text, start):
            return first + offset
    for word in range(first, most + 1):
        if word == 0 or _ends_sentence(text, int(words.starts[word - 1]), int(words.ends[word - 1])):
            return word
    return first


def _last_border(text: bytes, words: WordPlaces, last: int, least: int) -> int:
    """Return the word after the last one that ends a line, or else a sentence, or else the last one."""
    for word in range(last, least - 1, -1):
        if ends_line(text, int(words.ends[word - 1])):
            return word
    for word in range(last, least - 1, -1):
        if _ends_sentence(text, int(words.starts[word - 1]), int(words.ends[word - 1])):
            return word
    return last


def _ends_sentence(text: bytes, start: int, end: int) -> bool:
    word = text[start:end]
    while word.endswith(_CLOSING):
        word = word[: -next(len(mark) for mark in _CLOSING if word.endswith(mark))]
    return word.endswith(_SENTENCE_ENDS)


def _after_line(text: bytes, place: int) -> int:
    end = text.find(b"\n", place)
    return len(text) if end < 0 else end + 1
