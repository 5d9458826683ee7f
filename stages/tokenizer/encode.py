r"""Encoding: text to ids without loss, and ids back to the same text.

SentencePiece writes a space as U+2581, so a U+2581 that stands in the text would come back as a space.
Texts are split there, and the symbol itself is written as its three byte pieces, counted.

    "a b"       ->  ids  ->  "a b"
    "a\u2581b"  ->  ids of "a", <0xE2> <0x96> <0x81>, ids of "b"  ->  "a\u2581b"

Long texts are cut where no piece of the model could lie across the cut. BPE ids are the same with and
without; unigram adds up the scores of a text in 32-bit floats, so that uncut the choice of a piece would
depend on how far into the text it stands. One text of 16 MiB took 40 to 53 bytes a byte and 34 s uncut;
cut, BPE is three times as fast and takes what the ids take.

Plain BPE is encoded in compiled code (`stages.tokenizer.bpe`), to the same ids. The library encodes for
all other models, and is what the compiled code is tested against.

What comes back is `normalise(text)`: the text itself, unless the model was trained with another
normalisation than identity, which SentencePiece applies inside its encoder.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from stages.errors import FormatError
from stages.tokenizer.bpe.encoder import BpeEncoder
from stages.tokenizer.bpe.tables import tables_of
from stages.tokenizer.codec import Codec, EncodeTexts, Tokenizer
from stages.tokenizer.normalization import changes_text
from stages.tokenizer.sampling import SPACE_SYMBOL
from stages.tokenizer.sentencepiece_model import PieceType, SentencePieceModel
from stages.tokenizer.sentences import word_starts
from stages.tokenizer.special import BOS, EOS, PAD, UNK, control_symbols, num_reserved, special_ids
from stages.tokenizer.texts import JoinedTexts

_STRETCH = 4096
"""Characters after which a text is cut; 2 MiB of mixed text: 1.5 s at 4,096, 3.2 s at 262,144."""
_LONGEST = 1 << 18
"""Characters after which a text is cut come what may: a line of one letter has no better place."""
_BATCH = 1 << 18
"""Characters encoded together, or ids decoded together: as Python's numbers these take 9 MiB."""
_SYMBOLS = re.compile(f"({SPACE_SYMBOL}+)")
_SPEC = b"\x0a\x08identity\x12\x00\x18\x00\x20\x00\x28\x01"
NO_NORMALIZER = b"\x1a" + bytes([len(_SPEC)]) + _SPEC
"""The field that ends a model without a normaliser: name, no rules, no dummy prefix, no white space
removed, spaces escaped. Of a message that stands twice in a protocol buffer the later fields count."""


class SentencePieceCodec(Codec):
    """A SentencePiece model as a run trains it: it can write every text, and its ids spell it.

    `SentencePieceFile` has one for the pieces of any other model, without its normaliser.

    Args:
        processor: the loaded model.
        whole: whether texts are never cut, whatever their length: pieces may be words, or unknown
            characters be one token across a space.
    """

    exact = True
    unk = None
    writes_all = True

    def __init__(self, processor: sentencepiece.SentencePieceProcessor, *, whole: bool = False) -> None:
        self._processor, self._whole = processor, whole
        bytes_ = [processor.piece_to_id(f"<0x{byte:02X}>") for byte in SPACE_SYMBOL.encode()]
        self._space = np.array(bytes_, np.int32)
        self.size: int = processor.get_piece_size()
        self.normalises: bool = changes_text(processor.normalize)
        self.has_bytes: bool = all(map(processor.is_byte, bytes_))

    def normalise_texts(self, texts: JoinedTexts) -> JoinedTexts:
        """Return texts as the model's normaliser leaves them."""
        return super().normalise_texts(texts) if self.normalises else texts

    def encode_by_library(self, texts: Iterable[str]) -> list[NDArray[np.integer]]:
        """Return the ids of each text from SentencePiece alone."""
        found: list[list[NDArray[np.integer]]] = []

        def stretches() -> Iterator[tuple[int, str]]:
            for number, text in enumerate(texts):
                found.append([])
                yield from ((number, stretch) for stretch in self._stretches(text))

        for batch in _batches(stretches()):
            parts = [part for _, part in batch]
            encoded = self._processor.encode(parts, return_type="numpy", num_threads=1)
            ids: dict[int, list[NDArray[np.integer]]] = {}
            for (number, part), pieces in zip(batch, encoded, strict=True):
                symbols = part.startswith(SPACE_SYMBOL)
                ids.setdefault(number, []).append(np.tile(self._space, len(part)) if symbols else pieces)
            for number, arrays in ids.items():
                joined = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
                found[number].append(joined.astype(np.int32))
        return [
            arrays[0] if len(arrays) == 1 else np.concatenate([np.empty(0, np.int32), *arrays])
            for arrays in found
        ]

    def normalise(self, text: str) -> str:
        """Return the text that its ids decode to: the same, or as the model's normaliser leaves it."""
        if not self.normalises:
            return text
        return "".join(
            part
            if part.startswith(SPACE_SYMBOL)
            else self._processor.normalize(part).replace(SPACE_SYMBOL, " ")
            for part in self._stretches(text)
        )

    def decode(self, ids: Sequence[NDArray[np.integer]]) -> list[str]:
        """Return the text of each sequence of ids; special ids in them give nothing."""
        if not ids:  # the library takes an empty list for one sequence without ids
            return []
        if max(map(len, ids)) > _BATCH:
            return ["".join(self.decode([part])[0] for part in self._parts(row)) for row in ids]
        decoded: list[str] = self._processor.decode([row.tolist() for row in ids])
        return decoded

    def verbatim(self) -> "SentencePieceCodec":
        """Return the same pieces without a normaliser: for text that has been through it already.

        A part of a normalised text need not come out of the normaliser as it went in.
        """
        if not self.normalises:
            return self
        proto = self._processor.serialized_model_proto() + NO_NORMALIZER
        processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
        return SentencePieceCodec(processor)

    def byte_ids(self) -> NDArray[np.bool_]:
        """Say of every id whether it stands for a single byte: (vocab_size,) bool."""
        return np.equal(self._model.types, PieceType.BYTE)

    def piece_bytes(self) -> list[bytes]:
        """Return what each id decodes to: (vocab_size,); nothing for special ids."""
        return self._model.spelled()

    def word_starts(self) -> NDArray[np.bool_]:
        """Say of every id whether it begins a word: (vocab_size,) bool."""
        return word_starts([self._processor.id_to_piece(i) for i in range(self.size)], self.byte_ids())

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the piece of each id as the model writes it."""
        return [self._processor.id_to_piece(i) for i in ids]

    def _stretches(self, text: str) -> Iterator[str]:
        """Yield a text in parts whose ids join to its ids; runs of U+2581 stand alone."""
        for part in _SYMBOLS.split(text) if SPACE_SYMBOL in text else (text,):
            start = 0
            cut = not (self._whole or part.startswith(SPACE_SYMBOL))
            while cut and len(part) - start > _STRETCH:
                end, last = start + _STRETCH, min(len(part), start + _LONGEST)
                while end < last and not self._separable(part[end - 1], part[end]):
                    end += 1
                yield part[start:end]
                start = end
            if start < len(part):
                yield part[start:]

    def _parts(self, ids: NDArray[np.integer]) -> Iterator[NDArray[np.integer]]:
        """Cut ids where their texts join: not at single bytes, of which several are a character."""
        start = 0
        while len(ids) - start > _BATCH:
            end = start + _BATCH - 1
            while end > start and self._is_byte[ids[end - 1 : end + 1]].any():
                end -= 1
            if end == start:  # single bytes alone: find where a character begins
                end = start + _BATCH - 1
                while end > start + 1 and self._continues[ids[end]]:
                    end -= 1
            yield ids[start:end]
            start = end
        yield ids[start:]

    def _separable(self, before: str, after: str) -> bool:
        """Say whether no piece, and no rule of the normaliser, could reach over two characters.

        Characters without a piece, side by side, are one unknown token where there are no byte pieces.
        """
        if not self.has_bytes and after != " ":
            return False
        if not self.normalises:
            return (before + after).replace(" ", SPACE_SYMBOL) not in self._joined
        if after not in " \n" or before.isspace():  # rules compose characters, but never with these
            return False
        first, second = map(self._processor.normalize, (before, after))
        return bool(first) and bool(second) and first[-1] + second[0] not in self._joined

    @cached_property
    def compiled(self) -> EncodeTexts | None:
        """What encodes texts in compiled code, if the model is plain BPE."""
        if self._whole:
            return None
        tables = tables_of(self._model)
        if tables is None:
            return None
        library = self.verbatim()
        encoder = BpeEncoder(tables, lambda text: library.encode_by_library([text])[0])
        return lambda texts, dtype: encoder.encode(self.normalise_texts(texts), dtype=dtype)

    @cached_property
    def _model(self) -> SentencePieceModel:
        return SentencePieceModel(self._processor.serialized_model_proto())

    @cached_property
    def _is_byte(self) -> NDArray[np.bool_]:
        return self.byte_ids()

    @cached_property
    def _continues(self) -> NDArray[np.bool_]:
        """Whether each id is a single byte that continues a character."""
        found = np.zeros(self.size, np.bool_)
        spelled = self.piece_bytes()
        for number in np.flatnonzero(self._is_byte).tolist():
            found[number] = spelled[number][0] & 0xC0 == 0x80  # noqa: PLR2004  # as UTF-8 has it
        return found

    @cached_property
    def _joined(self) -> frozenset[str]:
        """Every two characters that stand side by side in a piece."""
        matched = ~np.isin(self._model.types, (PieceType.CONTROL, PieceType.UNKNOWN))
        pieces = (self._model.texts[number].decode() for number in np.flatnonzero(matched).tolist())
        return frozenset(piece[n : n + 2] for piece in pieces for n in range(len(piece) - 1))


def _batches(parts: Iterable[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """Yield parts of texts in lists of about `_BATCH` characters."""
    batch: list[tuple[int, str]] = []
    size = 0
    for number, part in parts:
        batch.append((number, part))
        size += len(part)
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def load_trained(path: Path, special: Mapping[str, int] | None = None) -> Tokenizer:
    """Return the tokenizer of a model that a run trained, from its file.

    Args:
        path: of the file.
        special: special ids by role; by default those of a model whose documents are closed by EOS.

    Raises:
        FormatError: the file is no SentencePiece model with our special ids.
    """
    try:
        processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    except (OSError, RuntimeError) as error:
        raise FormatError(f"{path}: not a SentencePiece model: {error}") from error
    if processor.get_piece_size() < num_reserved():
        raise FormatError(f"{path}: {processor.get_piece_size()} ids, fewer than the special ones")
    for number, symbol in enumerate((UNK, BOS, EOS, PAD, *control_symbols())):
        piece = processor.id_to_piece(number)
        if piece != symbol or (number and not processor.is_control(number)):
            raise FormatError(f"{path}: id {number} ({piece}) must be the control id of {symbol}")
    for number in set((special or {}).values()):
        if number and (number >= processor.get_piece_size() or not processor.is_control(number)):
            raise FormatError(f"{path}: special id {number} must be that of a control symbol")
    return trained_tokenizer(processor, special)


def trained_tokenizer(
    processor: sentencepiece.SentencePieceProcessor, special: Mapping[str, int] | None = None
) -> Tokenizer:
    """Return the tokenizer of a loaded model; see `load_trained` for `special`."""
    ids = special_ids() if special is None else special
    return Tokenizer(SentencePieceCodec(processor), ids, guarded=False)
