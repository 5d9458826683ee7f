"""Fairness: what each language pays for its text in tokens.

It is measured on text that the tokenizer has not seen. On the sample that it was trained on, its rates
look better than they are.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from stages.tokenizer.codec import Codec
from stages.tokenizer.texts import joined_texts

NOTABLE_FALLBACK = 0.1
"""Share of bytes among the tokens of a language of which a run warns."""
_INT32 = np.dtype(np.int32)
_ASCII_BYTES = 0x80


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
    """Tokens that stand for bytes, or spell parts of characters."""
    uncovered: int = 0
    """Characters without a piece: written as bytes, in parts, or as the unknown token."""
    unknown: int = 0
    """Tokens that are the unknown one."""

    @property
    def byte_fallback(self) -> float:
        """The share of bytes among the tokens."""
        return round(self.byte_tokens / max(self.tokens, 1), 6)

    def __add__(self, other: "LanguageCounts") -> "LanguageCounts":
        """Return the counts of both texts together."""
        names = [field.name for field in fields(self)]
        return LanguageCounts(*(getattr(self, name) + getattr(other, name) for name in names))


class TextCounter:
    """Counts what texts come to under a tokenizer.

    SentencePiece writes characters without a piece as byte pieces. A byte-level tokenizer has no such
    pieces: there, tokens count that begin or end inside a character. What has neither gives an unknown
    token, often for many characters at once, so each character is also encoded alone.

    Args:
        codec: of any kind.
    """

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        spelled = codec.piece_bytes()
        self.vocab_size = len(spelled)
        self._in_bytes, self._opens = _parts_of_characters(spelled, codec.byte_ids())
        self._is_unknown: dict[str, bool] = {}

    def count(self, texts: Iterable[str]) -> Iterator[LanguageCounts]:
        """Yield the counts of each text."""
        given = list(texts)
        for text, ids in zip(given, self._ids(given), strict=True):
            unknown = 0 if self._codec.unk is None else int((ids == self._codec.unk).sum())
            yield LanguageCounts(
                pieces=1,
                bytes=len(text.encode()),
                characters=len(text),
                words=len(text.split()),
                tokens=len(ids),
                byte_tokens=int(self._in_bytes[ids].sum()),
                uncovered=int(self._opens[ids].sum()) + (self._unknown_in(text) if unknown else 0),
                unknown=unknown,
            )

    def _ids(self, texts: list[str]) -> list[NDArray[np.integer]]:
        joined = joined_texts([text.encode() for text in texts])
        return self._codec.encode_texts(joined, dtype=_INT32).parts()

    def _unknown_in(self, text: str) -> int:
        """Return how many characters of a text are unknown when they stand alone."""
        new = sorted(set(text) - self._is_unknown.keys())
        for character, ids in zip(new, self._ids(new), strict=True):
            self._is_unknown[character] = bool((ids == self._codec.unk).any())
        return sum(map(self._is_unknown.__getitem__, text))


def byte_tokens(codec: Codec) -> NDArray[np.bool_]:
    """Say of every id whether it is a byte, or begins or ends inside a character: (vocab_size,)."""
    return _parts_of_characters(codec.piece_bytes(), codec.byte_ids())[0]


def _parts_of_characters(
    spelled: list[bytes], is_byte: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Say of every id whether it is less than whole characters, and whether a character begins so in it.

    Returns:
        (V,) bool and (V,) bool. Of the tokens that a split character takes, one begins it.
    """
    parts, opens = is_byte.copy(), np.zeros(len(spelled), np.bool_)
    for number, data in enumerate(spelled):
        if is_byte[number] and data:
            opens[number] = not _continues(data[0])
        elif not _is_whole(data):
            parts[number] = True
            last = next((byte for byte in reversed(data) if not _continues(byte)), None)
            opens[number] = last is not None and not _is_whole(data[data.rindex(last) :])
    return parts, opens


def _continues(byte: int) -> bool:
    """Say whether a byte continues a character, as UTF-8 has it."""
    return byte & 0xC0 == _ASCII_BYTES


def _is_whole(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


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
        "bytes_per_token": round(counts.bytes / max(counts.tokens, 1), 4),
        "characters_per_token": round(counts.characters / max(counts.tokens, 1), 4),
        "tokens_per_word": round(counts.tokens / max(counts.words, 1), 4),
        "byte_fallback": counts.byte_fallback,
        "uncovered_characters": round(counts.uncovered / max(counts.characters, 1), 6),
    }
