"""Which models are encoded here: plain BPE, whose ids depend on merges alone."""

from collections.abc import Collection

import numpy as np

from stages.tokenizer.bpe.tables import BpeTables, ModelPieces, bpe_tables
from stages.tokenizer.bpe.whole_pieces import whole_pieces
from stages.tokenizer.sampling import SPACE_SYMBOL
from stages.tokenizer.sentencepiece_model import ModelKind, PieceType, SentencePieceModel

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
    written = {model.texts[number]: number for number in defined}
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
        or any(b" " in text for text in normal | written.keys())
        or most_beginnings(written) > MOST_BEGINNINGS
    ):
        return None
    values = [int(model.texts[number][1:-1], 16) for number in byte_ids.tolist()]
    of_bytes = np.empty(_BYTES, np.int32)
    of_bytes[values] = byte_ids
    begins, ends = model.extents
    _, ranks = np.unique(-model.scores[ids], return_inverse=True)
    pieces = ModelPieces(
        np.frombuffer(model.data, np.uint8),
        begins[ids],
        ends[ids],
        ids.astype(np.int32),
        ranks.astype(np.int32),
    )
    whole = whole_pieces({text.replace(space, b" "): number for text, number in written.items()})
    return bpe_tables(pieces, of_bytes, whole, vocab_size=len(types))


def most_beginnings(pieces: Collection[bytes]) -> int:
    """Return how many pieces begin one another at the most: a, ab and abc are 3."""
    found: dict[bytes, int] = {}
    for piece in sorted(pieces):
        longest = next((piece[:n] for n in range(len(piece) - 1, 0, -1) if piece[:n] in found), b"")
        found[piece] = found.get(longest, 0) + 1
    return max(found.values(), default=0)
