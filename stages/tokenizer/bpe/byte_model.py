"""Which tokenizer.json are encoded here: byte-level BPE whose pre-tokenizer cuts by expressions."""

from collections.abc import Mapping

import numpy as np

from stages.tokenizer.bpe.byte_level import ByteTables, whole_words
from stages.tokenizer.bpe.merges import merges_of
from stages.tokenizer.bpe.whole_pieces import whole_pieces
from stages.tokenizer.huggingface_content import BYTE_OF, ReadFile, kind_of_model, pairs_of
from stages.tokenizer.splitting.pre_tokenizer import byte_level_splits

_BYTES = 256
_NOTHING: Mapping[bytes, int] = {}
_OTHER_RULES = ("dropout", "continuing_subword_prefix", "end_of_word_suffix")


def byte_tables_of(file: ReadFile, written: Mapping[bytes, int] = _NOTHING) -> ByteTables | None:
    """Return the tables of a file; None if its ids are not those of bytes merged in words.

    Its normaliser and what was added to its vocabulary are left to the caller.

    Args:
        file: as the library loads it.
        written: texts that are cut out before anything else, with their ids.
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
    return ByteTables(
        byte_ids,
        merges,
        whole_words(pieces, np.array([*spelled.values()], np.int32)),
        splits,
        whole_pieces(written),
    )
