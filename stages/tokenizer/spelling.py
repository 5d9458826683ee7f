"""PieceBytes: whether stored ids are those of a text, and spell it byte by byte.

text      "a cat"      61 20 63 61 74
ids       71 902 5     71 = 61   902 = 20 63 61   5 = 74
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.kernels import lean_kernel
from stages.tokenizer.texts import JoinedTexts, TextIds

SAME, OTHER_TEXT, OTHER_IDS = 0, 1, 2
"""A text is what the ids spell and gives them; is another; or is spelled by them and gives other ids."""


class StoredIds(NamedTuple):
    """The ids of documents as they are stored."""

    ids: NDArray[np.integer]
    """(T,)."""
    begins: NDArray[np.int64]
    """(D,) where the ids of each of D texts begin."""
    ends: NDArray[np.int64]
    """(D,)."""

    def parts(self) -> Iterator[NDArray[np.integer]]:
        """Yield the ids of each."""
        for begin, end in zip(self.begins.tolist(), self.ends.tolist(), strict=True):
            yield np.asarray(self.ids[begin:end])


class PieceBytes(NamedTuple):
    """What each of V ids spells."""

    data: NDArray[np.uint8]
    begins: NDArray[np.int64]
    """(V,) where the bytes of each begin."""
    sizes: NDArray[np.int64]
    """(V,)."""


def compare_texts(
    stored: StoredIds, texts: JoinedTexts, encoded: TextIds, spelling: PieceBytes
) -> NDArray[np.uint8]:
    """Compare stored ids with texts, and with what these are encoded to.

    Args:
        stored: the ids of D texts.
        texts: D of them.
        encoded: the same, encoded once more.
        spelling: what ids spell.

    Returns:
        (D,) uint8: `SAME`, `OTHER_TEXT` or `OTHER_IDS`.
    """
    found = np.zeros(len(stored.begins), np.uint8)
    compare(stored, texts, encoded, spelling, found)
    return found


@lean_kernel
def compare(
    stored: StoredIds,
    texts: JoinedTexts,
    encoded: TextIds,
    spelling: PieceBytes,
    found: NDArray[np.uint8],
) -> None:
    """Fill in what each text is found to be."""
    for text in range(len(stored.begins)):
        begin, end = stored.begins[text], stored.ends[text]
        place, last = texts.offsets[text], texts.offsets[text + 1]
        for number in range(begin, end):
            token = np.int64(stored.ids[number])
            if token < 0 or token >= len(spelling.sizes) or spelling.sizes[token] > last - place:
                found[text] = OTHER_TEXT
                break
            first = spelling.begins[token]
            for byte in range(spelling.sizes[token]):
                if spelling.data[first + byte] != texts.data[place + byte]:
                    found[text] = OTHER_TEXT
            place += spelling.sizes[token]
        if place != last:
            found[text] = OTHER_TEXT
        start = encoded.ends[text - 1] if text else 0
        same = encoded.ends[text] - start == end - begin
        number = 0
        while same and number < end - begin:
            same = stored.ids[begin + number] == encoded.ids[start + number]
            number += 1
        if not same and found[text] == SAME:
            found[text] = OTHER_IDS
