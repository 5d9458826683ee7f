"""Texts end to end, as compiled code takes them, and their ids.

texts     "a cat" "" "猫"
data      61 20 63 61 74 e7 8c ab 00 ..    offsets  0 5 5 8
ids       71 902 311 44 18                 ends     2 2 5

Places: where a part of a document is, which decides the spaces that a tokenizer puts around it.

    document   <|user|> Hi <|end|> The sum of | 2 and 2        | is a border of sections
    place               SPECIAL    SPECIAL     TEXT

Many tokenizers put a space before every text (SentencePiece: the dummy prefix), and take white space
from its ends. A part that continues a text gets neither; one behind a special piece gets what the
library of the file puts there.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stages.columns import utf8_of

PADDING = 32
"""Bytes that lie behind the texts, so that eight at a time can be read."""
_WORD = 8
_BATCH = 1 << 18
"""Characters of a batch."""


class JoinedTexts(NamedTuple):
    """D texts of B bytes together."""

    data: NDArray[np.uint8]
    """(B + PADDING or more,) valid UTF-8, whole words of 64 bits."""
    words: NDArray[np.uint64]
    """The same memory."""
    offsets: NDArray[np.int64]
    """(D + 1,) where each begins."""

    def parts(self) -> list[bytes]:
        """Return each of them."""
        whole = self.data[: self.offsets[-1]].tobytes()
        return [whole[begin:end] for begin, end in pairwise(self.offsets.tolist())]

    def strings(self) -> list[str]:
        """Return each of them, as Python has it."""
        return [part.decode() for part in self.parts()]


class TextIds(NamedTuple):
    """The ids of D texts."""

    ids: NDArray[np.integer]
    """(n,) end to end."""
    ends: NDArray[np.int64]
    """(D,) where those of each end."""

    def parts(self) -> list[NDArray[np.integer]]:
        """Return the ids of each."""
        return np.split(self.ids, self.ends[:-1]) if len(self.ends) else []

    @property
    def counts(self) -> NDArray[np.int64]:
        """(D,) how many ids each has."""
        return np.diff(self.ends, prepend=0)


def batches_of(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield texts in lists of a quarter of a million characters, or of one text with more."""
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def joined_texts(parts: Sequence[bytes]) -> JoinedTexts:
    """Return texts end to end."""
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)), out=offsets[1:])
    return _padded(np.frombuffer(b"".join(parts), np.uint8), offsets)


def texts_of(column: pa.ChunkedArray) -> JoinedTexts:
    """Return the texts of a column of large strings without nulls."""
    return _padded(*utf8_of(column))


def joined_ids(parts: Sequence[NDArray[np.integer]], dtype: np.dtype[np.generic]) -> TextIds:
    """Return the ids of texts end to end."""
    ends = np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)))
    return TextIds(np.concatenate([np.empty(0, dtype), *parts]).astype(dtype), ends)


def _padded(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> JoinedTexts:
    room = np.empty(-(-(len(data) + PADDING) // _WORD) * _WORD, np.uint8)
    room[: len(data)], room[len(data) :] = data, 0
    return JoinedTexts(room, room.view(np.uint64), offsets)


class PrecedingText(Enum):
    """What is before a part."""

    START = "the beginning of a document"
    SPECIAL = "a special piece"
    TEXT = "text"


class TextPlace(NamedTuple):
    """Where a part of a document is."""

    before: PrecedingText = PrecedingText.START
    ends: bool = True
    """Whether the document or a special piece follows, and no text."""


WHOLE = TextPlace()
"""Of a text that is a document by itself."""
EVERY = tuple(TextPlace(before, ends) for before in PrecedingText for ends in (True, False))
"""All places."""
