"""SentencePiece models as they are extended: their words, and the pieces that words give."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from stages.tokenizer.encode import NO_NORMALIZER, Tokenizer
from stages.tokenizer.extension.learning import OldPieces, PieceLearner, PieceLimits
from stages.tokenizer.extension.own_words import own_words
from stages.tokenizer.extension.symbol_words import symbol_words
from stages.tokenizer.extension.words import count_words, rules_of
from stages.tokenizer.sampling import SPACE_SYMBOL
from stages.tokenizer.sentencepiece_model import PieceType, SentencePieceModel
from stages.tokenizer.texts import Encoded, joined_texts

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
        self._tokenizer = Tokenizer(
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

    def _encoded(self, words: Sequence[str]) -> Encoded:
        parts = [word.replace(SPACE_SYMBOL, " ").encode() for word in words]
        return self._tokenizer.encode_texts(joined_texts(parts), dtype=_INT32)
