"""SentencePiece models as bytes: their pieces, read in compiled code, and their kind.

A model is a protocol buffer, a list of fields, of which those that stand later count:

    field 1, of each piece    its text 1, its score 2, its type 3
    field 2                   how it was trained; of that 3, the kind of the model
    field 3                   the normaliser
    field 4                   texts with their pieces, compared as the model is loaded

Rewritten models: a SentencePiece model whose pieces have other texts and scores, or that has more.
"""

import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.kernels import lean_kernel
from stages.tokenizer.sampling import SPACE_SYMBOL

PIECES, TRAINER, NORMALISER, SELF_TEST = 1, 2, 3, 4
"""Fields of a model."""
TEXT, SCORE, TYPE = 1, 2, 3
"""Fields of a piece; the last is also the kind of the model in its trainer's."""
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""Wire types."""
_MORE = 0x80


class PieceType(IntEnum):
    """What a piece is for."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    """Inserted by number alone."""
    USER_DEFINED = 4
    """Matched as a whole wherever it stands."""
    UNUSED = 5
    """Given by no text, but BPE merges others over it."""
    BYTE = 6


class ModelKind(IntEnum):
    """How a model cuts texts."""

    UNIGRAM = 1
    BPE = 2
    WORD = 3
    CHAR = 4


class ModelFields(NamedTuple):
    """The F fields of a model: (F,) each."""

    numbers: NDArray[np.int64]
    starts: NDArray[np.int64]
    """Where it begins in the model."""
    begins: NDArray[np.int64]
    """Where its content begins."""
    stops: NDArray[np.int64]


class PieceFields(NamedTuple):
    """The V pieces of a model: (V,) each."""

    begins: NDArray[np.int64]
    """Where its text begins in the model."""
    ends: NDArray[np.int64]
    bits: NDArray[np.uint32]
    """Of its score."""
    types: NDArray[np.int64]


class SentencePieceModel:
    """A model that the library has loaded; of other bytes nothing is said that means anything.

    Args:
        data: its bytes.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        array = np.frombuffer(data, np.uint8)
        numbers, starts, begins, stops = np.empty((4, count_fields(array)), np.int64)
        self.fields = ModelFields(numbers, starts, begins, stops)
        fill_fields(array, self.fields)
        chosen = np.flatnonzero(numbers == PIECES)
        texts, ends, types = np.zeros((3, len(chosen)), np.int64)
        types += PieceType.NORMAL
        self._pieces = PieceFields(texts, ends, np.zeros(len(chosen), np.uint32), types)
        fill_pieces(array, begins[chosen], stops[chosen], self._pieces)

    @property
    def types(self) -> NDArray[np.int64]:
        """Return the type of each piece: (V,)."""
        return self._pieces.types

    @property
    def scores(self) -> NDArray[np.float32]:
        """Return the score of each piece: (V,)."""
        return self._pieces.bits.view(np.float32)

    @property
    def extents(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where the text of each piece begins and ends in the model: (V,) and (V,)."""
        return self._pieces.begins, self._pieces.ends

    @cached_property
    def texts(self) -> list[bytes]:
        """The text of each piece, with U+2581 for a space."""
        extents = zip(*(places.tolist() for places in self.extents), strict=True)
        return [self.data[begin:end] for begin, end in extents]

    @cached_property
    def kind(self) -> ModelKind:
        """How it cuts texts."""
        found = ModelKind.UNIGRAM
        array = np.frombuffer(self.data, np.uint8)
        for field in np.flatnonzero(self.fields.numbers == TRAINER).tolist():
            place, stop = int(self.fields.begins[field]), int(self.fields.stops[field])
            while place < stop:
                number, value, _, place = next_field(array, place)
                found = ModelKind(int(value)) if number == TYPE else found
        return found

    def spelled(self) -> list[bytes]:
        """Return what each id decodes to: (V,); nothing for ids that no text gives."""
        space = SPACE_SYMBOL.encode()
        found = [text.replace(space, b" ") for text in self.texts]
        for number in np.flatnonzero(self.types != PieceType.NORMAL).tolist():
            if self.types[number] == PieceType.BYTE:
                found[number] = bytes([int(self.texts[number][1:-1], 16)])
            elif self.types[number] != PieceType.USER_DEFINED:
                found[number] = b""
        return found


def varint(value: int) -> bytes:
    """Return a number of seven bits a byte, the lowest first: 300 -> ac 02."""
    parts = bytearray()
    while value >= _MORE:
        parts.append(value & (_MORE - 1) | _MORE)
        value >>= 7
    return bytes([*parts, value])


@lean_kernel
def next_field(data: NDArray[np.uint8], place: int) -> tuple[np.int64, np.int64, int, int]:
    """Return the number of a field, its value if it is a number, and where its content lies."""
    tag, place = _read_varint(data, place)
    kind = tag & 7
    value, begin = np.int64(0), place
    if kind == VARINT:
        value, end = _read_varint(data, place)
    elif kind == LENGTH:
        length, begin = _read_varint(data, place)
        end = begin + int(length)
    else:
        end = place + (8 if kind == FIXED64 else 4)
        for byte in range(min(4, len(data) - place)):
            value |= np.int64(data[place + byte]) << 8 * byte
    return tag >> 3, value, begin, min(max(end, place), len(data))


@lean_kernel
def _read_varint(data: NDArray[np.uint8], place: int) -> tuple[np.int64, int]:
    """Return a number of seven bits a byte, the lowest first, and the place behind it."""
    value, shift = np.int64(0), 0
    while place < len(data):
        byte = np.int64(data[place])
        value |= (byte & (_MORE - 1)) << shift
        place, shift = place + 1, shift + 7
        if byte < _MORE:
            break
    return value, place


@lean_kernel
def count_fields(data: NDArray[np.uint8]) -> int:
    """Return how many fields a model has."""
    place = count = 0
    while place < len(data):
        place = next_field(data, place)[3]
        count += 1
    return count


@lean_kernel
def fill_fields(data: NDArray[np.uint8], fields: ModelFields) -> None:
    """Fill in the fields of a model."""
    place = 0
    for field in range(len(fields.numbers)):
        fields.starts[field] = place
        number, _, begin, place = next_field(data, place)
        fields.numbers[field], fields.begins[field], fields.stops[field] = number, begin, place


@lean_kernel
def fill_pieces(
    data: NDArray[np.uint8], begins: NDArray[np.int64], stops: NDArray[np.int64], pieces: PieceFields
) -> None:
    """Fill in pieces, whose types are normal before, from where the content of each lies."""
    for piece in range(len(begins)):
        place = begins[piece]
        while place < stops[piece]:
            number, value, begin, place = next_field(data, place)
            if number == TEXT:
                pieces.begins[piece], pieces.ends[piece] = begin, place
            elif number == SCORE:
                pieces.bits[piece] = value
            elif number == TYPE:
                pieces.types[piece] = value


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
    data = text.encode()
    content = bytes([TEXT << 3 | LENGTH]) + varint(len(data)) + data
    content += bytes([SCORE << 3 | FIXED32]) + struct.pack("<f", score)
    content += bytes([TYPE << 3 | VARINT]) + varint(kind)
    return bytes([PIECES << 3 | LENGTH]) + varint(len(content)) + content
