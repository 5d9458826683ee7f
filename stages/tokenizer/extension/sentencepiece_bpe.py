"""Extension of SentencePiece's BPE models.

A model merges any two symbols that spell a piece, the one of the highest score first. So the scores of
new pieces are below those of all old ones. A text is merged by the old pieces to the end, as before, and
then by the new ones. But a new piece and its neighbour may spell an old piece, which then comes first.
So the new model itself is asked which of its pieces texts give.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from stages.tokenizer.encode import NO_NORMALIZER, Tokenizer
from stages.tokenizer.extension.extended import Extension, fit_pieces
from stages.tokenizer.extension.learning import NewPiece, OldPieces, PieceLearner, PieceLimits
from stages.tokenizer.extension.own_words import own_words
from stages.tokenizer.extension.sentencepiece_append import append_pieces, scores_below
from stages.tokenizer.extension.symbol_words import symbol_words
from stages.tokenizer.extension.words import count_words, rules_of
from stages.tokenizer.sampling import SPACE_SYMBOL
from stages.tokenizer.sentencepiece_model import PieceType, SentencePieceModel
from stages.tokenizer.texts import Encoded, joined_texts

_INT32 = np.dtype(np.int32)
_NEVER = (PieceType.UNKNOWN, PieceType.CONTROL, PieceType.BYTE)
"""Types of pieces that a text does not give by its characters."""


class SentencePieceBpe:
    """A SentencePiece BPE model that pieces are appended to.

    Args:
        data: the model.
    """

    def __init__(self, data: bytes) -> None:
        self._model = SentencePieceModel(data)
        self._rules = rules_of(self._model)
        self._own = sentencepiece.SentencePieceProcessor(model_proto=data)
        self.size = len(self._model.types)

    def count(self, texts: Iterable[str]) -> Counter[str]:
        """Return how often each word stands in texts."""
        normalise = self._own.normalize
        return count_words((normalise(text.replace(SPACE_SYMBOL, "\n")) for text in texts), self._rules)

    def extend(self, words: Sequence[Mapping[str, int]], wanted: int, *, max_drift: float) -> Extension:
        """Return the model with further pieces, as many from each language's words as from another's.

        Args:
            words: how often each word stands in the text of each language, and at last in old text.
            wanted: pieces.
            max_drift: share of the tokens of old text that may change, for each language.
        """
        model = self._model
        *new, old_words = words
        words = [*(own_words(one, old_words) for one in new), old_words]
        total = sum((Counter(own) for own in words[:-1]), Counter[str]())
        plain = _PlainModel(model.data)
        characters = plain.without_piece({character for word in total for character in word})
        never = np.isin(model.types, _NEVER)
        spelled = [b"" if no else text for text, no in zip(model.texts, never.tolist(), strict=True)]
        taken = {model.texts[number] for number in np.flatnonzero(never).tolist()}
        old = OldPieces(spelled, [one.encode() for one in characters], taken, joins=True)
        symbols = symbol_words(words, plain.ids, characters, first=self.size)
        learner = PieceLearner(old, symbols, PieceLimits(self._rules.longest, max_drift))
        return fit_pieces(
            learner,
            wanted,
            made=self._with,
            uses=lambda data, count: _PlainModel(data).uses(total)[-count:],
        )

    def _with(self, pieces: Sequence[NewPiece]) -> bytes:
        scores = scores_below(self._model, len(pieces))
        contents = (piece.content for piece in pieces)
        return append_pieces(self._model, list(zip(contents, scores, strict=True)))


class _PlainModel:
    """The pieces of a model, without its normaliser."""

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
        """Return the characters that have no piece."""
        ordered = sorted(characters)
        return [
            one for one, ids in zip(ordered, self.ids(ordered), strict=True) if self._never[ids].all()
        ]

    def _encoded(self, words: Sequence[str]) -> Encoded:
        parts = [word.replace(SPACE_SYMBOL, " ").encode() for word in words]
        return self._tokenizer.encode_texts(joined_texts(parts), dtype=_INT32)
