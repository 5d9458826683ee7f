r"""Words: which ids begin one, so that masks can cover a word as a whole.

A word begins at a space, at any other character that is neither letter, mark nor digit, and at each
character of a script without spaces. What follows belongs to it up to the next beginning.

    pieces   _The  _qui  ck  ,  _fox  \\n  \u732b  <0xE7> <0x8C>
    begins     #     #   .   #    #    #    #       #      .
"""

import unicodedata
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stages.scripts import UNSPACED
from stages.tokenizer.sampling import SPACE_SYMBOL

_CONTINUATION = range(0x80, 0xC0)
"""Bytes of UTF-8 that begin no character."""


def word_starts(pieces: Sequence[str], is_byte: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Say of every id whether it begins a word.

    Args:
        pieces: of all ids, as SentencePiece writes them.
        is_byte: (V,) which ids are single bytes, written <0x00> .. <0xFF>.

    Returns:
        (V,) bool; that of special ids, which are no words, is True.
    """
    found = [
        _byte_begins(int(piece[1:-1], 16)) if byte else _begins(piece[:1])
        for piece, byte in zip(pieces, is_byte.tolist(), strict=True)
    ]
    return np.array(found, np.bool_)


def starts_of_spelled(pieces: Sequence[bytes]) -> NDArray[np.bool_]:
    """Say of every id whether it begins a word, by the bytes that it stands for.

    Args:
        pieces: of all ids; nothing for special ids.

    Returns:
        (V,) bool; that of ids that stand for nothing is True.
    """
    return np.array([_spelled_begins(piece) for piece in pieces], np.bool_)


def _spelled_begins(piece: bytes) -> bool:
    if piece and piece[0] in _CONTINUATION:
        return False
    first = piece[:4].decode(errors="ignore")[:1]
    return not first or _begins(SPACE_SYMBOL if first == " " else first)


def _byte_begins(byte: int) -> bool:
    return byte not in _CONTINUATION and (byte >= _CONTINUATION.stop or _begins(chr(byte)))


def _begins(character: str) -> bool:
    if character == SPACE_SYMBOL or UNSPACED.match(character):
        return True
    return unicodedata.category(character or " ")[0] not in "LMN"
