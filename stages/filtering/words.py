r"""Words: what filters count, and their hashes, from a text's UTF-8.

A word is what stands between white space, without the marks around it, each of which is a word of its
own, and without an English ending behind an apostrophe. Two dots or more are one mark. Within, a word is
cut at an ellipsis and at

    a dash between letters               well-known     ->  well - known
    one of : < > = / before a letter     and/or         ->  and / or
    a comma between letters              red,green      ->  red , green
    a full stop before a capital         end.Begin      ->  end . Begin
    one of + - * ^ between digits        25-38          ->  25 - 38

    "It's (no) well-known fact..."  ->  It  's  (  no  )  well  -  known  fact  ...

That is close to what spaCy's tokenizer for English does, by far the slowest part of the filters that use
it. `split_words` says the same in plain Python. A word's hash is a polynomial over its bytes, modulo
2**64, so that the hash of several words put together follows from theirs.
"""

import re

import numpy as np
from numpy.typing import NDArray

from stages.byte_kernels import code_point
from stages.filtering.characters import (
    ALPHA,
    DIGIT,
    EDGE,
    HYPHEN,
    LISTED,
    LOWER,
    SPACE,
    UPPER,
    character_flags,
)
from stages.hashing import GOLDEN
from stages.kernels import lean_kernel

_ONE = np.uint64(1)
ALPHABETIC, REAL = 1, 2
"""Flags of a word: it holds a letter; it holds something that is not listed punctuation."""
_DOT, _COMMA, _APOSTROPHE, _ELLIPSIS, _CURLY = 0x2E, 0x2C, 0x27, 0x2026, 0x2019
_N, _T = 0x6E, 0x74
_BEFORE_LETTERS = (0x3A, 0x3C, 0x3E, 0x3D, 0x2F)
_BETWEEN_DIGITS = (0x2B, 0x2D, 0x2A, 0x5E)
"""Code points of : < > = / and of + - * ^."""
_ENDING = re.compile("(?:n['\u2019]t|['\u2019][A-Za-z]{1,2})\\Z")
_MARKS = re.compile(r"\.{2,}|.", re.DOTALL)
_FIRST_TAIL, _LAST_TAIL = 0x80, 0xBF
WordArrays = tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int32], NDArray[np.uint8]]
"""Of each word: its hash, the base to the power of its bytes, its characters, its flags."""


def split_words(text: str) -> list[str]:
    """Return the words of a text: the plain statement of what the kernels do on bytes."""
    return [word for chunk in text.split() for word in _words_of(chunk)]


def _words_of(chunk: str) -> list[str]:
    """Return the words of what stands between white space."""
    edges = [_is(character, EDGE) for character in chunk]
    if all(edges):
        return _MARKS.findall(chunk)
    first, last = edges.index(False), len(chunk) - edges[::-1].index(False)
    ending = _ENDING.search(chunk, first, last)
    end = ending.start() if ending and ending.start() > first else last
    inner = _cut(chunk[first:end])
    rest = [chunk[end:last]] if end < last else []
    return [*_MARKS.findall(chunk[:first]), *inner, *rest, *_MARKS.findall(chunk[last:])]


def _cut(word: str) -> list[str]:
    """Cut a word at the marks within it."""
    words, start, place = [], 0, 0
    while place < len(word):
        width = _mark_at(word, place)
        if width:
            words += [word[start:place], word[place : place + width]]
            start = place + width
        place += max(1, width)
    return [part for part in (*words, word[start:]) if part]


def _mark_at(word: str, place: int) -> int:
    """Return how many characters at a place are a word of their own; 0 if they are part of one."""
    one = word[place]
    dots = len(word[place:]) - len(word[place:].lstrip("."))
    if one == "\u2026" or dots > 1:
        return max(1, dots)
    before = word[place - 1] if place else " "
    dashes = next((n for n, c in enumerate(word[place:]) if not _is(c, HYPHEN)), len(word) - place)
    after = word[place + 1] if place + 1 < len(word) else " "
    behind = word[place + dashes] if place + dashes < len(word) else " "
    if dashes and _is(before, ALPHA) and _is(behind, ALPHA):
        return dashes
    cut = (
        (ord(one) in _BEFORE_LETTERS and _is(before, ALPHA | DIGIT) and _is(after, ALPHA))
        or (one == "," and _is(before, ALPHA) and _is(after, ALPHA))
        or (one == "." and _is(before, LOWER) and _is(after, UPPER))
        or (ord(one) in _BETWEEN_DIGITS and _is(before, DIGIT) and _is(after, DIGIT))
    )
    return int(cut)


def _is(character: str, flag: int) -> bool:
    return bool(int(character_flags()[ord(character)]) & flag)


@lean_kernel
def _code_before(buffer: NDArray[np.uint8], place: int) -> tuple[int, int]:
    """Return the code point that ends at a place, and how many bytes it has."""
    first = place - 1
    while _FIRST_TAIL <= buffer[first] <= _LAST_TAIL:
        first -= 1
    code, _ = code_point(buffer, first)
    return code, place - first


@lean_kernel
def _flags_at(buffer: NDArray[np.uint8], flags: NDArray[np.uint16], place: int, end: int) -> int:
    """Return the classes of the character at a place; those of a space at the end of a word."""
    if place >= end:
        return SPACE
    code, _ = code_point(buffer, place)
    return int(flags[code])


@lean_kernel
def _dots(buffer: NDArray[np.uint8], place: int, end: int) -> int:
    """Return how many full stops stand at a place."""
    count = 0
    while place + count < end and buffer[place + count] == _DOT:
        count += 1
    return count


@lean_kernel
def _cuts(code: int, before: int, after: int) -> bool:
    """Say whether a mark cuts a word between characters of some classes."""
    if code in _BEFORE_LETTERS:
        return before & (ALPHA | DIGIT) != 0 and after & ALPHA != 0
    if code == _COMMA:
        return before & ALPHA != 0 and after & ALPHA != 0
    if code == _DOT:
        return before & LOWER != 0 and after & UPPER != 0
    return code in _BETWEEN_DIGITS and before & DIGIT != 0 and after & DIGIT != 0


@lean_kernel
def _mark_width(
    buffer: NDArray[np.uint8], flags: NDArray[np.uint16], place: int, start: int, end: int
) -> int:
    """Return how many bytes at a place within a word are a word of their own; 0 if they are not.

    Args:
        buffer: (B,) the text.
        flags: `character_flags()`.
        place: where the mark may be.
        start: of the word.
        end: of the word.
    """
    code, width = code_point(buffer, place)
    kind = int(flags[code])
    if kind & (ALPHA | DIGIT):
        return 0
    if code == _ELLIPSIS:
        return width
    dots = _dots(buffer, place, end)
    if dots > 1:
        return dots
    before = SPACE
    if place > start:
        last, _ = _code_before(buffer, place)
        before = int(flags[last])
    after = _flags_at(buffer, flags, place + width, end)
    if kind & HYPHEN and before & ALPHA:
        behind = place + width
        while _flags_at(buffer, flags, behind, end) & HYPHEN:
            _, wide = code_point(buffer, behind)
            behind += wide
        if _flags_at(buffer, flags, behind, end) & ALPHA:
            return behind - place
    return width if _cuts(code, before, after) else 0


@lean_kernel
def _ending_at(buffer: NDArray[np.uint8], start: int, end: int) -> int:
    """Return where a word's English ending begins: of "don't" at the n, of "it's" at the apostrophe."""
    letters = 0
    while letters < 3 and end - letters > start:  # noqa: PLR2004  # one more than an ending has
        byte = buffer[end - letters - 1] | 0x20
        if not 0x61 <= byte <= 0x7A:  # noqa: PLR2004  # a to z
            break
        letters += 1
    if letters not in (1, 2) or end - letters <= start:
        return end
    code, width = _code_before(buffer, end - letters)
    if code not in (_APOSTROPHE, _CURLY):
        return end
    place = end - letters - width
    if letters == 1 and place > start and buffer[end - 1] == _T and buffer[place - 1] == _N:
        place -= 1
    return place if place > start else end


@lean_kernel
def _put_word(
    buffer: NDArray[np.uint8],
    flags: NDArray[np.uint16],
    start: int,
    end: int,
    count: int,
    found: WordArrays,
) -> int:
    """Write down one word, and return how many there are then; nothing is no word."""
    if start >= end:
        return count
    hashes, powers, lengths, kinds = found
    value, power, length, kind = np.uint64(0), _ONE, 0, 0
    place = start
    while place < end:
        code, width = code_point(buffer, place)
        for offset in range(width):
            value = value * GOLDEN + np.uint64(buffer[place + offset]) + _ONE
            power = power * GOLDEN
        classes = int(flags[code])
        kind |= (ALPHABETIC if classes & ALPHA else 0) | (0 if classes & LISTED else REAL)
        length += 1
        place += width
    hashes[count], powers[count], lengths[count], kinds[count] = value, power, length, kind
    return count + 1


@lean_kernel
def _put_marks(
    buffer: NDArray[np.uint8],
    flags: NDArray[np.uint16],
    start: int,
    end: int,
    count: int,
    found: WordArrays,
) -> int:
    """Write down the marks around a word, each by itself but for dots."""
    place = start
    while place < end:
        _, width = code_point(buffer, place)
        after = place + max(width, _dots(buffer, place, end))
        count = _put_word(buffer, flags, place, after, count, found)
        place = after
    return count


@lean_kernel
def _put_cut(
    buffer: NDArray[np.uint8],
    flags: NDArray[np.uint16],
    start: int,
    end: int,
    count: int,
    found: WordArrays,
) -> int:
    """Write down a word, cut at the marks within it."""
    begin = place = start
    while place < end:
        mark = _mark_width(buffer, flags, place, start, end)
        if mark:
            count = _put_word(buffer, flags, begin, place, count, found)
            count = _put_word(buffer, flags, place, place + mark, count, found)
            begin = place = place + mark
        else:
            _, width = code_point(buffer, place)
            place += width
    return _put_word(buffer, flags, begin, end, count, found)


@lean_kernel
def fill_words(buffer: NDArray[np.uint8], flags: NDArray[np.uint16], found: WordArrays) -> int:
    """Find the words of valid UTF-8, and return how many there are.

    Args:
        buffer: (B,) the text.
        flags: `character_flags()`.
        found: filled, each as long as the text: the hash of each word, the base to the power of its
            bytes, its characters, and `ALPHABETIC` and `REAL`.
    """
    size, count, place = len(buffer), 0, 0
    while place < size:
        code, width = code_point(buffer, place)
        if flags[code] & SPACE:
            place += width
            continue
        end = place + width
        while not _flags_at(buffer, flags, end, size) & SPACE:
            _, width = code_point(buffer, end)
            end += width
        first, last = place, end
        while _flags_at(buffer, flags, first, end) & EDGE:
            _, width = code_point(buffer, first)
            first += width
        while last > first:
            code, width = _code_before(buffer, last)
            if not flags[code] & EDGE:
                break
            last -= width
        ending = _ending_at(buffer, first, last)
        count = _put_marks(buffer, flags, place, first, count, found)
        count = _put_cut(buffer, flags, first, ending, count, found)
        count = _put_word(buffer, flags, ending, last, count, found)
        count = _put_marks(buffer, flags, last, end, count, found)
        place = end
    return count


class Words:
    """The words of a text.

    Args:
        data: the text in UTF-8.
    """

    def __init__(self, data: bytes) -> None:
        buffer = np.frombuffer(data, np.uint8)
        size = len(buffer)  # what is not filled takes nothing
        hashes, powers = np.empty(size, np.uint64), np.empty(size, np.uint64)
        lengths, kinds = np.empty(size, np.int32), np.empty(size, np.uint8)
        count = fill_words(buffer, character_flags(), (hashes, powers, lengths, kinds))
        self.hashes = hashes[:count]
        """(W,) uint64."""
        self.powers = powers[:count]
        """(W,) uint64, the base to the power of each word's bytes."""
        self.lengths = lengths[:count]
        """(W,) int32, characters."""
        self.kinds = kinds[:count]
        """(W,) uint8, `ALPHABETIC` and `REAL`."""


def word_hash(word: str) -> int:
    """Return the hash of one word."""
    value = 0
    for byte in word.encode():
        value = (value * int(GOLDEN) + byte + 1) % (1 << 64)
    return value
