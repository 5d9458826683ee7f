"""The encoder: texts to ids, by the tables of a model, with the words that it remembers."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from stages.tokenizer.bpe.byte_level import ByteTables, encode_bytes
from stages.tokenizer.bpe.merging import word_scratch
from stages.tokenizer.bpe.tables import BpeTables
from stages.tokenizer.bpe.word_cache import remembered
from stages.tokenizer.bpe.words import encode_texts
from stages.tokenizer.texts import JoinedTexts, TextIds

_SLOTS = 1 << 18
"""Words that are remembered: 16 MiB."""
MEMORY = 32 << 20
"""Bytes that an encoder takes, about, with a vocabulary of 32,000; a worker may have two."""


class BpeEncoder:
    """A BPE model, in compiled code.

    Args:
        tables: of the model.
        otherwise: gives the ids of a text with too long a word.
    """

    def __init__(
        self, tables: BpeTables | ByteTables, otherwise: Callable[[str], NDArray[np.integer]]
    ) -> None:
        self._tables, self._otherwise = tables, otherwise
        self._known, self._scratch = remembered(_SLOTS), word_scratch()

    def encode(self, texts: JoinedTexts, *, dtype: np.dtype[np.generic]) -> TextIds:
        """Return the ids of texts, of `dtype`."""
        count = len(texts.offsets) - 1
        ids: NDArray[np.integer] = np.empty(int(texts.offsets[-1]), dtype)
        ends = np.empty(count, np.int64)
        done = self._encode_from(0, texts, ids, ends)
        while done < count:
            text = texts.data[texts.offsets[done] : texts.offsets[done + 1]].tobytes().decode()
            filled = int(ends[done - 1]) if done else 0
            others = self._otherwise(text)
            ids[filled : filled + len(others)] = others
            ends[done] = filled + len(others)
            done = self._encode_from(done + 1, texts, ids, ends)
        return TextIds(ids[: int(ends[-1]) if count else 0], ends)

    def _encode_from(
        self, first: int, texts: JoinedTexts, ids: NDArray[np.integer], ends: NDArray[np.int64]
    ) -> int:
        """Encode texts from one on; return the number of the first that has too long a word."""
        if isinstance(self._tables, ByteTables):
            return encode_bytes(texts, first, ids, ends, self._tables, self._known, self._scratch)
        return encode_texts(texts, first, ids, ends, self._tables, self._known, self._scratch)
