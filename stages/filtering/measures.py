"""Measures of a text: what it is made of, in numbers that can be compared over documents.

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

from typing import NamedTuple

import numpy as np

from stages.filtering.characters import ALPHA, DIGIT, JOINED, MARK, SPACE, UPPER, character_flags

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
