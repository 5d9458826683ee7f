"""Fairness: what each language pays for its text in tokens."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class LanguageCounts:
    """What one language's text came to under a tokenizer."""

    documents: int = 0
    bytes: int = 0
    characters: int = 0
    tokens: int = 0
    byte_tokens: int = 0

    def __add__(self, other: "LanguageCounts") -> "LanguageCounts":
        """Return the counts of both texts together."""
        return LanguageCounts(
            self.documents + other.documents,
            self.bytes + other.bytes,
            self.characters + other.characters,
            self.tokens + other.tokens,
            self.byte_tokens + other.byte_tokens,
        )


def fairness(counts: Mapping[str, LanguageCounts]) -> dict[str, dict[str, float]]:
    """Return each language's rates: bytes and characters a token, and the share of byte pieces.

    Few bytes a token mean a long sequence for little text; byte pieces mean characters without a
    piece of their own.
    """
    return {
        language: {
            "bytes": count.bytes,
            "tokens": count.tokens,
            "bytes_per_token": round(count.bytes / count.tokens, 4),
            "characters_per_token": round(count.characters / count.tokens, 4),
            "byte_fallback": round(count.byte_tokens / count.tokens, 6),
        }
        for language, count in sorted(counts.items())
        if count.tokens
    }
