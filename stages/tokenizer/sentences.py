"""Sentences: where each of a document's sentences ends, counted in tokens.

    text        Hello world.  Who?
    sentences   [Hello world.][  Who?]      white space opens the sentence behind it
    tokens      Hello _world . __ Who ?     sizes in bytes 5 6 1 2 3 1
    ends        3 6

sentencex splits, by the language's own rules and abbreviations where it has any, else by its default:
it needs no model and rather leaves two sentences together than cuts one. White space between two
sentences opens the second, so that tokens, which begin with their space, lie in one sentence each; a
token that does lie in two belongs to the first. A paragraph break ends a sentence.

What is split is what the ids decode to, so the token store is all that is needed.
"""

from collections.abc import Sequence

import numpy as np
import sentencex
from numpy.typing import NDArray

from stages.kernels import kernel
from stages.pieces import pieces_of


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
