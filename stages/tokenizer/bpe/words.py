"""Words: a text is cut where no piece can cross; words met before are not merged again.

    "the cat"   cut         "the" | " cat"       no piece has an "e" and then a space
    " cat"      remembered  its ids, by its bytes

A word is a run of characters of which each two neighbours stand side by side in some piece, so what is
merged in one word depends on no other. It ends where a whole piece begins.
"""

import numpy as np
from numpy.typing import NDArray

from stages.byte_kernels import ASCII, code_point
from stages.kernels import lean_kernel
from stages.tokenizer.bpe.merging import LONGEST_WORD, MISSING, WordScratch, merge_word
from stages.tokenizer.bpe.tables import BpeTables, are_joined
from stages.tokenizer.bpe.whole_pieces import find_whole
from stages.tokenizer.bpe.word_cache import (
    MOST_BYTES,
    WordCache,
    key_of,
    recall,
    remember,
    word_slot,
)
from stages.tokenizer.texts import JoinedTexts


@lean_kernel
def encode_texts(
    texts: JoinedTexts,
    first: int,
    ids: NDArray[np.integer],
    ends: NDArray[np.int64],
    tables: BpeTables,
    known: WordCache,
    scratch: WordScratch,
) -> int:
    """Encode texts from one on; return the number of the first that has too long a word, or D.

    Args:
        texts: D texts.
        first: the number of the first that is encoded.
        ids: (B,) filled in.
        ends: (D,) where the ids of each end; filled in, and known of those before the first.
        tables: the model.
        known: words.
        scratch: room.
    """
    data, begins = texts.data, scratch.begins
    filled = ends[first - 1] if first else 0
    for text in range(first, len(texts.offsets) - 1):
        place, end = texts.offsets[text], texts.offsets[text + 1]
        unbroken, after_whole = place, True
        while place < end:
            begin = place
            whole, place = find_whole(data, begin, end, tables.whole)
            unbroken = unbroken if after_whole or whole != MISSING else begin
            after_whole = whole != MISSING
            if begin - unbroken > LONGEST_WORD:
                return text
            if whole != MISSING:
                ids[filled] = whole
                filled += 1
                continue
            count = _cut(data, begin, end, tables, scratch)
            if count > LONGEST_WORD:
                return text
            place = begins[count]
            size = place - begin
            if count == 1:
                filled = _write(1, filled, ids, data, tables, scratch)
                continue
            if size > MOST_BYTES:
                left = merge_word(count, tables.merges, scratch)
                filled = _write(left, filled, ids, data, tables, scratch)
                continue
            key = key_of(texts.words, begin, size)
            slot, is_known = word_slot(key, known)
            if is_known:
                filled = recall(slot, known, filled, ids)
                continue
            before = filled
            left = merge_word(count, tables.merges, scratch)
            filled = _write(left, filled, ids, data, tables, scratch)
            remember(slot, key, known, before, filled, ids)
        ends[text] = filled
    return len(texts.offsets) - 1


@lean_kernel
def _cut(data: NDArray[np.uint8], place: int, end: int, tables: BpeTables, scratch: WordScratch) -> int:
    """Fill in the symbols of the word at a place; return how many, or more than there is room for."""
    symbols, begins, roots = scratch.symbols, scratch.begins, tables.whole.roots
    point, size = code_point(data, place)
    left, symbol = point, tables.symbols[point]
    symbols[0], begins[0], count = symbol, place, 1
    place += size
    while place < end:
        point, size = code_point(data, place)
        right = tables.symbols[point]
        if left < ASCII and point < ASCII:
            if not tables.ascii_joined[left * ASCII + point]:
                break
        elif symbol < 0 or right < 0 or not are_joined(symbol, right, tables.joined):
            break
        if roots[data[place]] >= 0 and find_whole(data, place, end, tables.whole)[0] >= 0:
            break
        if count == LONGEST_WORD:
            return LONGEST_WORD + 1
        symbols[count], begins[count] = right, place
        left, symbol = point, right
        count += 1
        place += size
    begins[count] = place
    return count


@lean_kernel
def _write(
    count: int,
    filled: int,
    ids: NDArray[np.integer],
    data: NDArray[np.uint8],
    tables: BpeTables,
    scratch: WordScratch,
) -> int:
    """Write the ids of symbols behind those that are filled in; return how many are, then."""
    for number in range(count):
        symbol = scratch.symbols[number]
        if 0 <= symbol < tables.vocab_size:
            ids[filled] = symbol
            filled += 1
        else:
            for place in range(scratch.begins[number], scratch.begins[number + 1]):
                ids[filled] = tables.byte_ids[data[place]]
                filled += 1
    return filled
