"""Own words: those that hold a character which old text has hardly ever.

Korean text about software is full of English names. Pieces for them would change English text, and help
Korean little. So where most words of a language have characters of their own, pieces are learned from
these words alone, and from these without the letters that others have.

    ko    한국어 9  Office 5  Office에서 3     most have a character of their own:   한국어 9  에서 3
    fi    talo 9  yö 1                       few have:                             all of them
"""

import re
from collections import Counter
from collections.abc import Mapping

_RARE = 0.01
"""A character is a language's own if its share in old text is at most this part of its share there."""
_MOST = 0.5
"""The share of words with a character of their own above which they alone are learned from."""


def own_words(words: Mapping[str, int], old: Mapping[str, int]) -> Mapping[str, int]:
    """Return the words of a language's text to learn from, with their counts.

    Args:
        words: of the text.
        old: words of old text.
    """
    counts, others = _characters(words), _characters(old)
    bound, total = _RARE * sum(others.values()), sum(counts.values())
    own = {one for one, count in counts.items() if others[one] * total <= bound * count}
    chosen = {word: count for word, count in words.items() if not own.isdisjoint(word)}
    if sum(chosen.values()) <= _MOST * sum(words.values()):
        return words
    letters = sorted(one for one in counts.keys() - own if one.isalpha())
    cut = re.compile(f"[{''.join(map(re.escape, letters))}]+" if letters else r"(?!)")
    found = Counter[str]()
    for word, count in chosen.items():
        for part in cut.split(word):
            found[part] += 0 if own.isdisjoint(part) else count
    return +found


def _characters(words: Mapping[str, int]) -> Counter[str]:
    found = Counter[str]()
    for word, count in words.items():
        for character in word:
            found[character] += count
    return found
