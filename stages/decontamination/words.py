r"""Words: a text as the words that it is compared by, each with where it stands.

A word is a run of letters, digits and marks. Case, width and Unicode form do not matter: each character
is folded (NFKD, case folded), one character at a time. All else parts words. Passed over are

    apostrophes, invisible characters, variation selectors, enclosing marks    don't -> dont
    marks that no letter or digit stands before
    what groups the digits of a number                                         1,200 -> 1200

Each character of a script without spaces (Han, Kana, Thai, Lao, Khmer, Myanmar) is a word.

    "Don't  STOP: the ﬁrst rule!"  ->  dont stop the first rule
    "猫が座る"                      ->  猫 か \u3099 座 る

Words are looked up in the vocabulary of the evaluation sets and compared with it character by character,
so no two different words are taken for the same.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from stages.byte_kernels import EMPTY, code_point, first_slot, fmix64, free_slot, next_slot
from stages.hashing import FNV_OFFSET, FNV_PRIME
from stages.kernels import lean_kernel
from stages.scripts import UNSPACED_RANGES

APART, PART, OWN_WORD, PASSED, MARK = 0, 1, 2, 3, 4
"""What a folded character is: parts words, is part of one, is one alone, is passed over, or is part of
one that has begun and passed over elsewhere."""
ABSENT = -1
"""In place of a word's number, if no evaluation set has it."""
_APOSTROPHES = (
    "'`\u00b4\u02b9\u02bb\u02bc\u02bd\u02ca\u02cb\u055a\u05f3"
    "\u2018\u2019\u201b\u2032\u2035\ua78c\uff07\uff40"
)
_IGNORABLE = ((0x34F, 0x34F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x3164, 0x3164),
              (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xE0100, 0xE01EF))  # fmt: skip
"""Invisible characters that are no format characters: Default_Ignorable_Code_Point of Unicode."""
_GROUPING = re.compile(
    "(?<![0-9]{4})(?<=[0-9])[,\u2009\u202f](?=(?:[0-9]{2}[,\u2009\u202f])*[0-9]{3}(?![0-9]))"
)
"""Between digits: 1 to 3, then groups of 2 or 3, of which the last has 3."""
_COMMA, _THIN, _NARROW = 0x2C, 0x2009, 0x202F
_NUMERIC = frozenset(map(ord, "0123456789,"))
_NOTHING, _OTHER = -1, 0
"""In place of a character: it is passed over, or it is no part of a number."""
_CODES = 0x110000
FoundWords = tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]
"""Words of a text: their numbers, and the bytes where each begins and ends."""


@dataclass(frozen=True, eq=False)
class FoldTables:
    """What each character becomes."""

    single: NDArray[np.int32]
    """(0x110000,) the character that it becomes, or -1 - the place of several in `several`."""
    several: NDArray[np.int32]
    """Their number, then they themselves."""
    kinds: NDArray[np.uint8]
    """(0x110000,) what each folded character is."""


@cache
def folding() -> FoldTables:
    """Return what each character becomes, from the Unicode data of Python."""
    single = np.arange(_CODES, dtype=np.int32)
    several: list[int] = []
    kinds = np.zeros(_CODES, np.uint8)
    for code in range(_CODES):
        character = chr(code)
        if character.isascii() or character.isprintable() or unicodedata.category(character) == "Cf":
            kinds[code] = _kind(character)
            folded = fold(character)
            if kinds[code] == PASSED:
                continue
            folded = " " if folded.startswith(" ") else folded  # an accent with nothing under it
            if len(folded) == 1:
                single[code] = ord(folded)
            elif folded != character:
                single[code] = -1 - len(several)
                several += [len(folded), *map(ord, folded)]
    for first, last in UNSPACED_RANGES:
        own = kinds[first : last + 1]
        own[(own == PART) | (own == MARK)] = OWN_WORD
    return FoldTables(single, np.array(several or [0], np.int32), kinds)


def fold(text: str) -> str:
    """Return a text in the form that is compared: "ﬁRST É" -> "first e\u0301"."""
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    return unicodedata.normalize("NFKD", decomposed)


def _kind(character: str) -> int:
    category, code = unicodedata.category(character), ord(character)
    if (
        character in _APOSTROPHES
        or category in ("Cf", "Me")
        or any(a <= code <= b for a, b in _IGNORABLE)
    ):
        return PASSED
    return {"L": PART, "N": PART, "M": MARK}.get(category[0], APART)


class _FoldedCharacters(dict[int, str]):
    """Each character as `words_of` reads it: folded, with spaces where words are parted."""

    def __missing__(self, code: int) -> str:
        kinds = folding().kinds
        parts = []
        for folded in _folded(code):
            kind = kinds[ord(folded)]
            parts.append({APART: " ", OWN_WORD: f" {folded} ", PASSED: ""}.get(kind, folded))
        self[code] = "".join(parts)
        return self[code]


_MARKS = _FoldedCharacters()


class _NumberParts(dict[int, int | None]):
    """Each character as numbers have it: digits and commas of one width, without what is passed over."""

    def __missing__(self, code: int) -> int | None:
        folded = int(folding().single[code])
        passed = folded >= 0 and folding().kinds[folded] == PASSED
        self[code] = None if passed else folded if folded in _NUMERIC else code
        return self[code]


_NUMBERS = _NumberParts()


def words_of(text: str) -> list[str]:
    """Return the words of a text: the plain statement of what `fill_words` does on bytes."""
    words = _GROUPING.sub("", text.translate(_NUMBERS)).translate(_MARKS).split()
    kinds = folding().kinds
    begun = (
        next((n for n, one in enumerate(word) if kinds[ord(one)] != MARK), len(word)) for word in words
    )
    return [word[start:] for word, start in zip(words, begun, strict=True) if start < len(word)]


def _folded(code: int) -> str:
    tables = folding()
    found = int(tables.single[code])
    if found >= 0:
        return chr(found)
    return "".join(map(chr, tables.several[-found : -found + tables.several[-1 - found]].tolist()))


@dataclass(frozen=True, eq=False)
class KnownWords:
    """The words of the evaluation sets, V of them."""

    codes: NDArray[np.int32]
    """(C,) their characters, word after word."""
    ptr: NDArray[np.int64]
    """(V + 1,) where each begins."""
    table: NDArray[np.int32]
    """(T,) hash table of their numbers."""

    @property
    def longest(self) -> int:
        """Characters of the longest word."""
        return int(np.diff(self.ptr).max(initial=0))


def vocabulary_of(words: list[str]) -> KnownWords:
    """Return the vocabulary of distinct words, numbered as they come."""
    lengths = [len(word) for word in words]
    codes = np.array([ord(character) for word in words for character in word], np.int32)
    ptr = np.cumsum([0, *lengths]).astype(np.int64)
    table = np.full(table_size(len(words)), EMPTY, np.int32)
    _fill_table(codes, ptr, table)
    return KnownWords(codes, ptr, table)


def table_size(entries: int) -> int:
    """Return the size of a hash table: a power of two, at most half full."""
    return 1 << max(4, (2 * entries - 1).bit_length()) if entries else 16


@lean_kernel
def _hash_codes(codes: NDArray[np.int32], begin: int, end: int) -> np.uint64:
    value = FNV_OFFSET
    for place in range(begin, end):
        value = (value ^ np.uint64(codes[place])) * FNV_PRIME
    return fmix64(value)


@lean_kernel
def _fill_table(codes: NDArray[np.int32], ptr: NDArray[np.int64], table: NDArray[np.int32]) -> None:
    for word in range(len(ptr) - 1):
        table[free_slot(_hash_codes(codes, ptr[word], ptr[word + 1]), table)] = word


@lean_kernel
def look_up(
    word: NDArray[np.int32],
    length: int,
    codes: NDArray[np.int32],
    ptr: NDArray[np.int64],
    table: NDArray[np.int32],
) -> int:
    """Return the number of a word, or `ABSENT`; all its characters are compared.

    Args:
        word: its characters, of which the first `length` count.
        length: at most the length of the array.
        codes: as in `KnownWords`.
        ptr: likewise.
        table: likewise.
    """
    slot = first_slot(_hash_codes(word, 0, length), table)
    while table[slot] != EMPTY:
        known = table[slot]
        begin = ptr[known]
        if ptr[known + 1] - begin == length:
            same = True
            for place in range(length):
                if codes[begin + place] != word[place]:
                    same = False
                    break
            if same:
                return int(known)
        slot = next_slot(slot, table)
    return ABSENT


@lean_kernel
def _numeric(code: int, tables: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8]]) -> int:
    """Return the digit that a character is, `_COMMA` for all that groups digits, or what it is else."""
    if code in (_THIN, _NARROW):
        return _COMMA
    folded = int(tables[0][code])
    if folded >= 0 and tables[2][folded] == PASSED:
        return _NOTHING
    return folded if folded == _COMMA or 0x30 <= folded <= 0x39 else _OTHER  # noqa: PLR2004  # 0 to 9


@lean_kernel
def _groups_digits(
    data: NDArray[np.uint8],
    span: tuple[int, int],
    tables: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8]],
    place: int,
    after: int,
) -> bool:
    """Say whether a character groups the digits of a number: the plain statement is `_GROUPING`.

    Args:
        data: (B,) bytes.
        span: where the text begins and ends.
        tables: as in `fill_words`.
        place: where the character begins.
        after: where it ends.
    """
    if _numeric(code_point(data, place)[0], tables) != _COMMA:
        return False
    digits, before = 0, place
    while before > span[0] and digits <= 3:  # noqa: PLR2004  # digits of the first group
        before -= 1
        while data[before] & 0xC0 == 0x80:  # noqa: PLR2004  # in the middle of a character
            before -= 1
        found = _numeric(code_point(data, before)[0], tables)
        if found in (_COMMA, _OTHER):
            break
        digits += int(found != _NOTHING)
    if not 1 <= digits <= 3:  # noqa: PLR2004
        return False
    while True:
        digits, found = 0, _OTHER
        while after < span[1] and digits <= 3:  # noqa: PLR2004
            code, width = code_point(data, after)
            after += width
            found = _numeric(code, tables)
            if found in (_COMMA, _OTHER):
                break
            digits += int(found != _NOTHING)
        if digits != 2 or found != _COMMA:  # noqa: PLR2004  # of a group that is not the last
            return digits == 3  # noqa: PLR2004


@lean_kernel
def _put(
    word: NDArray[np.int32],
    length: int,
    place: tuple[int, int],
    known: tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]],
    out: FoundWords,
    count: int,
) -> int:
    """Write one more word, and return how many there are."""
    ids, begins, ends = out
    ids[count] = ABSENT
    if length < len(word):
        ids[count] = look_up(word, length, known[0], known[1], known[2])
    begins[count], ends[count] = place
    return count + 1


@lean_kernel
def fill_words(  # noqa: C901  # one state machine
    data: NDArray[np.uint8],
    span: tuple[int, int],
    tables: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8]],
    known: tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]],
    word: NDArray[np.int32],
    out: FoundWords,
    count: int,
) -> tuple[int, int]:
    """Read words of valid UTF-8 until the arrays are full or the text ends.

    Args:
        data: (B,) bytes.
        span: where the text, or what is left of it, begins and ends.
        tables: `single`, `several`, `kinds` of `FoldTables`.
        known: `codes`, `ptr`, `table` of `KnownWords`.
        word: scratch, one longer than the longest word that is known.
        out: filled from `count` on: numbers of words, and the bytes where each begins and ends.
        count: words that are there already.

    Returns:
        How many words there are, and the place after them.
    """
    single, several, kinds = tables
    position, last = span
    length, begin, end = 0, position, position
    while position < last:
        start = position
        code, width = code_point(data, position)
        position += width
        first = int(single[code])
        place = -1 - first
        parts = 1 if first >= 0 else int(several[place])
        if count + parts + 1 > len(out[0]):  # room for all that one character may end
            return count, (begin if length else start)
        for part in range(parts):
            folded = first if first >= 0 else int(several[place + 1 + part])
            kind = kinds[folded]
            if kind == APART and length and _groups_digits(data, span, tables, start, position):
                kind = PASSED
            if kind == PART or (kind == MARK and length):
                begin = begin if length else start
                if length < len(word):
                    word[length] = folded
                length, end = length + 1, position
            elif kind not in (PASSED, MARK):
                if length:
                    count, length = _put(word, length, (begin, end), known, out, count), 0
                if kind == OWN_WORD:
                    word[0] = folded
                    count = _put(word, 1, (start, position), known, out, count)
    if length:
        count = _put(word, length, (begin, end), known, out, count)
    return count, position
