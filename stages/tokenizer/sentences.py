r"""Words and sentences: which ids begin a word, and where sentences end, counted in tokens.

    text        Hello world.  Who?
    sentences   [Hello world.][  Who?]      white space opens the sentence behind it
    tokens      Hello _world . __ Who ?     sizes in bytes 5 6 1 2 3 1
    ends        3 6

sentencex splits, by the language's own rules and abbreviations where it has any, else by its default:
it needs no model and rather leaves two sentences together than cuts one. White space between two
sentences opens the second, so that tokens, which begin with their space, lie in one sentence each; a
token that does lie in two belongs to the first. A paragraph break ends a sentence.

What is split is what the ids decode to, so the token store is all that is needed.

Words: which ids begin one, so that masks can cover a word as a whole.

A word begins at a space, at any other character that is neither letter, mark nor digit, and at each
character of a script without spaces. What follows belongs to it up to the next beginning.

    pieces   _The  _qui  ck  ,  _fox  \\n  \u732b  <0xE7> <0x8C>
    begins     #     #   .   #    #    #    #       #      .
"""

import unicodedata
from collections.abc import Sequence

import numpy as np
import sentencex
from numpy.typing import NDArray

from stages.kernels import kernel
from stages.pieces import pieces_of
from stages.scripts import UNSPACED
from stages.tokenizer.sampling import SPACE_SYMBOL


def sentence_ends(text: str, language: str | None) -> NDArray[np.int64]:
    """Return where each sentence of a text ends, in characters: (S,), ascending, the last one all of it.

    "Hello world.  Who?" -> 12 18

    Args:
        text: any; nothing but white space is one sentence, no text none.
        language: a tag such as "en" or "zh-Hans"; one that has no rules of its own gets the default.
    """
    tag = (language or "").partition("-")[0]
    ends = []
    for found in sentencex.get_sentence_boundaries(tag, text):
        end = found["start_index"] + len(found["text"].rstrip())
        if end > found["start_index"]:
            ends.append(end)
    return np.array([*ends[:-1], len(text)] if text else [], np.int64)


def token_ends(text: str, ends: NDArray[np.int64], sizes: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return after how many tokens each sentence ends: (at most S,), ascending, the last one all tokens.

    Args:
        text: what the tokens decode to.
        ends: (S,) of `sentence_ends`.
        sizes: (T,) the bytes of each token, which add up to the text's.
    """
    bytes_ = _in_bytes(np.frombuffer(text.encode(), np.uint8), ends)
    behind = np.cumsum(sizes)
    assert len(text) == 0 or behind[-1] == bytes_[-1], "ids that decode to another text"
    return np.unique(np.searchsorted(behind, bytes_, side="left") + 1)


def split_sentences(
    ids: NDArray[np.integer], language: str | None, pieces: Sequence[bytes]
) -> NDArray[np.int64]:
    """Return after how many tokens each sentence of a document ends: (S,), ascending; the last is all.

    A token of no bytes, such as the EOS at its end, belongs to the sentence before it.

    Args:
        ids: (T,) of one document.
        language: its tag, if it has one.
        pieces: what each id decodes to.
    """
    known = pieces_of(pieces)
    text = known.spell(ids).tobytes().decode()
    ends = token_ends(text, sentence_ends(text, language), known.sizes[ids])
    if len(ids):
        ends = np.append(ends[:-1], len(ids))
    return ends


@kernel
def _in_bytes(raw: NDArray[np.uint8], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return after how many bytes of UTF-8 each end lies that is counted in characters: (S,).

    "é.b" as c3 a9 2e 62, ends 2 3 -> 3 4
    """
    found = np.full(len(ends), len(raw))
    number = characters = 0
    for place in range(len(raw)):
        if raw[place] & 0xC0 == 0x80:  # noqa: PLR2004  # continues a character
            continue
        while number < len(ends) and ends[number] == characters:
            found[number] = place
            number += 1
        characters += 1
    return found


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
