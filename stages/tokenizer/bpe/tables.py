"""Tables of a BPE model: which symbols merge, to which piece, and which characters ever stand together.

A symbol is a piece, by its id, or a character that has no piece of its own, by a number from V on.

    pieces    0 "_"   1 "t"   2 "h"   3 "e"   4 "th"   5 "the"   6 "_the"
    merges    t h -> th       th e -> the     _ the -> _the
    joined    t h,  h e,  _ t

V pieces.

Which models are encoded here: plain BPE, whose ids depend on merges alone.
"""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.byte_kernels import ASCII, EMPTY, code_point, first_slot, free_slot, next_slot
from stages.hashing import FNV_PRIME, GOLDEN
from stages.kernels import kernel, lean_kernel
from stages.tokenizer.bpe.merging import MISSING, Merges, hash_pair, merges_of
from stages.tokenizer.bpe.whole_pieces import WholePieces, whole_pieces
from stages.tokenizer.sampling import SPACE_SYMBOL
from stages.tokenizer.sentencepiece_model import ModelKind, PieceType, SentencePieceModel

UNKNOWN, SPACE_SIGN = -1, -2
"""Instead of a symbol: the character stands in no piece; it is the sign that pieces have for a space."""
_SPACE, _SIGN = 0x20, 0x2581
_CHARACTERS = 0x110000
_JOINED_BITS = 20
_ONE, _WORD, _HALF = np.uint64(1), np.uint64(6), np.uint64(32)


class BpeTables(NamedTuple):
    """A model as kernels take it."""

    symbols: NDArray[np.int32]
    """(0x110000,) of each character, or `UNKNOWN` or `SPACE_SIGN`."""
    ascii_joined: NDArray[np.bool_]
    """(128 * 128,) whether two characters of ASCII stand side by side in a piece."""
    joined: NDArray[np.uint64]
    """(2**14,) a bit for each hash of two symbols: clear if they never stand side by side in a piece."""
    merges: Merges
    """The rank of each is that of the piece that it gives."""
    byte_ids: NDArray[np.int32]
    """(256,) of single bytes."""
    vocab_size: int
    whole: WholePieces


class PieceTable(NamedTuple):
    """N pieces by their bytes."""

    data: NDArray[np.uint8]
    """(B,) where the pieces lie."""
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    ids: NDArray[np.int32]
    """(N,) of each."""
    slots: NDArray[np.int32]
    """Hash table of their numbers; of no slot if there is no piece."""


def piece_table(
    data: bytes, begins: NDArray[np.int64], ends: NDArray[np.int64], ids: NDArray[np.int32]
) -> PieceTable:
    """Return the table of pieces, no two alike, that lie in some bytes."""
    slots = np.full(1 << (2 * len(ids)).bit_length() if len(ids) else 0, EMPTY, np.int32)
    pieces = PieceTable(np.frombuffer(data, np.uint8), begins, ends, ids, slots)
    fill_pieces(pieces)
    return pieces


def bpe_tables(
    pieces: PieceTable,
    ranks: NDArray[np.int32],
    byte_ids: NDArray[np.int32],
    whole: WholePieces,
    *,
    vocab_size: int,
) -> BpeTables:
    """Return the tables of a model.

    Args:
        pieces: that merging can give, with U+2581 for a space.
        ranks: (N,) of each, the best 0; pieces of one score have one rank.
        byte_ids: (256,) ids of the single bytes.
        whole: pieces that a text gives wherever they are written.
        vocab_size: V.
    """
    most = max(1, int((pieces.ends - pieces.begins).sum()))
    symbols = np.full(_CHARACTERS, UNKNOWN, np.int32)
    ascii_joined = np.zeros(ASCII * ASCII, np.bool_)
    joined = np.zeros(1 << _JOINED_BITS >> 6, np.uint64)
    found = np.empty((most, 2), np.int32)
    results = np.empty(most, np.int32)
    name_characters(pieces, symbols, vocab_size)
    count = find_merges(pieces, symbols, found, results)
    join_characters(pieces, symbols, ascii_joined, joined)
    symbols[_SPACE] = symbols[_SIGN]
    symbols[_SIGN] = SPACE_SIGN
    given = results[:count]
    merges = merges_of(found[:count], ranks[given], pieces.ids[given])
    return BpeTables(symbols, ascii_joined, joined, merges, byte_ids, vocab_size, whole)


@lean_kernel
def _joined_bit(left: int, right: int) -> np.uint64:
    """Return which bit says that two symbols may stand side by side."""
    return np.uint64(hash_pair(left, right) >> np.uint64(64 - _JOINED_BITS))


@lean_kernel
def are_joined(left: int, right: int, joined: NDArray[np.uint64]) -> np.bool_:
    """Say whether two symbols may stand side by side in a piece: if they do, it is True."""
    bit = _joined_bit(left, right)
    return np.bool_(joined[bit >> _WORD] >> (bit & np.uint64(63)) & _ONE)


@lean_kernel
def name_characters(pieces: PieceTable, symbols: NDArray[np.int32], vocab_size: int) -> None:
    """Fill in the symbol of each character that stands in a piece."""
    for number in range(len(pieces.ids)):
        point, size = code_point(pieces.data, pieces.begins[number])
        if pieces.begins[number] + size == pieces.ends[number]:
            symbols[point] = pieces.ids[number]
    free = vocab_size
    for number in range(len(pieces.ids)):
        place = pieces.begins[number]
        while place < pieces.ends[number]:
            point, size = code_point(pieces.data, place)
            place += size
            if symbols[point] == UNKNOWN:
                symbols[point] = free
                free += 1


@lean_kernel
def join_characters(
    pieces: PieceTable,
    symbols: NDArray[np.int32],
    ascii_joined: NDArray[np.bool_],
    joined: NDArray[np.uint64],
) -> None:
    """Fill in which characters stand side by side in a piece."""
    for number in range(len(pieces.ids)):
        left, size = code_point(pieces.data, pieces.begins[number])
        place = pieces.begins[number] + size
        while place < pieces.ends[number]:
            right, size = code_point(pieces.data, place)
            place += size
            bit = _joined_bit(symbols[left], symbols[right])
            joined[bit >> _WORD] |= _ONE << (bit & np.uint64(63))
            first, second = _SPACE if left == _SIGN else left, _SPACE if right == _SIGN else right
            if first < ASCII and second < ASCII:
                ascii_joined[first * ASCII + second] = True
            left = right


@kernel
def find_merges(
    pieces: PieceTable,
    symbols: NDArray[np.int32],
    found: NDArray[np.int32],
    results: NDArray[np.int32],
) -> int:
    """Return how many pairs of symbols give a piece; fill in the pairs, and the number of each piece."""
    longest = 0
    for number in range(len(pieces.ids)):
        longest = max(longest, pieces.ends[number] - pieces.begins[number])
    powers, hashes = np.ones(longest + 1, np.uint64), np.zeros(longest + 1, np.uint64)
    for place in range(longest):
        powers[place + 1] = powers[place] * FNV_PRIME
    count = 0
    for number in range(len(pieces.ids)):
        begin, end = pieces.begins[number], pieces.ends[number]
        size = end - begin
        for place in range(size):
            hashes[place + 1] = hashes[place] * FNV_PRIME + np.uint64(pieces.data[begin + place]) + _ONE
        cut = code_point(pieces.data, begin)[1]
        while cut < size:
            left = _symbol_of(pieces, symbols, hashes[cut], begin, begin + cut)
            if left != MISSING:
                behind = hashes[size] - hashes[cut] * powers[size - cut]
                right = _symbol_of(pieces, symbols, behind, begin + cut, end)
                if right != MISSING:
                    found[count, 0], found[count, 1], results[count] = left, right, number
                    count += 1
            cut += code_point(pieces.data, begin + cut)[1]
    return count


@lean_kernel
def hash_bytes(data: NDArray[np.uint8], begin: int, end: int) -> np.uint64:
    """Return a hash of which those of parts are known from those of beginnings."""
    total = np.uint64(0)
    for place in range(begin, end):
        total = total * FNV_PRIME + np.uint64(data[place]) + _ONE
    return total


@lean_kernel
def _mixed(total: np.uint64, size: int) -> np.uint64:
    """Return 64 bits of a hash and how many bytes it is of."""
    bits = (total ^ np.uint64(size)) * GOLDEN
    return np.uint64(bits ^ bits >> _HALF)


@lean_kernel
def fill_pieces(pieces: PieceTable) -> None:
    """Put pieces into their slots, which are empty."""
    for number in range(len(pieces.ids)):
        begin, end = pieces.begins[number], pieces.ends[number]
        bits = _mixed(hash_bytes(pieces.data, begin, end), end - begin)
        pieces.slots[free_slot(bits, pieces.slots)] = number


@lean_kernel
def find_piece(
    data: NDArray[np.uint8], begin: int, end: int, total: np.uint64, pieces: PieceTable
) -> np.int64:
    """Return the id of some bytes whose hash is known, or `MISSING`; there must be pieces."""
    slot = first_slot(_mixed(total, end - begin), pieces.slots)
    while pieces.slots[slot] != EMPTY:
        number = pieces.slots[slot]
        first = pieces.begins[number]
        if pieces.ends[number] - first == end - begin:
            place = 0
            while place < end - begin and pieces.data[first + place] == data[begin + place]:
                place += 1
            if place == end - begin:
                return np.int64(pieces.ids[number])
        slot = next_slot(slot, pieces.slots)
    return np.int64(MISSING)


@lean_kernel
def _symbol_of(
    pieces: PieceTable, symbols: NDArray[np.int32], total: np.uint64, begin: int, end: int
) -> np.int64:
    """Return the symbol of some bytes of a piece, of which the hash is known, or `MISSING`."""
    point, size = code_point(pieces.data, begin)
    if begin + size == end:
        return np.int64(symbols[point])
    return find_piece(pieces.data, begin, end, total, pieces)


_BYTES = 256
MOST_BEGINNINGS = 64
"""Pieces that are matched as a whole and begin one another: the library has room for so many."""


def tables_of(model: SentencePieceModel) -> BpeTables | None:
    """Return the tables of a model without a normaliser; None if its ids are not those of plain merging.

    So it is if the model is no BPE model, has no piece for a single byte or for the space, takes pieces
    apart again after merging, or has scores of both 0.0 and -0.0, which are equal and which the library
    tells apart.
    """
    types = model.types
    if model.kind is not ModelKind.BPE or (types == PieceType.UNUSED).any():
        return None
    space = SPACE_SYMBOL.encode()
    defined = np.flatnonzero(types == PieceType.USER_DEFINED).tolist()
    user_defined = {model.texts[number]: number for number in defined}
    text = (PieceType.NORMAL, PieceType.USER_DEFINED)
    special = [model.texts[number].decode() for number in np.flatnonzero(~np.isin(types, text))]
    byte_ids, ids = np.flatnonzero(types == PieceType.BYTE), np.flatnonzero(types == PieceType.NORMAL)
    normal = {model.texts[number] for number in ids.tolist()}
    zeros = model.scores[ids][model.scores[ids] == 0]
    if (
        len(byte_ids) != _BYTES
        or 0 < np.count_nonzero(np.signbit(zeros)) < len(zeros)
        or any(len(text) == 1 for text in special)  # which the character by itself would give
        or space not in normal
        or any(b" " in text for text in normal | user_defined.keys())
        or most_beginnings(user_defined) > MOST_BEGINNINGS
    ):
        return None
    values = [int(model.texts[number][1:-1], 16) for number in byte_ids.tolist()]
    of_bytes = np.empty(_BYTES, np.int32)
    of_bytes[values] = byte_ids
    begins, ends = model.extents
    _, ranks = np.unique(-model.scores[ids], return_inverse=True)
    pieces = piece_table(model.data, begins[ids], ends[ids], ids.astype(np.int32))
    whole = whole_pieces({text.replace(space, b" "): number for text, number in user_defined.items()})
    return bpe_tables(pieces, ranks.astype(np.int32), of_bytes, whole, vocab_size=len(types))


def most_beginnings(pieces: Collection[bytes]) -> int:
    """Return how many pieces begin one another at the most: a, ab and abc are 3."""
    found: dict[bytes, int] = {}
    for piece in sorted(pieces):
        longest = next((piece[:n] for n in range(len(piece) - 1, 0, -1) if piece[:n] in found), b"")
        found[piece] = found.get(longest, 0) + 1
    return max(found.values(), default=0)
