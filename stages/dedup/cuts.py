"""Cuts: which bytes of a text go because the same words stand elsewhere, and what is left of it.

Of substrings go the words that a repeated window covers. Each of these words also stands in the first
place of that window. There it is kept, or it goes for a still better place, so one copy of each is kept.
Where a text repeats itself with less than a window between, its first window is kept.

    window of 3    A B C D . . . . A B C D E   ->   the second A B C D goes
    window of 3    A A A A A                   ->   the first A A A is kept

What goes is then made smaller, by a quarter of `min_words` at each end at the most, so that it begins
and ends where lines or sentences do, or clauses of Chinese and Japanese. Of whole lines their line ends
go too, and of the blank lines around them one group stays. No two words that stood apart are joined.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.dedup.spans import WordPlaces  # what is cut is counted in them
from stages.kernels import lean_kernel
from stages.scripts import UNSPACED
from stages.store.ranges import copy_ranges

_SHRINK = 4
_SENTENCE_ENDS = tuple(
    mark.encode() for mark in (".", "!", "?", "\u2026", "\u3002", "\uff01", "\uff1f", "\u0964", "\u061f")
)
"""Of Latin, Chinese and Japanese, Hindi and Arabic."""
_CLAUSE_ENDS = tuple(mark.encode() for mark in ("\uff0c", "\u3001", "\uff1b", "\uff1a"))
"""Of scripts in which each character is a word."""
_CLOSING = (b'"', b"'", b")", b"]", b"\xe2\x80\x9d", b"\xe2\x80\x99", b"\xc2\xbb")
_MARKS = 64
"""Bytes at the end of a word that are looked at: a word may be a file that is encoded."""
_WIDEST = 4
"""Bytes of a character."""
_WIDE_SPACES = b"|".join(chr(code).encode() for code in range(0x80, 0x3001) if chr(code).isspace())
_BLANK = re.compile(rb"(?:[\t-\r\x1c- ]+|" + _WIDE_SPACES + rb")*")
"""White space as words see it."""


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
        words: of the text, those that are still there: what lies between two of them may be gone.
        first: the first word that is repeated.
        last: after the last one.
        min_words: of a repeated string.
    """
    most = min(min_words // _SHRINK, (last - first) // _SHRINK)
    low = _first_border(text, words, first, first + most)
    high = _last_border(text, words, last, last - most)
    low += _would_join(text, words, low, high)
    if low >= high:
        return None
    begin, end = int(words.starts[low]), int(words.ends[high - 1])
    at_end = _new_line(text, words, high)
    if at_end and _new_line(text, words, low):
        begin = line_begin(text, begin)
        return Cut(begin, lines_end(text, end, blank_before=blank_before(text, begin)), first)
    if at_end:
        return Cut(int(words.ends[low - 1]), end, first)
    return Cut(begin, end if _touch(words, low) else int(words.starts[high]), first)


def _new_line(text: bytes, words: WordPlaces, word: int) -> bool:
    """Say whether a line ends before a word, or the text begins or ends there."""
    if word in (0, len(words.starts)):
        return True
    return text.find(b"\n", int(words.ends[word - 1]), int(words.starts[word])) >= 0


def _touch(words: WordPlaces, word: int) -> bool:
    """Say whether no white space stands between a word and the one before it."""
    return 0 < word < len(words.starts) and bool(words.ends[word - 1] == words.starts[word])


def _would_join(text: bytes, words: WordPlaces, low: int, high: int) -> bool:
    """Say whether the words before and after some would become one word."""
    if not _touch(words, low) or not _touch(words, high):
        return False
    return not (_is_own_line(text, words, low - 1) or _is_own_line(text, words, high))


def _is_own_line(text: bytes, words: WordPlaces, word: int) -> bool:
    start, end = int(words.starts[word]), int(words.ends[word])
    return end - start <= _WIDEST and UNSPACED.fullmatch(text[start:end].decode()) is not None


def line_begin(text: bytes, place: int) -> int:
    """Return where the line of a place begins."""
    return text.rfind(b"\n", 0, place) + 1


def blank_before(text: bytes, begin: int) -> bool:
    """Say whether a blank line stands before the line that begins at a place, or nothing."""
    return _is_blank(text, line_begin(text, max(begin - 1, 0)), begin)


def lines_end(text: bytes, place: int, *, blank_before: bool) -> int:
    """Return where lines end that go: after the line of a place.

    Args:
        text: in UTF-8.
        place: in the last line.
        blank_before: whether a blank line stands before them, or nothing; then the blank lines after
            them go too.
    """
    end = _after_line(text, place)
    while blank_before and end < len(text) and _is_blank(text, end, after := _after_line(text, end)):
        end = after
    return end


def uncovered(ranges: NDArray[np.int64], taken: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how much of each range lies in none of others, (R,); the others ascend and are apart.

    0:10 20:30 without 5:8 25:40 -> 7 5

    Args:
        ranges: (R, 2) starts and ends.
        taken: (T, 2).
    """
    lengths: NDArray[np.int64] = ranges[:, 1] - ranges[:, 0]
    if not len(taken):
        return lengths
    sums = np.concatenate([[0], np.cumsum(taken[:, 1] - taken[:, 0])])
    over = np.concatenate([[0], taken[:, 1]])
    numbers = np.searchsorted(taken[:, 0], ranges, side="right")
    before: NDArray[np.int64] = sums[numbers] - np.where(
        numbers, np.maximum(over[numbers] - ranges, 0), 0
    )
    return lengths - (before[:, 1] - before[:, 0])


def outside(
    words: WordPlaces, ranges: NDArray[np.int64], taken: NDArray[np.int64]
) -> tuple[WordPlaces, NDArray[np.int64], NDArray[np.int64]]:
    """Return the words that lie in none of some ranges of bytes, and ranges of words among these.

    Args:
        words: of a text.
        ranges: (R, 2) of words, ascending and apart.
        taken: (T, 2) of bytes, ascending and apart; whole words.

    Returns:
        The words; (S, 2) ranges, ascending and apart, none empty; (S,) the number, among the given
        words, of the word that each begins with.
    """
    over = np.concatenate([[0], taken[:, 1]])
    stay = words.starts >= over[np.searchsorted(taken[:, 0], words.starts, side="right")]
    found = np.concatenate([[0], np.cumsum(stay)])[ranges]
    found = found[found[:, 0] < found[:, 1]]
    apart = np.append(found[1:, 0] > found[:-1, 1], np.ones(min(len(found), 1), np.bool_))  # at the ends
    found = np.column_stack([found[np.roll(apart, 1), 0], found[apart, 1]])
    left = WordPlaces(words.hashes[stay], words.starts[stay], words.ends[stay])
    return left, found, np.flatnonzero(stay)[found[:, 0]]


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
    """Return the first word from one on that begins a line, or else a sentence, or else a clause."""
    for word in range(first, most + 1):
        if _new_line(text, words, word):
            return word
    for ends in (_ends_sentence, _ends_clause):
        for word in range(first, most + 1):
            if ends(text, int(words.starts[word - 1]), int(words.ends[word - 1])):
                return word
    return first


def _last_border(text: bytes, words: WordPlaces, last: int, least: int) -> int:
    """Return the word after the last one that ends a line, or else a sentence, or else a clause."""
    for word in range(last, least - 1, -1):
        if _new_line(text, words, word):
            return word
    for ends in (_ends_sentence, _ends_clause):
        for word in range(last, least - 1, -1):
            if ends(text, int(words.starts[word - 1]), int(words.ends[word - 1])):
                return word
    return last


def _ends_sentence(text: bytes, start: int, end: int) -> bool:
    word = text[max(start, end - _MARKS) : end]
    while word.endswith(_CLOSING):
        word = word[: -next(len(mark) for mark in _CLOSING if word.endswith(mark))]
    return word.endswith(_SENTENCE_ENDS)


def _ends_clause(text: bytes, start: int, end: int) -> bool:
    return text[max(start, end - _WIDEST) : end].endswith(_CLAUSE_ENDS)


def _after_line(text: bytes, place: int) -> int:
    end = text.find(b"\n", place)
    return len(text) if end < 0 else end + 1


def _is_blank(text: bytes, begin: int, end: int) -> bool:
    """Say whether nothing but white space stands between two places."""
    found = _BLANK.match(text, begin, end)
    return found is not None and found.end() == end
