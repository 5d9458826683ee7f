"""Whole shards for the tests of objectives that look beyond a row, built of documents by hand."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from stages.objectives.rows import StoredRows
from stages.objectives.sentence_pairs.config import PairTag
from stages.objectives.vocabulary import Vocabulary, vocabulary_of
from stages.objectives.whole_shard import WholeShard
from stages.packing.layout import Layout
from stages.packing.pairs import PairRules, pack_pairs
from stages.ragged import Ragged, ragged_of
from stages.seeding import Key

SPECIAL = {
    name: number
    for number, name in enumerate(
        ["unk", "bos", "eos", "pad", "mask", "fim_prefix", "fim_middle", "fim_suffix", "cls", "sep"]
    )
}
VOCABULARY: Vocabulary = vocabulary_of(60, SPECIAL)
EOS, PAD = SPECIAL["eos"], SPECIAL["pad"]
Sentences = list[list[list[int]]]
"""Documents of sentences of ids, without EOS."""

ids = st.integers(len(SPECIAL), VOCABULARY.size - 1)
any_documents = st.lists(
    st.lists(st.lists(ids, min_size=1, max_size=12), min_size=1, max_size=8), min_size=1, max_size=6
)


def shard_of(documents: Sentences, layout: Layout, *, dtype: type[np.integer] = np.uint16) -> WholeShard:
    """Return the shard of documents in a layout."""
    flat = [[token for sentence in document for token in sentence] + [EOS] for document in documents]
    rows = np.full((layout.num_rows, layout.row_length), PAD, dtype)
    for number, row in enumerate(layout.segment_rows()):
        start, length = int(layout.start[number]), int(layout.length[number])
        offset = int(layout.doc_offset[number])
        rows[row, start : start + length] = flat[layout.doc[number]][offset : offset + length]
    segments = {
        name: getattr(layout, name) for name in ("row_ptr", "start", "length", "doc", "doc_offset")
    }
    return WholeShard(rows, segments, len(documents), sentences=sentences_of(documents))


def sentences_of(documents: Sentences) -> Ragged:
    """Return where the sentences of documents end, the EOS with the last."""
    ends = [np.cumsum([len(sentence) for sentence in document]).tolist() for document in documents]
    return ragged_of([[*part[:-1], part[-1] + 1] for part in ends])


def lengths_of(documents: Sentences) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the tokens of documents, with EOS."""
    return np.array([sum(map(len, document)) + 1 for document in documents], np.int64)


def rows_of(shard: WholeShard, *, epoch: int = 0, room: np.ndarray | None = None) -> StoredRows:
    """Return all rows of a shard."""
    numbers = np.arange(len(shard.input_ids))
    return StoredRows(
        np.asarray(shard.input_ids),
        np.asarray(shard.segments["row_ptr"], np.int64),
        np.asarray(shard.segments["length"], np.int64),
        numbers,
        seed=7,
        epoch=epoch,
        shard=3,
        room=room,
    )


def paired(
    documents: Sentences, *, row_length: int, borrow_rate: float
) -> tuple[StoredRows, WholeShard]:
    """Return the rows of pairs of documents, and their shard."""
    found = pack_pairs(
        lengths_of(documents),
        sentences_of(documents),
        row_length=row_length,
        rules=PairRules(0.1, borrow_rate),
        key=Key(7, 0, 3, PairTag.CHUNKS),
    )
    shard = shard_of(documents, found.layout)
    return rows_of(shard, room=found.room), shard


def at_epoch(rows: StoredRows, epoch: int) -> StoredRows:
    """Return the same rows in another epoch."""
    return replace(rows, epoch=epoch)
