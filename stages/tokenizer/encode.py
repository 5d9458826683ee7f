r"""Encoding: text to ids without loss, and ids back to the same text.

SentencePiece writes a space as U+2581, so a U+2581 that stands in the text would come back as a space.
Texts are split there, and the symbol itself is written as its three byte pieces, counted.

    "a b"       ->  ids  ->  "a b"
    "a\u2581b"  ->  ids of "a", <0xE2> <0x96> <0x81>, ids of "b"  ->  "a\u2581b"
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from stages.errors import FormatError
from stages.tokenizer.sampling import SPACE_SYMBOL
from stages.tokenizer.special import BOS, EOS, PAD, UNK, control_symbols, num_reserved


class Tokenizer:
    """A trained model with its special ids.

    Args:
        processor: a loaded SentencePiece model.
    """

    def __init__(self, processor: sentencepiece.SentencePieceProcessor) -> None:
        self._processor = processor
        self._space = [processor.piece_to_id(f"<0x{byte:02X}>") for byte in SPACE_SYMBOL.encode()]
        self.vocab_size: int = processor.get_piece_size()
        self.eos: int = processor.eos_id()
        self.pad: int = processor.pad_id()

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Give the tokenizer of a model file.

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
        return cls(processor)

    def encode(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """Give the ids of each text, (n,) int32, no special id among them."""
        encoded = self._processor.encode(list(texts), out_type=int, num_threads=1)
        return [
            np.array(self._encode_parts(text) if SPACE_SYMBOL in text else ids, np.int32)
            for text, ids in zip(texts, encoded, strict=True)
        ]

    def decode(self, ids: Sequence[NDArray[np.integer]]) -> list[str]:
        """Give the text of each sequence of ids; special ids in them give nothing."""
        if not ids:  # the library takes an empty list for one sequence without ids
            return []
        decoded: list[str] = self._processor.decode([row.tolist() for row in ids])
        return decoded

    def byte_ids(self) -> NDArray[np.bool_]:
        """Say of every id whether it stands for a single byte: (vocab_size,) bool."""
        return np.array([self._processor.is_byte(i) for i in range(self.vocab_size)], np.bool_)

    def _encode_parts(self, text: str) -> list[int]:
        ids: list[int] = []
        for number, part in enumerate(text.split(SPACE_SYMBOL)):
            ids += self._space if number else []
            ids += self._processor.encode(part, out_type=int)
        return ids
