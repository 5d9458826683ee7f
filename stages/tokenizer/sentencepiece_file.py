"""SentencePiece models that were trained elsewhere: what they say of their ids, and their encoding.

A model runs as two: its own normaliser, on whole texts, then its pieces without one, on the stretches
that `stages.tokenizer.encode` cuts, where a dummy prefix would come anew and white space be folded.

    " Hello  world"   ->   " Hello world"   ->   _Hello _world        (dummy prefix, folded white space)

Ids that are to be special become control symbols, whatever they were: no text gives them. A model is a
protocol buffer, a list of fields, of which those that stand later count:

    field 1, of each piece    its text 1, its score 2, its type 3 (3 is control, 4 user-defined)
    field 2                   how it was trained; of that 3, the kind of the model (3 is words)
    field 3                   the normaliser
    field 4                   texts with their pieces, compared as the model is loaded: left out
"""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from stages.errors import FormatError
from stages.tokenizer.encode import NO_NORMALIZER, Tokenizer
from stages.tokenizer.roles import Described
from stages.tokenizer.sampling import SPACE_SYMBOL

_PIECES, _TRAINER, _SELF_TEST, _TYPE = 1, 2, 4, 3
"""Fields: of a model three, of a piece and of the trainer the last."""
_WORDS = 3
"""The kind of a model of which pieces are whole words."""
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6
"""Types of pieces; control is inserted by number alone, user-defined matched wherever it stands.
Unused is given by no text either, but BPE merges others over it."""
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
"""Wire types."""


class _Field(NamedTuple):
    """One field of a protocol buffer."""

    number: int
    value: int
    """Of a varint."""
    content: bytes
    """Of what has a length."""
    whole: bytes
    """As it stands there."""


def describe_sentencepiece(data: bytes, *, name: str) -> Described:
    """Say what a model says of its ids.

    Raises:
        FormatError: it is no model, or one that writes a space as a space.
    """
    processor = _load(data, name=name)
    if " " in processor.normalize("a b"):
        raise FormatError(
            f"{name}: writes a space as it is and not as U+2581 (escape_whitespaces = false), which is"
            " not read"
        )
    size: int = processor.get_piece_size()
    pieces = {processor.id_to_piece(number): number for number in range(size)}
    kept = (processor.is_control, processor.is_unknown, processor.is_unused)
    controls = frozenset(n for n in range(size) if any(test(n) for test in kept))
    apart = controls | set(_user_defined(data))
    marks = {piece: number for piece, number in pieces.items() if number in apart}
    named = {role: getattr(processor, f"{role}_id")() for role in ("unk", "bos", "eos", "pad")}
    declared = {role: number for role, number in named.items() if number >= 0}
    return Described(size, pieces, marks, controls, declared)


class SentencePieceFile:
    """A model that was trained elsewhere.

    Args:
        own: the model, with its own normaliser.
        plain: the same pieces without one.
        words: whether pieces are whole words.
    """

    def __init__(
        self,
        own: sentencepiece.SentencePieceProcessor,
        plain: sentencepiece.SentencePieceProcessor,
        *,
        words: bool,
    ) -> None:
        self._own = own
        self._plain_model = plain
        self._words = words
        space = plain.piece_to_id(SPACE_SYMBOL)  # the unknown id if there is none
        lost = any(test(space) for test in (plain.is_unknown, plain.is_unused, plain.is_control))
        self._plain = Tokenizer(plain, whole=words or lost)
        self.size: int = own.get_piece_size()
        self.unk: int | None = own.unk_id()
        self.writes_all: bool = self._plain.has_bytes and not (words or lost)

    @classmethod
    def open(cls, data: bytes, special: Collection[int], *, name: str) -> "SentencePieceFile":
        """Return a model of which some ids are special.

        Raises:
            FormatError: it is no model, or a byte is to be special.
        """
        types = [_type(part.content) for part in _fields(data) if part.number == _PIECES]
        lost = [number for number in sorted(special) if types[number] == _BYTE]
        if lost:
            raise FormatError(f"{name}: id {lost[0]:,} is to be special, but is a byte that texts need")
        controlled = _with_controls(data, frozenset(special))
        own, plain = (_load(proto, name=name) for proto in (controlled, controlled + NO_NORMALIZER))
        return cls(own, plain, words=_has_words(data))

    def normalise(self, text: str) -> str:
        """Return a text as the normaliser leaves it, its dummy prefix included."""
        return str(self._own.normalize(text)).replace(SPACE_SYMBOL, " ")

    def encode(self, texts: Iterable[str]) -> Iterator[NDArray[np.integer]]:
        """Yield the ids of each text."""
        yield from self._plain.encode(map(self.normalise, texts))

    @property
    def compiled(self) -> bool:
        """Whether texts are encoded in compiled code."""
        return self._plain.compiled

    def encode_by_library(self, texts: Iterable[str]) -> Iterator[NDArray[np.integer]]:
        """Yield the same from SentencePiece alone."""
        yield from self._plain.encode_by_library(map(self.normalise, texts))

    def verbatim(self) -> "SentencePieceFile":
        """Return the same pieces without a normaliser."""
        return SentencePieceFile(self._plain_model, self._plain_model, words=self._words)

    def piece_bytes(self) -> list[bytes]:
        """Return what each id stands for: (V,); nothing for special ids."""
        return self._plain.piece_bytes()

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the piece of each id as the model writes it."""
        return self._plain.pieces(ids)


def _load(data: bytes, *, name: str) -> sentencepiece.SentencePieceProcessor:
    if not data:  # which the library takes for none given
        raise FormatError(f"{name}: not a SentencePiece model: it is empty")
    try:
        return sentencepiece.SentencePieceProcessor(model_proto=data)
    except (OSError, RuntimeError) as error:
        raise FormatError(f"{name}: not a SentencePiece model: {error}") from error


def _user_defined(data: bytes) -> Iterator[int]:
    """Yield the ids that are matched as a whole wherever they stand in a text."""
    messages = (part.content for part in _fields(data) if part.number == _PIECES)
    yield from (number for number, piece in enumerate(messages) if _type(piece) == _USER_DEFINED)


def _type(piece: bytes) -> int:
    """Return the type of a piece, from its message."""
    return [_NORMAL, *(part.value for part in _fields(piece) if part.number == _TYPE)][-1]


def _has_words(data: bytes) -> bool:
    """Say whether pieces are whole words."""
    trainers = (part.content for part in _fields(data) if part.number == _TRAINER)
    kinds = [part.value for trainer in trainers for part in _fields(trainer) if part.number == _TYPE]
    return kinds[-1:] == [_WORDS]


def _with_controls(data: bytes, special: Collection[int]) -> bytes:
    """Return a model in which some ids are control symbols, and that has no test of itself."""
    parts, number = [], 0
    for part in _fields(data):
        if part.number == _PIECES:
            kept = number not in special or _type(part.content) in (_UNKNOWN, _UNUSED)
            content = part.content if kept else part.content + bytes([_TYPE << 3, _CONTROL])
            parts.append(bytes([_PIECES << 3 | _LENGTH]) + _varint(len(content)) + content)
            number += 1
        elif part.number != _SELF_TEST:
            parts.append(part.whole)
    return b"".join(parts)


def _fields(data: bytes) -> Iterator[_Field]:
    """Yield the fields of a protocol buffer that a library has read already."""
    place = 0
    while place < len(data):
        start = place
        tag, place = _read_varint(data, place)
        value, content, kind = 0, b"", tag & 7
        if kind == _VARINT:
            value, place = _read_varint(data, place)
        elif kind == _LENGTH:
            length, place = _read_varint(data, place)
            content, place = data[place : place + length], place + length
        else:
            assert kind in (_FIXED32, _FIXED64), kind
            place += 4 if kind == _FIXED32 else 8
        yield _Field(tag >> 3, value, content, data[start:place])


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, the lowest first, and the place behind it."""
    value = shift = 0
    while True:
        value |= (data[place] & 0x7F) << shift
        shift, place = shift + 7, place + 1
        if data[place - 1] < 0x80:  # noqa: PLR2004  # the bit that says that more follows
            return value, place


def _varint(value: int) -> bytes:
    """300 -> ac 02."""
    parts = bytearray()
    while value > 0x7F:  # noqa: PLR2004  # seven bits
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])
