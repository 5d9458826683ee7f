"""Fairness: what each language pays for its text in tokens.

It is measured on text that the tokenizer has not seen. On the sample that it was trained on, its rates
look better than they are.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from stages.tokenizer.encode import Tokenizer

NOTABLE_FALLBACK = 0.1
"""Share of bytes among the tokens of a language of which a run warns."""
_FIRST_OF_CHARACTER = 0xC0


@dataclass(frozen=True)
class LanguageCounts:
    """What one language's text came to under a tokenizer."""

    pieces: int = 0
    bytes: int = 0
    characters: int = 0
    words: int = 0
    """Runs between white space."""
    tokens: int = 0
    byte_tokens: int = 0
    uncovered: int = 0
    """Characters that are written as bytes, because they have no piece."""

    @property
    def byte_fallback(self) -> float:
        """The share of bytes among the tokens."""
        return round(self.byte_tokens / self.tokens, 6)

    def __add__(self, other: "LanguageCounts") -> "LanguageCounts":
        """Return the counts of both texts together."""
        names = [field.name for field in fields(self)]
        return LanguageCounts(*(getattr(self, name) + getattr(other, name) for name in names))


class TextCounter:
    """Counts what texts come to under a tokenizer.

    Args:
        tokenizer: a trained one.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.vocab_size = tokenizer.vocab_size
        self._is_byte = tokenizer.byte_ids()
        self._begins = _begins_character(tokenizer, self._is_byte)

    def count(self, texts: Iterable[str]) -> Iterator[LanguageCounts]:
        """Yield the counts of each text."""
        given = list(texts)
        for text, ids in zip(given, self._tokenizer.encode(given), strict=True):
            yield LanguageCounts(
                pieces=1,
                bytes=len(text.encode()),
                characters=len(text),
                words=len(text.split()),
                tokens=len(ids),
                byte_tokens=int(self._is_byte[ids].sum()),
                uncovered=int(self._begins[ids].sum()),
            )


def _begins_character(tokenizer: Tokenizer, is_byte: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Say of every id whether it is a byte that begins a character: (vocab_size,) bool."""
    found, spelled = is_byte.copy(), tokenizer.piece_bytes()
    for number in np.flatnonzero(is_byte).tolist():
        found[number] = spelled[number][0] & _FIRST_OF_CHARACTER != 0x80  # noqa: PLR2004 - as UTF-8 has it
    return found


def rates_of(counts: LanguageCounts) -> dict[str, float]:
    """Return what a text pays: its tokens, and rates of bytes, characters, words and byte pieces.

    Few bytes a token mean a long sequence for little text; byte pieces mean characters without a
    piece of their own. Words say nothing of languages that are written without spaces.
    """
    return {
        "bytes": counts.bytes,
        "characters": counts.characters,
        "words": counts.words,
        "tokens": counts.tokens,
        "bytes_per_token": round(counts.bytes / counts.tokens, 4),
        "characters_per_token": round(counts.characters / counts.tokens, 4),
        "tokens_per_word": round(counts.tokens / max(counts.words, 1), 4),
        "byte_fallback": counts.byte_fallback,
        "uncovered_characters": round(counts.uncovered / max(counts.characters, 1), 6),
    }
