"""The encoder: texts to ids, by the tables of a model, with the words that it remembers."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from stages.tokenizer.bpe.merging import word_scratch
from stages.tokenizer.bpe.tables import BpeTables
from stages.tokenizer.bpe.words import encode_texts, remembered
from stages.tokenizer.texts import Encoded, JoinedTexts

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

    def __init__(self, tables: BpeTables, otherwise: Callable[[str], NDArray[np.integer]]) -> None:
        self._tables, self._otherwise = tables, otherwise
        self._known, self._scratch = remembered(_SLOTS), word_scratch()

    def encode(self, texts: JoinedTexts, *, dtype: np.dtype[np.generic]) -> Encoded:
        """Return the ids of texts, of `dtype`."""
        count = len(texts.offsets) - 1
        ids, ends = np.empty(int(texts.offsets[-1]), dtype), np.empty(count, np.int64)
        done = encode_texts(texts, 0, ids, ends, self._tables, self._known, self._scratch)
        while done < count:
            text = texts.data[texts.offsets[done] : texts.offsets[done + 1]].tobytes().decode()
            filled = int(ends[done - 1]) if done else 0
            others = self._otherwise(text)
            ids[filled : filled + len(others)] = others
            ends[done] = filled + len(others)
            done = encode_texts(texts, done + 1, ids, ends, self._tables, self._known, self._scratch)
        return Encoded(ids[: int(ends[-1]) if count else 0], ends)
