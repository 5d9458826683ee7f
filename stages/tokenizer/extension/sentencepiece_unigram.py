"""Extension of SentencePiece's unigram models: old scores stay, new pieces get theirs from new text.

A model writes a word with the pieces whose scores, logarithms of probabilities, have the greatest sum.
Candidates are learned as for BPE, more of them than are wanted. The score of each is the logarithm of
its share of the tokens of its language. Then words are encoded anew and the shares counted again, a few
times. Those that save most are kept, and their scores are estimated again.

    old     _한 -9.1   국 -8.7   어 -8.9
    new     한국, 4 of 1,000 tokens   ->   ln 0.004 = -5.5

No score is below the lowest old one, because the model derives from that what an unknown character
costs. So old text is encoded otherwise only where it holds a new piece.

Source: Kudo 2018, "Subword Regularization" (arXiv 1804.10959), section 3.2; here only the best way to
encode a word is counted.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from stages.tokenizer.extension.extended import Extension, too_few
from stages.tokenizer.extension.learning import NewPiece
from stages.tokenizer.extension.sentencepiece_append import append_pieces, lowest_score
from stages.tokenizer.extension.sentencepiece_pieces import PlainModel, SentencePieceWords

_MORE = 1.5
"""Candidates for each piece that is wanted."""
_ROUNDS = 3
"""Times that scores are estimated."""
_SWAPS = 8
"""Times that pieces which no text gives are replaced."""
_LEAST = 0.5
"""Counted for a piece that no text gives."""


class SentencePieceUnigram:
    """A SentencePiece unigram model that pieces are appended to.

    Args:
        data: the model.
    """

    def __init__(self, data: bytes) -> None:
        self._words = SentencePieceWords(data)
        self._lowest = lowest_score(self._words.model)
        self.size = self._words.size

    def count(self, texts: Iterable[str]) -> Counter[str]:
        """Return how often each word stands in texts."""
        return self._words.count(texts)

    def extend(self, words: Sequence[Mapping[str, int]], wanted: int, *, max_drift: float) -> Extension:
        """Return the model with further pieces; see `Extendable.extend`.

        Raises:
            ConfigError: the text does not give so many pieces.
        """
        learner, chosen = self._words.learner(words, max_drift=max_drift)
        candidates = learner.learn(int(_MORE * wanted) + 1)
        if len(candidates) < wanted:
            raise too_few(wanted, len(candidates))
        tokens = np.array([max(1, PlainModel(self._words.model.data).uses(own).sum()) for own in chosen])
        counts = np.array([piece.times for piece in candidates], np.float64)
        _, uses = self._estimated(candidates, counts / _of(candidates, tokens), chosen)
        shares, rest = np.maximum(uses, _LEAST) / _of(candidates, tokens), set[int]()
        for _ in range(_SWAPS):
            kept = _most_saving(candidates, uses, wanted, without=rest)
            pieces = [candidates[n] for n in kept]
            data, uses_of_kept = self._estimated(pieces, shares[kept], chosen)
            unused = {n for n, count in zip(kept, uses_of_kept.tolist(), strict=True) if not count}
            rest |= unused
            if not unused or len(candidates) - len(rest) < wanted:
                break
        return Extension(data, pieces, uses_of_kept, len(rest - set(kept)))

    def _estimated(
        self,
        pieces: Sequence[NewPiece],
        shares: NDArray[np.float64],
        chosen: Sequence[Mapping[str, int]],
    ) -> tuple[bytes, NDArray[np.int64]]:
        """Return the model with pieces, and how often the text of its language gives each."""
        for _ in range(_ROUNDS):
            scores = np.maximum(np.log(shares), self._lowest)
            scored = [(one.content, score) for one, score in zip(pieces, scores.tolist(), strict=True)]
            data = append_pieces(self._words.model, scored)
            plain = PlainModel(data)
            by_language = np.array([plain.uses(own) for own in chosen])
            languages = [piece.language for piece in pieces]
            uses = by_language[languages, np.arange(self.size, self.size + len(pieces))]
            shares = np.maximum(uses, _LEAST) / _of(pieces, by_language.sum(axis=1))
        return data, by_language[:, self.size :].sum(axis=0)


def _of(pieces: Sequence[NewPiece], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the value of each piece's language: (n,)."""
    return np.maximum(values[[piece.language for piece in pieces]], 1)


def _most_saving(
    candidates: Sequence[NewPiece], uses: NDArray[np.int64], wanted: int, *, without: set[int]
) -> list[int]:
    """Return the numbers of the candidates that save most tokens; languages keep their shares of them.

    The piece of a character saves all but one of its bytes wherever it stands, others at least a token.
    """
    room = Counter(piece.language for piece in candidates[:wanted])
    saved = [
        count * (len(piece.content) - 1 if piece.is_character else 1)
        for piece, count in zip(candidates, uses.tolist(), strict=True)
    ]
    found, spare = list[int](), list[int]()
    for number in sorted(range(len(candidates)), key=lambda n: (-saved[n], n)):
        language = candidates[number].language
        if number in without:
            continue
        if room[language] and saved[number]:
            room[language] -= 1
            found.append(number)
        else:
            spare.append(number)
    return sorted([*found, *spare[: wanted - len(found)]])
