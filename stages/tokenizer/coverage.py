"""Coverage: which characters get a piece of their own, and the blocks by which they are counted.

Over the whole sample, the rarest characters are those of languages with many characters and little
text: 99.95% of a sample in which Chinese is 3% leave out a fifth of unseen Chinese. So the share is
taken of each language by itself.

    language   characters by count     after 90%
    en         e 500  t 400  q 100     e t
    zh         的 6  是 3  猫 1         的 是

Blocks: the characters of the scripts in wide use, by which coverage is counted.

Source: the Unicode Standard, Blocks.txt. Blocks of one script are put together. What Python's own
version of Unicode does not know is left out.
"""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping

import numpy as np

from stages.tokenizer.sampling import SPACE_SYMBOL, UNKNOWN_SYMBOL

_NO_PIECES = frozenset(map(ord, ("\0", " ", SPACE_SYMBOL, UNKNOWN_SYMBOL)))
"""A space is written as its symbol, and the two symbols themselves as bytes."""


class CharacterCounts:
    """How often each character stands in the text of each language."""

    def __init__(self) -> None:
        self._counts: defaultdict[str, Counter[int]] = defaultdict(Counter)

    def add(self, language: str, text: str) -> None:
        """Count the characters of a text."""
        codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        found, counts = np.unique(codes, return_counts=True)
        self._counts[language].update(dict(zip(found.tolist(), counts.tolist(), strict=True)))

    def by_language(self) -> Mapping[str, Mapping[int, int]]:
        """Return the counts by code point."""
        return self._counts


def required_characters(
    counts: Mapping[str, Mapping[int, int]], *, coverage: float, most: int
) -> tuple[str, float]:
    """Return the characters that cover a share of each language, and the share that they cover.

    The characters of a language are taken from the most frequent on, until they are that share of its
    text. If all languages together need more than `most` characters, the share is lowered for all alike.

    Args:
        counts: of each language, by code point.
        coverage: the share that is wanted, of 1.
        most: characters that there is room for.

    Returns:
        The characters, ascending by code point, and `coverage` or the share that there is room for.
    """
    needed: dict[int, float] = {}
    """The least share for which each character is needed by a language."""
    for language in sorted(counts):
        own = {code: count for code, count in counts[language].items() if code not in _NO_PIECES}
        total, before = sum(own.values()), 0
        for code, count in sorted(own.items(), key=lambda item: (-item[1], item[0])):
            share = before / total
            needed[code] = min(share, needed.get(code, share))
            before += count
    ordered = sorted((share, code) for code, share in needed.items() if share < coverage)
    reached = ordered[most][0] if len(ordered) > most else coverage
    return "".join(map(chr, sorted(code for _, code in ordered[:most]))), reached


BLOCKS: Mapping[str, tuple[tuple[int, int], ...]] = {
    "ASCII": ((0x20, 0x7E),),
    "Latin-1": ((0xA0, 0xFF),),
    "Latin Extended-A": ((0x100, 0x17F),),
    "Latin, other": ((0x180, 0x24F), (0x1E00, 0x1EFF)),
    "phonetic": ((0x250, 0x2AF),),
    "combining marks": ((0x300, 0x36F),),
    "Greek": ((0x370, 0x3FF),),
    "Cyrillic": ((0x400, 0x4FF),),
    "Armenian": ((0x530, 0x58F),),
    "Hebrew": ((0x590, 0x5FF),),
    "Arabic": ((0x600, 0x6FF),),
    "Devanagari": ((0x900, 0x97F),),
    "Bengali": ((0x980, 0x9FF),),
    "Gurmukhi": ((0xA00, 0xA7F),),
    "Gujarati": ((0xA80, 0xAFF),),
    "Tamil": ((0xB80, 0xBFF),),
    "Telugu": ((0xC00, 0xC7F),),
    "Kannada": ((0xC80, 0xCFF),),
    "Malayalam": ((0xD00, 0xD7F),),
    "Sinhala": ((0xD80, 0xDFF),),
    "Thai": ((0xE00, 0xE7F),),
    "Lao": ((0xE80, 0xEFF),),
    "Tibetan": ((0xF00, 0xFFF),),
    "Burmese": ((0x1000, 0x109F),),
    "Georgian": ((0x10A0, 0x10FF),),
    "Ethiopic": ((0x1200, 0x137F),),
    "Khmer": ((0x1780, 0x17FF),),
    "punctuation": ((0x2010, 0x2027), (0x2030, 0x205E), (0x3000, 0x303F)),
    "currency": ((0x20A0, 0x20CF),),
    "letters, arrows, mathematics": ((0x2100, 0x214F), (0x2190, 0x22FF)),
    "Hiragana, Katakana": ((0x3040, 0x30FF),),
    "Chinese characters": ((0x4E00, 0x9FFF),),
    "Chinese, extension A": ((0x3400, 0x4DBF),),
    "Hangul syllables": ((0xAC00, 0xD7A3),),
    "full-width forms": ((0xFF00, 0xFFEF),),
    "emoji": ((0x2600, 0x27BF), (0x1F300, 0x1F64F), (0x1F680, 0x1F6FF), (0x1F900, 0x1F9FF)),
}
_NOT_WRITTEN = frozenset({"Cc", "Cn", "Co", "Cs"})


def characters_of(block: str) -> list[str]:
    """Return the assigned characters of a block, ascending."""
    points = (chr(point) for first, last in BLOCKS[block] for point in range(first, last + 1))
    return [one for one in points if unicodedata.category(one) not in _NOT_WRITTEN]
