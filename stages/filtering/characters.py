"""Characters and measures: what filters ask of characters, and what texts are made of.

Most classes are those of Unicode's database as Python has it. Two sets are written out below:

    LISTED   what a word of nothing else is no real word for: ASCII punctuation, the marks that CCNet
             normalises (Wenzek et al. 2020, arXiv 1911.00359) and STOP, as FineWeb's pipeline has them
    STOP     what a sentence ends with: Sentence_Terminal of Unicode 15, and three signs of Khmer

Measures of a text: what it is made of, in numbers that can be compared over documents.

    characters         of the whole text
    word_characters    mean length of a word, which is what stands between white space
    line_characters    mean length of a line with something in it, white space counted
    letters, digits, spaces, marks    shares of all characters; vowel signs, as of Hindi, are letters;
                       marks are punctuation and symbols
    capitals           share of the letters
    repeated_lines     share of the characters of such lines, in lines that stand there before
    different_words    share of the words that are different from all before, as they are written

All but the first are of the beginning of a long text. A share of nothing is 0. Gopher's and FineWeb's
filters have rules on numbers of this kind (Rae et al. 2021, arXiv 2112.11446, section A.1.1; Penedo et
al. 2024, arXiv 2406.17557, section 3.6), with words and lines of their own.
"""

import string
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SPACE, EDGE, HYPHEN, ALPHA, LOWER, UPPER, DIGIT, LISTED, STOP, MARK, JOINED = (1 << b for b in range(11))
"""White space; a mark that is no part of the word that it stands before or behind; a dash; a letter, a
small one, a capital; a decimal digit; in the sets above; punctuation or a symbol; a sign that joins the
letter before it, such as a vowel of Hindi."""

_CCNET = """
AB B4 BB 2013-2014 2019 201C-201E 2026 2236 2501 25BA 3001-3002 3008-300D 3010-3011 FF01 FF05
FF08-FF09 FF0C FF0E FF11 FF1A-FF1B FF1F FF5E
"""
"""First and last code points in hexadecimal."""
_STOPS = """
21 2E 3F 589 61D-61F 6D4 700-702 7F9 837 839 83D-83E 964-965 104A-104B 1362 1367-1368 166E 1735-1736
17D4-17D6 17D9-17DA 1803 1809 1944-1945 1AA8-1AAB 1B5A-1B5B 1B5E-1B5F 1B7D-1B7E 1C3B-1C3C 1C7E-1C7F
203C-203D 2047-2049 2E2E 2E3C 2E53-2E54 3002 A4FF A60E-A60F A6F3 A6F7 A876-A877 A8CE-A8CF A92F
A9C8-A9C9 AA5D-AA5F AAF0-AAF1 ABEB FE52 FE56-FE57 FF01 FF0E FF1F FF61 10A56-10A57 10F55-10F59
10F86-10F89 11047-11048 110BE-110C1 11141-11143 111C5-111C6 111CD 111DE-111DF 11238-11239
1123B-1123C 112A9 1144B-1144C 115C2-115C3 115C9-115D7 11641-11642 1173C-1173E 11944 11946
11A42-11A43 11A9B-11A9C 11C41-11C42 11EF7-11EF8 11F43-11F44 16A6E-16A6F 16AF5 16B37-16B38 16B44
16E98 1BC9F 1DA88
"""
_NO_EDGES = "-/@\\|^~+"
"""Marks that stay where they are: options, paths, addresses, C++."""
_HYPHENS = "-~\u2013\u2014"
_CLASSIFIED = 0x40000
"""Code points from here on are unassigned, private, selectors or tags: none is of a class below."""


@cache
def character_flags() -> NDArray[np.uint16]:
    """Return the classes of each code point: (1114112,) uint16."""
    flags = np.zeros(0x110000, np.uint16)
    names = np.zeros(0x110000, "U2")
    names[:_CLASSIFIED] = [unicodedata.category(chr(code)) for code in range(_CLASSIFIED)]
    first = names.astype("U1")
    marks = (first == "P") | (first == "S")
    edges = marks.copy()
    edges[list(map(ord, _NO_EDGES))] = False
    classes = ((EDGE, edges), (ALPHA, first == "L"), (DIGIT, names == "Nd"))
    more = ((MARK, marks), (JOINED, first == "M"))
    for flag, members in (*classes, *more, (LOWER, names == "Ll"), (UPPER, names == "Lu")):
        flags[members] |= flag
    flags[[code for code in range(0x3001) if chr(code).isspace()]] |= SPACE
    flags[list(map(ord, _HYPHENS))] |= HYPHEN
    flags[[*map(ord, string.punctuation), *_codes(_CCNET), *_codes(_STOPS)]] |= LISTED
    flags[list(_codes(_STOPS))] |= STOP
    return flags


def _codes(ranges: str) -> Iterator[int]:
    """Yield the code points of ranges: "2E 30-32" -> 0x2E, 0x30, 0x31, 0x32."""
    for part in ranges.split():
        first, _, last = part.partition("-")
        yield from range(int(first, 16), int(last or first, 16) + 1)


MEASURED_CHARACTERS = 20_000
"""Of the beginning of a text."""


class TextMeasures(NamedTuple):
    """The measures of one text; the docstring of the module says what each is."""

    characters: int
    word_characters: float
    line_characters: float
    letters: float
    capitals: float
    digits: float
    spaces: float
    marks: float
    repeated_lines: float
    different_words: float


def measure_text(text: str) -> TextMeasures:
    """Return the measures of a text."""
    part = text[:MEASURED_CHARACTERS]
    codes = np.frombuffer(part.encode("utf-32-le", "surrogatepass"), np.uint32)
    flags = character_flags()[codes]
    letters, capitals, digits, spaces, marks = (
        int(np.count_nonzero(flags & flag)) for flag in (ALPHA | JOINED, UPPER, DIGIT, SPACE, MARK)
    )
    words = part.split()
    lines = [line for line in part.split("\n") if line.strip()]
    of_lines = sum(map(len, lines))
    return TextMeasures(
        characters=len(text),
        word_characters=_share(sum(map(len, words)), len(words)),
        line_characters=_share(of_lines, len(lines)),
        letters=_share(letters, len(part)),
        capitals=_share(capitals, letters),
        digits=_share(digits, len(part)),
        spaces=_share(spaces, len(part)),
        marks=_share(marks, len(part)),
        repeated_lines=_share(of_lines - sum(map(len, set(lines))), of_lines),
        different_words=_share(len(set(words)), len(words)),
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
