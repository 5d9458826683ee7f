"""Coverage: which characters get a piece of their own, decided language by language.

Over the whole sample, the rarest characters are those of languages with many characters and little
text: 99.95% of a sample in which Chinese is 3% leave out a fifth of unseen Chinese. So the share is
taken of each language by itself.

    language   characters by count     after 90%
    en         e 500  t 400  q 100     e t
    zh         的 6  是 3  猫 1         的 是
"""

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
