"""Extension of SentencePiece's BPE models.

A model merges any two symbols that spell a piece, the one of the highest score first. So the scores of
new pieces are below those of all old ones. A text is merged by the old pieces to the end, as before, and
then by the new ones. But a new piece and its neighbour may spell an old piece, which then comes first.
So the new model itself is asked which of its pieces texts give.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from stages.tokenizer.extension.extended import Extension, fit_pieces
from stages.tokenizer.extension.learning import NewPiece
from stages.tokenizer.extension.sentencepiece_append import append_pieces, scores_below
from stages.tokenizer.extension.sentencepiece_pieces import PlainModel, SentencePieceWords


class SentencePieceBpe:
    """A SentencePiece BPE model that pieces are appended to.

    Args:
        data: the model.
    """

    def __init__(self, data: bytes) -> None:
        self._words = SentencePieceWords(data)
        self.size = self._words.size

    def count(self, texts: Iterable[str]) -> Counter[str]:
        """Return how often each word stands in texts."""
        return self._words.count(texts)

    def extend(self, words: Sequence[Mapping[str, int]], wanted: int, *, max_drift: float) -> Extension:
        """Return the model with further pieces; see `Extendable.extend`."""
        learner, chosen = self._words.learner(words, max_drift=max_drift)
        total = sum(map(Counter, chosen), Counter[str]())
        return fit_pieces(
            learner,
            wanted,
            made=self._with,
            uses=lambda data, count: PlainModel(data).uses(total)[-count:],
        )

    def _with(self, pieces: Sequence[NewPiece]) -> bytes:
        model = self._words.model
        scores = scores_below(model, len(pieces))
        contents = (piece.content for piece in pieces)
        return append_pieces(model, list(zip(contents, scores, strict=True)))
