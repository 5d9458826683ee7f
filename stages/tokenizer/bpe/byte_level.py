"""Byte-level BPE: each byte of a text is a symbol, and pieces end where the pre-tokenizer cuts.

    "it's low"   cut      "it" | "'s" | " low"
    " low"       bytes    20 6c 6f 77   ->   merged   " lo" "w"

Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.2.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.kernels import lean_kernel
from stages.tokenizer.bpe.merges import MISSING, Merges
from stages.tokenizer.bpe.merging import LONGEST_WORD, WordScratch, merge_word
from stages.tokenizer.bpe.remembered import (
    MOST_BYTES,
    Remembered,
    key_of,
    recall,
    remember,
    slot_of,
)
from stages.tokenizer.bpe.tables import hash_bytes, mix_bytes
from stages.tokenizer.bpe.whole_pieces import WholePieces, next_whole
from stages.tokenizer.splitting.automaton import Splits
from stages.tokenizer.splitting.matching import begin_text, next_piece
from stages.tokenizer.texts import JoinedTexts

_ONE = np.uint64(1)


class WholeWords(NamedTuple):
    """W pieces that a word of the same bytes gives, whatever merging would; S slots of a hash table."""

    data: NDArray[np.uint8]
    """(B,) their bytes."""
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    ids: NDArray[np.int32]
    """(W,) of each."""
    slots: NDArray[np.int32]
    """(S,) which word is there, or `MISSING`; S is 0 if words are always merged."""


class ByteTables(NamedTuple):
    """A byte-level model as kernels take it."""

    byte_ids: NDArray[np.int32]
    """(256,) of single bytes."""
    merges: Merges
    whole: WholeWords
    splits: Splits
    written: WholePieces
    """Texts that are cut out before anything else; each is one token."""


def whole_words(pieces: list[bytes], ids: NDArray[np.int32]) -> WholeWords:
    """Return the table of words with their ids."""
    sizes = np.fromiter(map(len, pieces), np.int64, len(pieces))
    ends = np.cumsum(sizes)
    room = 1 << (2 * len(pieces)).bit_length() if pieces else 0
    slots = np.full(room, MISSING, np.int32)
    words = WholeWords(np.frombuffer(b"".join(pieces), np.uint8), ends - sizes, ends, ids, slots)
    fill_words(words)
    return words


@lean_kernel
def fill_words(words: WholeWords) -> None:
    """Put words into their slots, which are empty."""
    mask = np.uint64(len(words.slots) - 1)
    for number in range(len(words.ids)):
        begin, end = words.begins[number], words.ends[number]
        slot = mix_bytes(hash_bytes(words.data, begin, end), end - begin) & mask
        while words.slots[slot] != MISSING:
            slot = slot + _ONE & mask
        words.slots[slot] = number


@lean_kernel
def find_word(data: NDArray[np.uint8], begin: int, end: int, words: WholeWords) -> int:
    """Return the id of a word that is a piece, or `MISSING`."""
    if len(words.slots) == 0:
        return MISSING
    mask = np.uint64(len(words.slots) - 1)
    slot = mix_bytes(hash_bytes(data, begin, end), end - begin) & mask
    while words.slots[slot] != MISSING:
        number = words.slots[slot]
        first = words.begins[number]
        if words.ends[number] - first == end - begin:
            place = 0
            while place < end - begin and words.data[first + place] == data[begin + place]:
                place += 1
            if place == end - begin:
                return np.int64(words.ids[number])  # type: ignore[return-value]
        slot = slot + _ONE & mask
    return MISSING


@lean_kernel
def encode_bytes(
    texts: JoinedTexts,
    first: int,
    ids: NDArray[np.integer],
    ends: NDArray[np.int64],
    tables: ByteTables,
    known: Remembered,
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
    data = texts.data
    filled = ends[first - 1] if first else 0
    for text in range(first, len(texts.offsets) - 1):
        place, text_end = texts.offsets[text], texts.offsets[text + 1]
        written, end, behind = next_whole(data, place, text_end, tables.written)
        begin_text(place, end, tables.splits)
        while place < text_end:
            if place == end:
                ids[filled] = written
                filled += 1
                place = behind
                written, end, behind = next_whole(data, place, text_end, tables.written)
                begin_text(place, end, tables.splits)
                continue
            begin = place
            place = next_piece(begin, data, tables.splits)
            size = place - begin
            if size > LONGEST_WORD:
                return text
            if size == 1:
                ids[filled] = tables.byte_ids[data[begin]]
                filled += 1
                continue
            if size > MOST_BYTES:
                filled = _write(begin, place, filled, ids, data, tables, scratch)
                continue
            key = key_of(texts.words, begin, size)
            slot, is_known = slot_of(key, known)
            if is_known:
                filled = recall(slot, known, filled, ids)
                continue
            before = filled
            filled = _write(begin, place, filled, ids, data, tables, scratch)
            remember(slot, key, known, before, filled, ids)
        ends[text] = filled
    return len(texts.offsets) - 1


@lean_kernel
def _write(
    begin: int,
    end: int,
    filled: int,
    ids: NDArray[np.integer],
    data: NDArray[np.uint8],
    tables: ByteTables,
    scratch: WordScratch,
) -> int:
    """Write the ids of a word behind those that are filled in; return how many are, then."""
    whole = find_word(data, begin, end, tables.whole)
    if whole != MISSING:
        ids[filled] = whole
        return filled + 1
    for place in range(begin, end):
        scratch.symbols[place - begin] = tables.byte_ids[data[place]]
        scratch.begins[place - begin] = place
    scratch.begins[end - begin] = end
    left = merge_word(end - begin, tables.merges, scratch)
    for number in range(left):
        ids[filled] = scratch.symbols[number]
        filled += 1
    return filled
