"""Rewritten models: a SentencePiece model whose pieces have other texts and scores, or that has more."""

import struct
from collections.abc import Callable, Mapping

from stages.tokenizer.sentencepiece_model import (
    FIXED32,
    LENGTH,
    PIECES,
    SCORE,
    TEXT,
    TRAINER,
    TYPE,
    VARINT,
    PieceType,
    SentencePieceModel,
    varint,
)

_VOCAB_SIZE = 4
"""Field of the trainer's settings."""


def rewritten(
    data: bytes, spelled: Callable[[str], str], scores: Mapping[str, float], added: Mapping[str, float]
) -> bytes:
    """Return a model whose pieces are written otherwise, with further pieces behind them.

    Args:
        data: of the model.
        spelled: how a piece is to be written.
        scores: new ones, by the piece as it was.
        added: further pieces, with their scores.
    """
    model = SentencePieceModel(data)
    parts, place, number = [], 0, 0
    fields = model.fields
    for field in range(len(fields.numbers)):
        if fields.numbers[field] != PIECES:
            continue
        text = model.texts[number].decode()
        new, score = spelled(text), scores.get(text, float(model.scores[number]))
        if new != text:
            parts.append(data[place : int(fields.starts[field])])
            parts.append(piece_field(new, score, int(model.types[number])))
            place = int(fields.stops[field])
        number += 1
    parts.append(data[place:])
    parts += [piece_field(text, score, PieceType.NORMAL) for text, score in added.items()]
    if added:
        size = bytes([_VOCAB_SIZE << 3 | VARINT]) + varint(number + len(added))
        parts.append(bytes([TRAINER << 3 | LENGTH]) + varint(len(size)) + size)
    return b"".join(parts)


def piece_field(text: str, score: float, kind: int) -> bytes:
    """Return a piece as it stands in a model."""
    written = text.encode()
    content = bytes([TEXT << 3 | LENGTH]) + varint(len(written)) + written
    content += bytes([SCORE << 3 | FIXED32]) + struct.pack("<f", score)
    content += bytes([TYPE << 3 | VARINT]) + varint(kind)
    return bytes([PIECES << 3 | LENGTH]) + varint(len(content)) + content
