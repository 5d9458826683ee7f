"""SentencePiece models with pieces appended, and the extension of BPE models among them.

Extension of SentencePiece's BPE models.

A model merges any two symbols that spell a piece, the one of the highest score first. So the scores of
new pieces are below those of all old ones. A text is merged by the old pieces to the end, as before, and
then by the new ones. But a new piece and its neighbour may spell an old piece, which then comes first.
So the new model itself is asked which of its pieces texts give.
"""

import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from stages.tokenizer.extension.extended import Extension, fit_pieces
from stages.tokenizer.extension.learning import NewPiece
from stages.tokenizer.extension.sentencepiece_pieces import PlainModel, SentencePieceWords
from stages.tokenizer.sentencepiece_model import (
    LENGTH,
    PIECES,
    SCORE,
    SELF_TEST,
    TEXT,
    TRAINER,
    PieceType,
    SentencePieceModel,
    next_field,
    varint,
)

_VOCAB_SIZE = 4
"""Of a trainer's settings."""
_FOUR_BYTES = 5
"""Wire type."""


def append_pieces(model: SentencePieceModel, pieces: Sequence[tuple[bytes, float]]) -> bytes:
    """Return a model with further pieces of a score each, and without the test of itself.

    The test would hold texts to the ids that the old pieces give.
    """
    fields, data = model.fields, model.data
    size = len(model.types) + len(pieces)
    last = int(np.flatnonzero(fields.numbers == PIECES)[-1])
    parts = []
    for field, number in enumerate(fields.numbers.tolist()):
        begin, stop = int(fields.begins[field]), int(fields.stops[field])
        if number == TRAINER:
            parts.append(_field(TRAINER, _with_size(data[begin:stop], size)))
        elif number != SELF_TEST:
            parts.append(data[int(fields.starts[field]) : stop])
        if field == last:
            parts += (_field(PIECES, _piece(*piece)) for piece in pieces)
    return b"".join(parts)


def lowest_score(model: SentencePieceModel) -> float:
    """Return the lowest score of a piece that texts give."""
    normal = model.types == PieceType.NORMAL
    return float(model.scores[normal].min()) if normal.any() else 0.0


def scores_below(model: SentencePieceModel, count: int) -> list[float]:
    """Return scores for so many pieces, each lower than the one before and than those of all old pieces.

    Scores are 32-bit floats: below -1e9, as one model has it, the next lower one is 64 less.
    """
    lowest, found = np.float32(lowest_score(model)), list[float]()
    for _ in range(count):
        lowest = min(np.float32(lowest - 1), np.nextafter(lowest, np.float32(-np.inf)))
        found.append(float(lowest))
    return found


def _piece(text: bytes, score: float) -> bytes:
    return _field(TEXT, text) + bytes([SCORE << 3 | _FOUR_BYTES]) + struct.pack("<f", score)


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | LENGTH]) + varint(len(content)) + content


def _with_size(trainer: bytes, size: int) -> bytes:
    """Return a trainer's settings with another size of the vocabulary."""
    data, place, parts = np.frombuffer(trainer, np.uint8), 0, list[bytes]()
    while place < len(trainer):
        number, _, _, end = next_field(data, place)
        parts += [] if number == _VOCAB_SIZE else [trainer[place:end]]
        place = end
    return b"".join([*parts, bytes([_VOCAB_SIZE << 3]), varint(size)])


def pieces_of(model: SentencePieceModel, types: Iterable[PieceType]) -> set[bytes]:
    """Return the texts of the pieces of some types."""
    chosen = np.flatnonzero(np.isin(model.types, list(types)))
    return {model.texts[number] for number in chosen.tolist()}


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
