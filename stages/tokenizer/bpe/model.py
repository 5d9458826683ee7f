"""The pieces of a SentencePiece model, read off its bytes in compiled code.

A model is a protocol buffer; which fields count stands in `stages.tokenizer.sentencepiece_file`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.kernels import lean_kernel
from stages.tokenizer.bpe.tables import BpeTables, ModelPieces, bpe_tables
from stages.tokenizer.bpe.utf8 import ASCII
from stages.tokenizer.sampling import SPACE_SYMBOL

_PIECES, _TRAINER, _TEXT, _SCORE, _TYPE = 1, 2, 1, 2, 3
"""Fields: two of a model, three of a piece. The last is also the kind of the model in its trainer's."""
_NORMAL, _USER_DEFINED, _UNUSED, _BYTE = 1, 4, 5, 6
_UNIGRAM, _BPE = 1, 2
_VARINT, _FIXED64, _LENGTH = 0, 1, 2
_BYTES = 256
_WIDTH = {_VARINT: 0, _FIXED64: 8, _LENGTH: 0}


class _Fields(NamedTuple):
    """The pieces of a model: (V,) each."""

    begins: NDArray[np.int64]
    """Where its text begins in the model."""
    ends: NDArray[np.int64]
    scores: NDArray[np.float32]
    bits: NDArray[np.uint32]
    """Of the scores: the same memory."""
    types: NDArray[np.int64]


def tables_of(model: bytes, *, vocab_size: int) -> BpeTables | None:
    """Return the tables of a model without a normaliser; None if its ids are not those of plain merging.

    So it is if the model is no BPE model, has no piece for a single byte or for the space, matches some
    pieces as a whole wherever they stand, or takes pieces apart again after merging.

    Args:
        model: that the library has loaded.
        vocab_size: V.
    """
    data = np.frombuffer(model, np.uint8)
    scores = np.zeros(vocab_size, np.float32)
    begins, ends, types = np.zeros((3, vocab_size), np.int64)
    fields = _Fields(begins, ends, scores, scores.view(np.uint32), types)
    if read_pieces(data, fields) != _BPE or np.isin(types, (_USER_DEFINED, _UNUSED)).any():
        return None
    texts = [model[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
    special = [texts[number].decode() for number in np.flatnonzero(types != _NORMAL).tolist()]
    byte_ids = np.flatnonzero(types == _BYTE)
    ids = np.flatnonzero(types == _NORMAL)
    if (
        len(byte_ids) != _BYTES
        or any(len(text) == 1 for text in special)  # which the character by itself would give
        or SPACE_SYMBOL.encode() not in {texts[number] for number in ids.tolist()}
        or any(b" " in texts[number] for number in ids.tolist())
    ):
        return None
    values = [int(texts[number][1:-1], 16) for number in byte_ids.tolist()]
    of_bytes = np.empty(_BYTES, np.int32)
    of_bytes[values] = byte_ids
    _, ranks = np.unique(-scores[ids], return_inverse=True)
    pieces = ModelPieces(data, begins[ids], ends[ids], ids.astype(np.int32), ranks.astype(np.int32))
    return bpe_tables(pieces, of_bytes, vocab_size=vocab_size)


@lean_kernel
def read_pieces(data: NDArray[np.uint8], fields: _Fields) -> np.int64:
    """Fill in the pieces of a model; return the kind of the model."""
    place = number = 0
    kind = np.int64(_UNIGRAM)
    while place < len(data):
        field, value, begin, place = _next_field(data, place)
        if field == _PIECES:
            fields.types[number] = _NORMAL
            inner = begin
            while inner < place:
                part, value, start, inner = _next_field(data, inner)
                if part == _TEXT:
                    fields.begins[number], fields.ends[number] = start, inner
                elif part == _SCORE:
                    fields.bits[number] = value
                elif part == _TYPE:
                    fields.types[number] = value
            number += 1
        elif field == _TRAINER:
            inner = begin
            while inner < place:
                part, value, start, inner = _next_field(data, inner)
                if part == _TYPE:
                    kind = value
    return kind


@lean_kernel
def _next_field(data: NDArray[np.uint8], place: int) -> tuple[np.int64, np.int64, int, int]:
    """Return a field's number, its value if that is a number, and where its content begins and ends."""
    tag, place = _varint(data, place)
    kind = tag & 7
    value, begin = np.int64(0), place
    if kind == _VARINT:
        value, end = _varint(data, place)
    elif kind == _LENGTH:
        length, begin = _varint(data, place)
        end = begin + int(length)
    else:
        end = place + (8 if kind == _FIXED64 else 4)
        for byte in range(4):
            value |= np.int64(data[place + byte]) << 8 * byte
    return tag >> 3, value, begin, end


@lean_kernel
def _varint(data: NDArray[np.uint8], place: int) -> tuple[np.int64, int]:
    """Return a number of seven bits a byte, the lowest first, and the place behind it."""
    value, shift = np.int64(0), 0
    while True:
        byte = np.int64(data[place])
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < ASCII:
            return value, place
