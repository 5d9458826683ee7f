"""Which models are encoded here: plain BPE, whose ids depend on merges alone."""

import numpy as np

from stages.tokenizer.bpe.tables import BpeTables, ModelPieces, bpe_tables
from stages.tokenizer.sampling import SPACE_SYMBOL
from stages.tokenizer.sentencepiece_model import ModelKind, PieceType, SentencePieceModel

_BYTES = 256


def tables_of(model: SentencePieceModel) -> BpeTables | None:
    """Return the tables of a model without a normaliser; None if its ids are not those of plain merging.

    So it is if the model is no BPE model, has no piece for a single byte or for the space, matches some
    pieces as a whole wherever they stand, takes pieces apart again after merging, or has scores of both
    0.0 and -0.0, which are equal and which the library tells apart.
    """
    types = model.types
    other_rules = (PieceType.USER_DEFINED, PieceType.UNUSED)
    if model.kind is not ModelKind.BPE or np.isin(types, other_rules).any():
        return None
    special = [model.texts[number].decode() for number in np.flatnonzero(types != PieceType.NORMAL)]
    byte_ids, ids = np.flatnonzero(types == PieceType.BYTE), np.flatnonzero(types == PieceType.NORMAL)
    normal = {model.texts[number] for number in ids.tolist()}
    zeros = model.scores[ids][model.scores[ids] == 0]
    if (
        len(byte_ids) != _BYTES
        or 0 < np.count_nonzero(np.signbit(zeros)) < len(zeros)
        or any(len(text) == 1 for text in special)  # which the character by itself would give
        or SPACE_SYMBOL.encode() not in normal
        or any(b" " in text for text in normal)
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
    return bpe_tables(pieces, of_bytes, vocab_size=len(types))
