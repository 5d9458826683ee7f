"""SentencePiece models that were trained elsewhere: what they say of their ids, and their encoding.

A model runs as two: its own normaliser, on whole texts, then its pieces without one, on the stretches
that `stages.tokenizer.encode` cuts, where a dummy prefix would come anew and white space be folded.

    " Hello  world"   ->   " Hello world"   ->   _Hello _world        (dummy prefix, folded white space)

Ids that are to be special become control symbols, whatever they were: no text gives them.
"""

from collections.abc import Collection, Iterable

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from stages.errors import FormatError
from stages.tokenizer.codec import Codec, EncodeTexts
from stages.tokenizer.encode import NO_NORMALIZER, SentencePieceCodec
from stages.tokenizer.roles import TokenizerDescription
from stages.tokenizer.sampling import SPACE_SYMBOL
from stages.tokenizer.sentencepiece_model import (
    LENGTH,
    PIECES,
    SELF_TEST,
    TYPE,
    ModelKind,
    PieceType,
    SentencePieceModel,
    varint,
)
from stages.tokenizer.texts import WHOLE, PrecedingText, TextPlace

_DIGIT = "0"
"""A character that no normaliser changes, and that none composes with another."""


def describe_sentencepiece(data: bytes, *, name: str) -> TokenizerDescription:
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
    model = SentencePieceModel(data)
    pieces = {text.decode(): number for number, text in enumerate(model.texts)}
    kept = (PieceType.CONTROL, PieceType.UNKNOWN, PieceType.UNUSED)
    controls = frozenset(np.flatnonzero(np.isin(model.types, kept)).tolist())
    apart = controls | set(np.flatnonzero(model.types == PieceType.USER_DEFINED).tolist())
    marks = {piece: number for piece, number in pieces.items() if number in apart}
    named = {role: getattr(processor, f"{role}_id")() for role in ("unk", "bos", "eos", "pad")}
    declared = {role: number for role, number in named.items() if number >= 0}
    return TokenizerDescription(len(model.types), pieces, marks, controls, declared)


class SentencePieceFile(Codec):
    """A model that was trained elsewhere.

    Args:
        own: the model, with its own normaliser.
        plain: the same pieces without one.
        words: whether pieces are whole words.
        inline: special ids whose pieces the library finds in texts, as if they were words.
        place: of the texts.
    """

    def __init__(
        self,
        own: sentencepiece.SentencePieceProcessor,
        plain: sentencepiece.SentencePieceProcessor,
        *,
        words: bool,
        inline: frozenset[int] = frozenset(),
        place: TextPlace = WHOLE,
    ) -> None:
        self._own, self.inline = own, inline
        self._left = _DIGIT * (place.before is PrecedingText.TEXT)
        self._right = _DIGIT * (not place.ends)
        self._plain_model = plain
        self._words = words
        space = plain.piece_to_id(SPACE_SYMBOL)  # the unknown id if there is none
        lost = any(test(space) for test in (plain.is_unknown, plain.is_unused, plain.is_control))
        self._plain = SentencePieceCodec(plain, whole=words or lost)
        self.size: int = own.get_piece_size()
        self.unk: int | None = own.unk_id()
        self.writes_all: bool = self._plain.has_bytes and not (words or lost)

    @classmethod
    def open(cls, data: bytes, special: Collection[int], *, name: str) -> "SentencePieceFile":
        """Return a model of which some ids are special.

        Raises:
            FormatError: it is no model, or a byte is to be special.
        """
        _load(data, name=name)
        model = SentencePieceModel(data)
        lost = [number for number in sorted(special) if model.types[number] == PieceType.BYTE]
        if lost:
            raise FormatError(f"{name}: id {lost[0]:,} is to be special, but is a byte that texts need")
        controlled = _with_controls(model, special)
        own, plain = (_load(proto, name=name) for proto in (controlled, controlled + NO_NORMALIZER))
        inline = {number for number in special if model.types[number] == PieceType.USER_DEFINED}
        return cls(own, plain, words=model.kind is ModelKind.WORD, inline=frozenset(inline))

    def normalise(self, text: str) -> str:
        """Return a text as the normaliser leaves it, its dummy prefix included.

        Where a text is before or behind it, a digit is put there, so that neither a space comes nor
        white space goes.
        """
        found = str(self._own.normalize(f"{self._left}{text}{self._right}"))
        if self._left:
            found = found.removeprefix(SPACE_SYMBOL).removeprefix(self._left)
        if self._right:
            found = found.removesuffix(SPACE_SYMBOL).removesuffix(self._right)
        return found.replace(SPACE_SYMBOL, " ")

    def at(self, place: TextPlace) -> "SentencePieceFile":
        """Return the model as it encodes a part of a document at a place."""
        if place.before is not PrecedingText.TEXT and place.ends:
            return self
        own, plain, inline = self._own, self._plain_model, self.inline
        return SentencePieceFile(own, plain, words=self._words, inline=inline, place=place)

    @property
    def compiled(self) -> EncodeTexts | None:
        """What encodes texts in compiled code, if the pieces are plain BPE."""
        plain = self._plain.compiled
        return plain and (lambda texts, dtype: plain(self.normalise_texts(texts), dtype))

    def encode_by_library(self, texts: Iterable[str]) -> list[NDArray[np.integer]]:
        """Return the ids of each text from SentencePiece alone."""
        return self._plain.encode_by_library(map(self.normalise, texts))

    def verbatim(self) -> "SentencePieceFile":
        """Return the same pieces without a normaliser."""
        plain, inline = self._plain_model, self.inline
        return SentencePieceFile(plain, plain, words=self._words, inline=inline)

    def piece_bytes(self) -> list[bytes]:
        """Return what each id stands for: (V,); nothing for special ids."""
        return self._plain.piece_bytes()

    def byte_ids(self) -> NDArray[np.bool_]:
        """Say of every id whether it stands for a single byte: (V,)."""
        return self._plain.byte_ids()

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the piece of each id as the model writes it."""
        return self._plain.pieces(ids)


def _load(data: bytes, *, name: str) -> sentencepiece.SentencePieceProcessor:
    if not data:  # which the library takes for none given
        raise FormatError(f"{name}: not a SentencePiece model: it is empty")
    try:
        return sentencepiece.SentencePieceProcessor(model_proto=data)
    except (OSError, RuntimeError) as error:
        raise FormatError(
            f"{name}: not a SentencePiece model, nor a tokenizer.json, tekken.json or ranks of tiktoken;"
            " name the file of a tokenizer"
        ) from error


def _with_controls(model: SentencePieceModel, special: Collection[int]) -> bytes:
    """Return a model in which some ids are control symbols, and that has no test of itself."""
    fields, data = model.fields, model.data
    kept = fields.numbers != SELF_TEST
    numbers = np.array(sorted(special), np.int64)
    changed = numbers[~np.isin(model.types[numbers], (PieceType.UNKNOWN, PieceType.UNUSED))]
    pieces = np.flatnonzero(fields.numbers == PIECES)[changed]
    parts, place = [], 0
    for field in sorted({*np.flatnonzero(~kept).tolist(), *pieces.tolist()}):
        begin, stop = int(fields.begins[field]), int(fields.stops[field])
        parts.append(data[place : int(fields.starts[field])])
        if kept[field]:
            content = data[begin:stop] + bytes([TYPE << 3, PieceType.CONTROL])
            parts.append(bytes([PIECES << 3 | LENGTH]) + varint(len(content)) + content)
        place = stop
    return b"".join([*parts, data[place:]])
