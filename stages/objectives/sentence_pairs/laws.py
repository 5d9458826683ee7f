"""Draws of pairs of texts: `nsp` and `sop`.

Not counted: how many chunks of `nsp` borrow or are short (random_rate, short_rate), for those of a
single sentence always borrow, and rows do not say which those are.
"""

import numpy as np
from numpy.typing import NDArray

from stages.objectives.laws.draws import Draws
from stages.objectives.laws.shown import ShownRows
from stages.objectives.mlm.laws import MaskableText, count_masked, count_overlap
from stages.objectives.rows import IGNORED, Columns
from stages.objectives.sentence_pairs.config import NextSentence, SentenceOrder


def _halves(rows: ShownRows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the tokens of each row's own halves: (N,) each."""
    first = rows.stored.segment_length[rows.stored.segment_ptr[:-1]]
    first = np.minimum(first, rows.lengths_without_eos)
    return first, rows.lengths_without_eos - first


def count_sop(draws: Draws, config: SentenceOrder, rows: ShownRows) -> None:
    """Count pairs that changed places, and their masks."""
    first, second = _halves(rows)
    paired = second > 0
    swapped = []
    for columns in rows.epochs:
        label = columns["sentence_order_label"]
        known = np.where(paired, (label == 0) | (label == 1), label == IGNORED)
        draws.exact("pairs have a label, no others do", ~known)
        a, b = np.where(label == 1, (second, first), (first, second))
        wrong = (_shown(columns, 0) != a + 2) | (_shown(columns, 1) != b + (b > 0))
        draws.exact("halves stand as labelled", wrong)
        draws.share("swapped of pairs", int(paired.sum()), int((label == 1).sum()), config.swap_rate)
        swapped.append(label == 1)
    if len(swapped) > 1:
        both = int((swapped[0] & swapped[1]).sum())
        draws.share("swapped in both epochs", int(paired.sum()), both, config.swap_rate**2)
    _count_masks(draws, config, rows)


def _shown(columns: Columns, half: int) -> NDArray[np.int64]:
    """Return how many positions of each row show a half, CLS and SEP included: (N,)."""
    found = (columns["token_type_ids"] == half) & (columns["segment_ids"] >= 0)
    return np.asarray(np.count_nonzero(found, axis=1), np.int64)


def count_nsp(draws: Draws, config: NextSentence, rows: ShownRows) -> None:
    """Count borrowed halves and their lenders, and the masks."""
    assert rows.stored.room is not None, "packed for another objective"
    own = rows.documents[rows.stored.segment_ptr[:-1]]
    lenders = np.flatnonzero(rows.shard.whole.lengths > 1)
    place = np.searchsorted(lenders, own)
    lends = (place < len(lenders)) & (lenders[np.minimum(place, len(lenders) - 1)] == own)
    others = len(lenders) - lends
    first, second = _halves(rows)
    borrows = (rows.stored.room > 0) & (first > 0) & (others > 0)
    wanted = np.where(borrows, 1, np.where(second > 0, 0, IGNORED))
    borrowing, choices = np.flatnonzero(borrows), others[borrows]
    drawn = []
    for columns in rows.epochs:
        lender = columns["borrowed_doc"]
        draws.exact("rows with room borrow, no others do", columns["next_sentence_label"] != wanted)
        known = np.isin(lender, lenders) & (columns["borrowed_offset"] >= 0)
        draws.exact(
            "lenders are other documents", np.where(borrows, (lender == own) | ~known, lender >= 0)
        )
        b = _shown(columns, 1)
        wrong = (_shown(columns, 0) != first + 2) | (~borrows & (b != second + (second > 0)))
        wrong |= borrows & ((b <= 1) | (b > rows.stored.input_ids.shape[1] - first))
        draws.exact("halves are as long as they must be", wrong)
        number = np.searchsorted(lenders, lender[borrowing]) - (lends & (lender > own))[borrowing]
        mean = (number + 0.5) / choices
        draws.each("number of the lender, of all others", mean, 0.5, (1.0 - choices**-2.0) / 12.0)
        drawn.append(lender)
    if len(drawn) > 1:
        same = (drawn[0] == drawn[1])[borrowing]
        draws.each("the same lender in both epochs", same, 1.0 / choices)
    _count_masks(draws, config, rows)


def _count_masks(draws: Draws, config: NextSentence | SentenceOrder, rows: ShownRows) -> None:
    """Count the masks of pairs, on the rows as they are shown."""
    texts, chosen = [], []
    for columns in rows.epochs:
        selected = columns["labels"] != IGNORED
        clean = np.where(selected, columns["labels"], columns["input_ids"])
        eligible = (columns["segment_ids"] >= 0) & ~rows.vocabulary.special(clean)
        text = MaskableText(clean, eligible, columns["position_ids"] == 0, rows.vocabulary)
        count_masked(draws, config.mask, text, columns, selected)
        texts.append(text)
        chosen.append(selected)
    if len(chosen) > 1:
        same = (texts[0].ids == texts[1].ids).all(axis=1)
        pair = chosen[0][same], chosen[1][same]
        count_overlap(draws, config.mask, texts[0].take(same), pair)
