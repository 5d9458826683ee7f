"""Spans: the parts of a text that are compared with parts of other texts, each known by a hash.

    line         what stands between line ends, without white space at its ends
    paragraph    lines that no blank line parts, likewise
    substring    each window of `min_words` words, one beginning at every word

A word is a token of `stages.dedup.shingles`: a run between white space, or one character of a script
that is written without spaces. The n-th span of a text is known by n, its ordinal.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from stages.byte_kernels import code_point, fmix64
from stages.config import Config
from stages.dedup.polynomials import (  # the hashes of all spans
    ONE,
    check_of,
    next_check,
    reduced,
    rolled_check,
    top_powers,
)
from stages.dedup.shingles import KINDS  # one definition of a word for shingles and spans
from stages.hashing import FNV_OFFSET, FNV_PRIME, GOLDEN
from stages.kernels import lean_kernel

_OTHER, _SPACE, _OWN_TOKEN = 0, 1, 2  # as in KINDS
_NEWLINE = 0x0A


class RepeatedLines(Config):
    """Lines or paragraphs that occur in many documents."""

    min_documents: int = Field(10, ge=2)
    """A line or paragraph is cut if it occurs in at least so many documents. The first of them keeps
    it."""
    min_chars: int = Field(60, ge=1)
    """Shortest line or paragraph that is cut, in characters. Short lines, such as imports, stay."""


class RepeatedSubstrings(Config):
    """Strings of words or of bytes that stand more than once."""

    min_words: int = Field(50, ge=10, le=10_000)
    """Shortest string that is cut, in words; a character of a script without spaces is a word."""
    min_bytes: int | None = Field(None, ge=32, le=100_000)
    """In place of `min_words`: shortest string that is cut, in bytes, for code and for scripts without
    spaces. A character of English takes 1 byte, of Russian 2, of Chinese 3."""

    @model_validator(mode="after")
    def _one_unit(self) -> "RepeatedSubstrings":
        if self.min_bytes is not None and "min_words" in self.model_fields_set:
            raise ValueError("min_words and min_bytes exclude each other; give one of them")
        return self

    @model_serializer(mode="wrap")
    def _of_one_unit(self, everything: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Leave out the unit that is not used, so that what is kept of a run can be read again."""
        found: dict[str, object] = everything(self)
        return found if self.min_bytes is None else {"min_bytes": self.min_bytes}


class WordPlaces(NamedTuple):
    """The T words of a text."""

    hashes: NDArray[np.uint64]
    """(T,)"""
    starts: NDArray[np.int64]
    """(T,) where each begins, in bytes."""
    ends: NDArray[np.int64]
    """(T,) where each ends."""


class Spans(NamedTuple):
    """The S spans of a text; the place of a span in the arrays is its ordinal."""

    keys: NDArray[np.uint64]
    """(S,)"""
    checks: NDArray[np.uint32]
    """(S,)"""
    starts: NDArray[np.int64]
    """(S,) where each begins, in bytes; of substrings not filled."""
    ends: NDArray[np.int64]
    """(S,)"""


def words_of(text: NDArray[np.uint8]) -> WordPlaces:
    """Return the words of a text in UTF-8, (B,) uint8."""
    room = len(text) // 2 + 2
    found = WordPlaces(np.empty(room, np.uint64), np.empty(room, np.int64), np.empty(room, np.int64))
    count = _fill_words(text, KINDS, found)
    return WordPlaces(found.hashes[:count], found.starts[:count], found.ends[:count])


def substrings_of(words: WordPlaces, *, min_words: int) -> Spans:
    """Return the windows of a text's words: (max(0, T - min_words + 1),)."""
    count = max(0, len(words.hashes) - min_words + 1)
    keys, checks = np.empty(count, np.uint64), np.empty(count, np.uint32)
    if count:
        _fill_windows(words.hashes, min_words, keys, checks)
    return Spans(keys, checks, words.starts[:count], words.ends[min_words - 1 :])


def lines_of(text: NDArray[np.uint8], *, min_chars: int) -> Spans:
    """Return the lines of a text that have some characters."""
    return _blocks_of(text, min_chars, by_paragraph=False)


def paragraphs_of(text: NDArray[np.uint8], *, min_chars: int) -> Spans:
    """Return the paragraphs of a text that have some characters."""
    return _blocks_of(text, min_chars, by_paragraph=True)


def _blocks_of(text: NDArray[np.uint8], min_chars: int, *, by_paragraph: bool) -> Spans:
    room = int(np.count_nonzero(text == _NEWLINE)) + 1
    found = Spans(
        np.empty(room, np.uint64),
        np.empty(room, np.uint32),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
    )
    count = _fill_blocks(text, KINDS, min_chars, by_paragraph, found)
    return Spans(found.keys[:count], found.checks[:count], found.starts[:count], found.ends[:count])


@lean_kernel
def _fill_words(text: NDArray[np.uint8], kinds: NDArray[np.uint8], words: WordPlaces) -> int:
    """Fill in the words of a text, and return how many there are."""
    count, begin, place = 0, -1, 0
    value = FNV_OFFSET
    while place < len(text):
        code, width = code_point(text, place)
        kind = kinds[code]
        if kind != _OTHER and begin >= 0:
            words.hashes[count], words.starts[count], words.ends[count] = value, begin, place
            count, begin, value = count + 1, -1, FNV_OFFSET
        if kind != _SPACE:
            begin = place if begin < 0 else begin
            for offset in range(width):
                value = (value ^ np.uint64(text[place + offset])) * FNV_PRIME
        place += width
        if kind == _OWN_TOKEN:
            words.hashes[count], words.starts[count], words.ends[count] = value, begin, place
            count, begin, value = count + 1, -1, FNV_OFFSET
    if begin >= 0:
        words.hashes[count], words.starts[count], words.ends[count] = value, begin, place
        count += 1
    return count


@lean_kernel
def _fill_windows(
    hashes: NDArray[np.uint64], size: int, keys: NDArray[np.uint64], checks: NDArray[np.uint32]
) -> None:
    """Hash each window of `size` words: two polynomials that roll from one window to the next."""
    key, check = np.uint64(0), np.uint64(0)
    top, check_top = top_powers(size)
    for word in range(size):
        key = key * GOLDEN + hashes[word]
        check = next_check(check, reduced(hashes[word]))
    for window in range(len(keys)):
        keys[window] = fmix64(key)
        checks[window] = check_of(check)
        if window + size < len(hashes):
            old, new = hashes[window], hashes[window + size]
            key = (key - old * top) * GOLDEN + new
            check = rolled_check(check, reduced(old), reduced(new), check_top)


@lean_kernel
def _fill_blocks(
    text: NDArray[np.uint8],
    kinds: NDArray[np.uint8],
    min_chars: int,
    by_paragraph: bool,  # noqa: FBT001 - a kernel takes no keywords
    spans: Spans,
) -> int:
    """Fill in the lines or paragraphs of a text with `min_chars` characters, and return their number.

    White space at the ends of each line is not hashed; a line end inside a paragraph is.
    """
    count, place = 0, 0
    begin, end, characters = -1, -1, 0  # of the block
    first, second = np.uint64(0), np.uint64(0)
    while place < len(text):
        low, high, place = _line_at(text, kinds, place)
        blank = low == high
        if begin >= 0 and (blank or not by_paragraph):
            count = _close(spans, count, begin, end, characters >= min_chars, first, second)
            begin = -1
        if blank:
            continue
        if begin < 0:
            begin, characters, first, second = low, 0, np.uint64(0), np.uint64(0)
        else:
            first = first * GOLDEN + np.uint64(_NEWLINE + 1)
            second = next_check(second, np.uint64(_NEWLINE + 1))
        for offset in range(low, high):
            symbol = np.uint64(text[offset]) + ONE
            first = first * GOLDEN + symbol
            second = next_check(second, symbol)
            characters += (text[offset] & 0xC0) != 0x80  # noqa: PLR2004 - the first byte of a character
        end = high
    if begin >= 0:
        count = _close(spans, count, begin, end, characters >= min_chars, first, second)
    return count


@lean_kernel
def _line_at(text: NDArray[np.uint8], kinds: NDArray[np.uint8], place: int) -> tuple[int, int, int]:
    """Return where the line at a place begins and ends without white space, and the next line begins."""
    low, high = -1, place
    while place < len(text) and text[place] != _NEWLINE:
        code, width = code_point(text, place)
        if kinds[code] != _SPACE:
            low = place if low < 0 else low
            high = place + width
        place += width
    return (high if low < 0 else low), high, place + 1


@lean_kernel
def _close(
    spans: Spans,
    count: int,
    begin: int,
    end: int,
    long: bool,  # noqa: FBT001 - a kernel takes no keywords
    first: np.uint64,
    second: np.uint64,
) -> int:
    """Fill in one block if it is long enough, and return how many there are."""
    if not long:
        return count
    spans.keys[count] = fmix64(first)
    spans.checks[count] = check_of(second)
    spans.starts[count], spans.ends[count] = begin, end
    return count + 1
