"""SentencePiece models as they are extended: their words, and the pieces that words give.

Words as symbols: the ids that a tokenizer gives, and characters that it has no piece for.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from stages.tokenizer.encode import NO_NORMALIZER, SentencePieceCodec
from stages.tokenizer.extension.learning import (
    OldPieces,
    PieceLearner,
    PieceLimits,
    SymbolWords,
    own_words,
)
from stages.tokenizer.extension.words import count_words, rules_of
from stages.tokenizer.sampling import SPACE_SYMBOL
from stages.tokenizer.sentencepiece_model import PieceType, SentencePieceModel
from stages.tokenizer.texts import TextIds, joined_texts

EncodeParts = Callable[[Sequence[str]], list[NDArray[np.integer]]]
"""Gives the ids of each of some parts of words, of which every character has a piece."""


def symbol_words(
    counts: Sequence[Mapping[str, int]], encode: EncodeParts, characters: Sequence[str], *, first: int
) -> SymbolWords:
    """Return words as symbols.

    Args:
        counts: how often each word stands in the text of each of L languages.
        encode: gives the ids of parts of words.
        characters: without a piece.
        first: the symbol of the first of these.
    """
    words = sorted(set().union(*counts))
    number_of = {character: first + n for n, character in enumerate(characters)}
    cut = re.compile(f"([{''.join(map(re.escape, characters))}])") if characters else None
    parts = [[word] if cut is None else [part for part in cut.split(word) if part] for word in words]
    distinct = sorted({part for own in parts for part in own if part not in number_of})
    ids = dict(zip(distinct, encode(distinct), strict=True))
    ids |= {one: np.array([number], np.int32) for one, number in number_of.items()}
    arrays = [
        ids[own[0]] if len(own) == 1 else np.concatenate([ids[part] for part in own]) for own in parts
    ]
    sizes = np.fromiter(map(len, arrays), np.int64, len(arrays))
    weights = np.array([[own.get(word, 0) for own in counts] for word in words], np.int64)
    symbols = np.concatenate([np.empty(0, np.int32), *arrays]).astype(np.int32)
    kept = sizes > 0
    return SymbolWords(symbols, sizes[kept], weights.reshape(-1, len(counts))[kept])


_INT32 = np.dtype(np.int32)
_NEVER = (PieceType.UNKNOWN, PieceType.CONTROL, PieceType.BYTE)
"""Types of pieces that a text does not give by its characters."""


class SentencePieceWords:
    """A SentencePiece model, and the words of texts.

    Args:
        data: the model.
    """

    def __init__(self, data: bytes) -> None:
        self.model = SentencePieceModel(data)
        self.size = len(self.model.types)
        self._rules = rules_of(self.model)
        self._own = sentencepiece.SentencePieceProcessor(model_proto=data)

    def count(self, texts: Iterable[str]) -> Counter[str]:
        """Return how often each word stands in texts."""
        normalise = self._own.normalize
        return count_words((normalise(text.replace(SPACE_SYMBOL, "\n")) for text in texts), self._rules)

    def learner(
        self, words: Sequence[Mapping[str, int]], *, max_drift: float
    ) -> tuple[PieceLearner, list[Mapping[str, int]]]:
        """Return what learns pieces, and the words of each language that it learns from.

        Args:
            words: of each language, and at last of old text.
            max_drift: share of the tokens of old text that may change, for each language.
        """
        *new, old_words = words
        chosen = [own_words(one, old_words) for one in new]
        plain, model = PlainModel(self.model.data), self.model
        characters = plain.without_piece({c for own in chosen for word in own for c in word})
        never = np.isin(model.types, _NEVER)
        old = OldPieces(
            [b"" if no else text for text, no in zip(model.texts, never.tolist(), strict=True)],
            [one.encode() for one in characters],
            {model.texts[number] for number in np.flatnonzero(never).tolist()},
            joins=True,
            in_bytes=bool((model.types == PieceType.BYTE).any()),
        )
        symbols = symbol_words([*chosen, old_words], plain.ids, characters, first=self.size)
        return PieceLearner(old, symbols, PieceLimits(self._rules.longest, max_drift)), chosen


class PlainModel:
    """The pieces of a model, without its normaliser.

    Args:
        data: the model.
    """

    def __init__(self, data: bytes) -> None:
        model = SentencePieceModel(data)
        self._size = len(model.types)
        self._never = np.isin(model.types, _NEVER)
        self._codec = SentencePieceCodec(
            sentencepiece.SentencePieceProcessor(model_proto=data + NO_NORMALIZER)
        )

    def ids(self, words: Sequence[str]) -> list[NDArray[np.integer]]:
        """Return the ids of each word, which has U+2581 for a space."""
        return self._encoded(words).parts()

    def uses(self, words: Mapping[str, int]) -> NDArray[np.int64]:
        """Return how often words, each with its count, give each id: (V,)."""
        encoded = self._encoded(list(words))
        weights = np.repeat(np.fromiter(words.values(), np.int64, len(words)), encoded.counts)
        found = np.zeros(self._size, np.int64)
        np.add.at(found, encoded.ids, weights)
        return found

    def without_piece(self, characters: Iterable[str]) -> list[str]:
        """Return the characters that have no piece, sorted."""
        ordered = sorted(characters)
        return [
            one for one, ids in zip(ordered, self.ids(ordered), strict=True) if self._never[ids].all()
        ]

    def _encoded(self, words: Sequence[str]) -> TextIds:
        parts = [word.replace(SPACE_SYMBOL, " ").encode() for word in words]
        return self._codec.encode_texts(joined_texts(parts), dtype=_INT32)
