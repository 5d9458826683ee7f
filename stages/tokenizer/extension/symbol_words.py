"""Words as symbols: the ids that a tokenizer gives, and characters that it has no piece for."""

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from stages.tokenizer.extension.learning import SymbolWords

EncodeParts = Callable[[Sequence[str]], list[NDArray[np.integer]]]
"""Gives the ids of each of some parts of words, of which every character has a piece."""


def symbol_words(
    counts: Sequence[Mapping[str, int]], encode: EncodeParts, characters: Sequence[str], *, first: int
) -> SymbolWords:
    """Return words as symbols.

    Args:
        counts: how often each word stands in the text of each of L languages.
        encode: gives the ids of parts of words.
        characters: without a piece.
        first: the symbol of the first of these.
    """
    words = sorted(set().union(*counts))
    number_of = {character: first + n for n, character in enumerate(characters)}
    cut = re.compile(f"([{''.join(map(re.escape, characters))}])") if characters else None
    parts = [[word] if cut is None else [part for part in cut.split(word) if part] for word in words]
    distinct = sorted({part for own in parts for part in own if part not in number_of})
    ids = dict(zip(distinct, encode(distinct), strict=True))
    ids |= {one: np.array([number], np.int32) for one, number in number_of.items()}
    arrays = [
        ids[own[0]] if len(own) == 1 else np.concatenate([ids[part] for part in own]) for own in parts
    ]
    sizes = np.fromiter(map(len, arrays), np.int64, len(arrays))
    weights = np.array([[own.get(word, 0) for own in counts] for word in words], np.int64)
    symbols = np.concatenate([np.empty(0, np.int32), *arrays]).astype(np.int32)
    kept = sizes > 0
    return SymbolWords(symbols, sizes[kept], weights.reshape(-1, len(counts))[kept])
