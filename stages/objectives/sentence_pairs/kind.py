"""Next sentence and sentence order prediction, as the program knows them."""

import numpy as np
from numpy.typing import NDArray

from stages.objectives.kind import Documents, EpochDraws, Kind, LaidOutRows, MatchedRows
from stages.objectives.laws.rows import BrokenLaws, masked, no_label_is_pad, segments
from stages.objectives.learning import MASKED_TOKENS
from stages.objectives.material import Material
from stages.objectives.mlm.kind import MLM, needs_words
from stages.objectives.rows import IGNORED, Columns, StoredRows, Widths, lengths_without_eos
from stages.objectives.sentence_pairs.config import (
    LEAST_PAIR,
    NextSentence,
    PairTag,
    SentenceOrder,
    SentencePairs,
    check_borrowed,
    label_name,
    make_pairs,
    pair_widths,
    restore_pairs,
)
from stages.objectives.sentence_pairs.laws import count_nsp, count_sop
from stages.objectives.traits import Form, Questions, Traits
from stages.objectives.vocabulary import Vocabulary
from stages.seeding import Key
from stages.store.manifest import ROOM, Column


def _traits(config: SentencePairs) -> Traits:
    return Traits(
        "bidirectional_within_document",
        "masked",
        words=needs_words(config.mask),
        written_for="pairs are built of the sentences of whole documents",
        sentences=True,
    )


def _draw_with(
    rows: StoredRows,
    config: SentencePairs,
    vocabulary: Vocabulary,
    widths: Widths,
    *,
    material: Material,
    plainly: bool,
) -> Columns:
    mask = MLM.drawn_by(plainly=plainly)
    return make_pairs(rows, config, vocabulary, widths, shard=material.shard, mask=mask)


def _matches_order(
    rows: StoredRows,
    columns: Columns,
    config: SentencePairs,
    vocabulary: Vocabulary,
    *,
    material: Material,
) -> MatchedRows:
    """Compare the tokens of both halves."""
    del material
    counts = lengths_without_eos(rows, vocabulary.named("eos"))
    return rows.match(restore_pairs(columns, config, vocabulary), counts)


def _matches_next(
    rows: StoredRows,
    columns: Columns,
    config: NextSentence,
    vocabulary: Vocabulary,
    *,
    material: Material,
) -> MatchedRows:
    """Compare the tokens of both halves, and what was borrowed with the document that lent it."""
    own = _matches_order(rows, columns, config, vocabulary, material=material)
    return own & check_borrowed(rows, columns, config, vocabulary, material.shard)


def _count_order(columns: Columns, config: SentencePairs) -> dict[str, int]:
    """Count the rows that there was nothing to pair with."""
    labels = columns[label_name(config)]
    return {"rows_without_a_pair": int(np.count_nonzero(labels == IGNORED))}


def _count_next(columns: Columns, config: NextSentence) -> dict[str, int]:
    """Count them, and the tokens that are shown a second time, from other documents."""
    borrowed = columns["token_type_ids"][columns[label_name(config)] == 1]
    tokens = int(borrowed.sum(dtype=np.int64)) - len(borrowed)
    return _count_order(columns, config) | {"borrowed_tokens": tokens}


def _laws(
    rows: StoredRows,
    columns: Columns,
    vocabulary: Vocabulary,
    label: str,
    borrows: NDArray[np.bool_] | None,
) -> BrokenLaws:
    """Check pairs: a row of two segments is one; all others are none, and have no label.

    Args:
        rows: as stored.
        columns: of them.
        vocabulary: of the tokenizer.
        label: the column that says whether a pair belongs together.
        borrows: (N,) which rows may have their second half from another document, with the label 1; None
            if halves change places instead.
    """
    yield from segments(rows, columns, whole=False, single=True)
    yield from no_label_is_pad(columns, vocabulary)
    yield from masked(rows, columns, vocabulary)
    first = np.append(rows.segment_length, 0)[rows.segment_ptr[:-1]]
    own = lengths_without_eos(rows, vocabulary.named("eos")) > np.where(
        np.diff(rows.segment_ptr) > 0, first, 0
    )
    can_be = {0: own, 1: own if borrows is None else borrows, IGNORED: ~own}
    right = [(columns[label] == value) & some for value, some in can_be.items()]
    yield "pair_label", ~np.any(right, axis=0)


def _laws_next(
    rows: StoredRows, columns: Columns, config: NextSentence, vocabulary: Vocabulary
) -> BrokenLaws:
    assert rows.room is not None, "packed for another objective"
    yield from _laws(rows, columns, vocabulary, label_name(config), rows.room != 0)


def _laws_order(
    rows: StoredRows, columns: Columns, config: SentenceOrder, vocabulary: Vocabulary
) -> BrokenLaws:
    yield from _laws(rows, columns, vocabulary, label_name(config), None)


def _lay_out(
    documents: Documents, widths: Widths, *, short_rate: float, borrow_rate: float
) -> LaidOutRows:
    """Lay out sentences in rows of two halves, with the room of each row for another document's text."""
    from stages.packing.pairs import PairRules, pack_pairs  # noqa: PLC0415  # numba takes half a second

    assert documents.sentences is not None
    pairs = pack_pairs(
        documents.lengths,
        documents.sentences,
        row_length=widths.stored,
        rules=PairRules(short_rate, borrow_rate),
        key=Key(documents.seed, 0, documents.group, PairTag.CHUNKS),
    )
    return LaidOutRows(pairs.layout, {ROOM: pairs.room} if borrow_rate else {})


def _lay_out_next(documents: Documents, config: NextSentence, widths: Widths) -> LaidOutRows:
    rates = {"short_rate": config.short_rate, "borrow_rate": config.random_rate}
    return _lay_out(documents, widths, **rates)


def _lay_out_order(documents: Documents, config: SentenceOrder, widths: Widths) -> LaidOutRows:
    return _lay_out(documents, widths, short_rate=config.short_rate, borrow_rate=0.0)


def _room(config: NextSentence, widths: Widths) -> dict[str, Column]:
    del config, widths
    meaning = "tokens of another document that the row has room for"
    return {ROOM: Column(dtype="<i4", shape=(), meaning=meaning)}


_LEARNING = MASKED_TOKENS.model_copy(update={"gated": False})
_SPECIAL = ("cls", "sep", "mask")

NEXT_SENTENCE = Kind(
    config=NextSentence,
    traits=_traits,
    widths=lambda _, seq_len: pair_widths(seq_len),
    special_names=lambda _: _SPECIAL,
    draw=None,
    compiled=None,
    restore=restore_pairs,
    learning=lambda _: _LEARNING,
    questions=lambda _: Questions(Form.MASK, Form.MASK),
    epoch_draws=EpochDraws(draw=_draw_with, matches=_matches_next, count=_count_next),
    laws=_laws_next,
    draws=count_nsp,
    category="fill-mask",
    least_row=LEAST_PAIR,
    lay_out=_lay_out_next,
    stored_columns=_room,
)
SENTENCE_ORDER = Kind(
    config=SentenceOrder,
    traits=_traits,
    widths=lambda _, seq_len: pair_widths(seq_len),
    special_names=lambda _: _SPECIAL,
    draw=None,
    compiled=None,
    restore=restore_pairs,
    learning=lambda _: _LEARNING,
    questions=lambda _: Questions(Form.MASK, Form.MASK),
    epoch_draws=EpochDraws(draw=_draw_with, matches=_matches_order, count=_count_order),
    laws=_laws_order,
    draws=count_sop,
    category="fill-mask",
    least_row=LEAST_PAIR,
    lay_out=_lay_out_order,
)
