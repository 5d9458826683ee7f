"""The encoder: texts to ids, by the tables of a model, with the words that it remembers."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from stages.tokenizer.bpe.merging import word_scratch
from stages.tokenizer.bpe.tables import BpeTables
from stages.tokenizer.bpe.words import PADDING, Texts, encode_texts, remembered

_SLOTS = 1 << 18
"""Words that are remembered: 16 MiB."""
MEMORY = 32 << 20
"""Bytes that an encoder takes, about, with a vocabulary of 32,000."""


class BpeEncoder:
    """A BPE model, in compiled code.

    Args:
        tables: of the model.
        otherwise: gives the ids of a text with too long a word.
    """

    def __init__(self, tables: BpeTables, otherwise: Callable[[str], NDArray[np.integer]]) -> None:
        self._tables, self._otherwise = tables, otherwise
        self._known, self._scratch = remembered(_SLOTS), word_scratch()

    def encode(
        self, texts: Sequence[bytes], *, dtype: np.dtype[np.generic]
    ) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
        """Return the ids of all texts, end to end, and where those of each end.

        Args:
            texts: valid UTF-8.
            dtype: of the ids.

        Returns:
            (n,) of `dtype`, and (D,) int64.
        """
        offsets = np.zeros(len(texts) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=offsets[1:])
        size = int(offsets[-1])
        data = np.zeros((size + PADDING + 7) // 8 * 8, np.uint8)
        data[:size] = np.frombuffer(b"".join(texts), np.uint8)
        return self.encode_joined(Texts(data, data.view(np.uint64), offsets), dtype=dtype)

    def encode_joined(
        self, texts: Texts, *, dtype: np.dtype[np.generic]
    ) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
        """Return the same of texts that lie end to end."""
        count = len(texts.offsets) - 1
        ids, ends = np.empty(int(texts.offsets[-1] - texts.offsets[0]), dtype), np.empty(count, np.int64)
        done = encode_texts(texts, 0, ids, ends, self._tables, self._known, self._scratch)
        while done < count:
            text = texts.data[texts.offsets[done] : texts.offsets[done + 1]].tobytes().decode()
            filled = int(ends[done - 1]) if done else 0
            others = self._otherwise(text)
            ids[filled : filled + len(others)] = others
            ends[done] = filled + len(others)
            done = encode_texts(texts, done + 1, ids, ends, self._tables, self._known, self._scratch)
        return ids[: int(ends[-1]) if count else 0], ends
