"""Byte-level BPE: each byte of a text is a symbol, and pieces end where the pre-tokenizer cuts.

    "it's low"   cut      "it" | "'s" | " low"
    " low"       bytes    20 6c 6f 77   ->   merged   " lo" "w"

Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.2.

Which tokenizer.json are encoded here: byte-level BPE whose pre-tokenizer cuts by expressions.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.kernels import lean_kernel
from stages.tokenizer.bpe.merging import (
    LONGEST_WORD,
    MISSING,
    Merges,
    WordScratch,
    merge_word,
    merges_of,
)
from stages.tokenizer.bpe.tables import PieceTable, find_piece, hash_bytes, piece_table
from stages.tokenizer.bpe.whole_pieces import WholePieces, next_whole, whole_pieces
from stages.tokenizer.bpe.word_cache import (
    MOST_BYTES,
    WordCache,
    key_of,
    recall,
    remember,
    word_slot,
)
from stages.tokenizer.huggingface_content import BYTE_OF, ReadFile, kind_of_model, pairs_of
from stages.tokenizer.splitting.automaton import Splits, begin_text, next_pre_token
from stages.tokenizer.splitting.pre_tokenizer import byte_level_splits
from stages.tokenizer.texts import JoinedTexts


class ByteTables(NamedTuple):
    """A byte-level model as kernels take it."""

    byte_ids: NDArray[np.int32]
    """(256,) of single bytes."""
    merges: Merges
    whole: PieceTable
    """Pieces that a word of the same bytes gives, whatever merging would."""
    splits: Splits
    added: WholePieces
    """Texts that are cut out before anything else; each is one token."""


@lean_kernel
def encode_bytes(
    texts: JoinedTexts,
    first: int,
    ids: NDArray[np.integer],
    ends: NDArray[np.int64],
    tables: ByteTables,
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
    data = texts.data
    filled = ends[first - 1] if first else 0
    for text in range(first, len(texts.offsets) - 1):
        place, text_end = texts.offsets[text], texts.offsets[text + 1]
        added, end, behind = next_whole(data, place, text_end, tables.added)
        begin_text(place, end, tables.splits)
        while place < text_end:
            if place == end:
                ids[filled] = added
                filled += 1
                place = behind
                added, end, behind = next_whole(data, place, text_end, tables.added)
                begin_text(place, end, tables.splits)
                continue
            begin = place
            place = next_pre_token(begin, data, tables.splits)
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
            slot, is_known = word_slot(key, known)
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
    if len(tables.whole.ids):
        whole = find_piece(data, begin, end, hash_bytes(data, begin, end), tables.whole)
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


_BYTES = 256
_NOTHING: Mapping[bytes, int] = {}
_OTHER_RULES = ("dropout", "continuing_subword_prefix", "end_of_word_suffix")


def byte_tables_of(file: ReadFile, added: Mapping[bytes, int] = _NOTHING) -> ByteTables | None:
    """Return the tables of a file; None if its ids are not those of bytes merged in words.

    Its normaliser and what was added to its vocabulary are left to the caller.

    Args:
        file: as the library loads it.
        added: texts that are cut out before anything else, with their ids.
    """
    model = file["model"]
    if kind_of_model(model) != "BPE" or any(model.get(rule) for rule in _OTHER_RULES):
        return None
    vocab = model["vocab"]
    if not BYTE_OF.keys() <= vocab.keys():
        return None
    splits = byte_level_splits(file["pre_tokenizer"])
    if splits is None:
        return None
    byte_ids = np.empty(_BYTES, np.int32)
    byte_ids[list(BYTE_OF.values())] = [vocab[piece] for piece in BYTE_OF]
    rules = {  # of two merges of the same symbols the later counts
        (vocab[one], vocab[two]): (rank, vocab[one + two])
        for rank, (one, two) in enumerate(pairs_of(model["merges"]))
    }
    given = np.array(list(rules.values()), np.int32).reshape(-1, 2)
    merges = merges_of(np.array(list(rules), np.int32).reshape(-1, 2), given[:, 0], given[:, 1])
    words = vocab if model.get("ignore_merges") else {}
    spelled = {piece: number for piece, number in words.items() if BYTE_OF.keys() >= set(piece)}
    pieces = [bytes(map(BYTE_OF.__getitem__, piece)) for piece in spelled]
    sizes = np.fromiter(map(len, pieces), np.int64, len(pieces))
    ends, ids = np.cumsum(sizes), np.array([*spelled.values()], np.int32)
    return ByteTables(
        byte_ids,
        merges,
        piece_table(b"".join(pieces), ends - sizes, ends, ids),
        splits,
        whole_pieces(added),
    )
