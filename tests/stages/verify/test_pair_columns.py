"""What the checks of columns promise of pairs and of labels on special ids.

Rows are written out by hand. Each label that a row may have gives no finding, each other one gives one
under its own name, in any row; so does each special id as a label, in any place.
"""

from dataclasses import replace

import numpy as np
import pytest

from stages.objectives.mlm.config import MaskedLM, Selection
from stages.objectives.rows import IGNORED, Columns, StoredRows
from stages.objectives.sentence_pairs.config import NextSentence, SentenceOrder, label_name
from stages.objectives.traits import Objective
from stages.objectives.vocabulary import vocabulary_of
from stages.verify.columns import ColumnTally

SPECIAL = {"unk": 0, "bos": 1, "eos": 2, "pad": 3, "cls": 4, "sep": 5, "mask": 6}
EOS, PAD, CLS, SEP, MASK = (SPECIAL[name] for name in ("eos", "pad", "cls", "sep", "mask"))
VOCABULARY = vocabulary_of(40, SPECIAL, np.zeros(40, np.bool_))

STORED = np.array(
    [
        [10, 11, 12, 13, 14, EOS],  # a pair of 2 and 3 tokens
        [20, 21, 22, PAD, PAD, PAD],  # the first half of a pair that may be lent 2 tokens
        [30, 31, EOS, PAD, PAD, PAD],  # a document of one sentence, with nothing to pair it with
        [15, 16, 17, 18, 19, 23],  # a pair of 5 tokens and 1, cut before the document ends
    ]
)
SEGMENTS = [[2, 4], [3], [3], [5, 1]]
MAY_BE: dict[str, list[set[int]]] = {
    "nsp": [{0}, {1, IGNORED}, {IGNORED}, {0}],
    "sop": [{0, 1}, {IGNORED}, {IGNORED}, {0, 1}],
}
"""The labels that each row may have; one that could borrow has none where nobody lends."""
OBJECTIVES: dict[str, NextSentence | SentenceOrder] = {"nsp": NextSentence(), "sop": SentenceOrder()}


def stored_rows() -> StoredRows:
    return StoredRows(
        STORED,
        np.cumsum([0, *map(len, SEGMENTS)]),
        np.array([length for row in SEGMENTS for length in row]),
        np.arange(len(STORED)),
        seed=1,
        epoch=0,
        shard=0,
        room=np.array([0, 2, 0, 0], np.int32),
    )


def pair_columns(name: str, labels: list[int]) -> Columns:
    """Return columns of which the law of pairs reads the label; no token is selected."""
    shown = np.full((len(STORED), 8), PAD)
    shown[:, :3] = [CLS, 10, SEP]
    covered = shown != PAD
    return {
        "input_ids": shown,
        "labels": np.full(shown.shape, IGNORED),
        "segment_ids": np.where(covered, 0, -1),
        "position_ids": np.where(covered, np.arange(8), 0),
        label_name(OBJECTIVES[name]): np.array(labels),
    }


def laws_broken(objective: Objective, stored: StoredRows, columns: Columns) -> dict[str, str]:
    """Return what is found, by law."""
    tally = ColumnTally(objective, VOCABULARY)
    tally.add(stored, columns)
    return {finding.check: finding.message for finding in tally.findings()}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_label_that_a_row_of_a_pair_cannot_have_is_found_in_any_row(name: str) -> None:
    sound = [min(may_be, key=abs) for may_be in MAY_BE[name]]
    seen = {True: 0, False: 0}
    for row, may_be in enumerate(MAY_BE[name]):
        for label in (0, 1, 2, -1, IGNORED):
            labels = [*sound[:row], label, *sound[row + 1 :]]
            found = laws_broken(OBJECTIVES[name], stored_rows(), pair_columns(name, labels))
            assert ("pair_label" in found) is (label not in may_be), (row, label)
            if "pair_label" in found:
                assert found["pair_label"].startswith("1 rows")
            seen[label in may_be] += 1
    assert min(seen.values()) > 4


def masked_columns() -> Columns:
    """Return columns in which two tokens of each row are selected: one masked, one shown."""
    ids = STORED.copy()
    labels = np.full(ids.shape, IGNORED)
    labels[:, :2] = ids[:, :2]
    ids[:, 0] = MASK
    return {"input_ids": ids, "labels": labels}


@pytest.mark.parametrize("special", sorted(SPECIAL.values()))
@pytest.mark.parametrize("place", range(6))
def test_a_special_id_as_a_label_is_found_in_any_place(special: int, place: int) -> None:
    objective = MaskedLM(selection=Selection.WHOLE_WORD)
    assert not laws_broken(objective, stored_rows(), masked_columns()).keys() & {
        "special_shown",
        "label_on_padding",
    }
    for row in range(len(STORED)):
        columns = masked_columns()
        columns["labels"][row, place] = special
        found = laws_broken(objective, stored_rows(), columns)
        assert "special_shown" in found, row
        assert found["special_shown"].startswith("1 rows")


@pytest.mark.parametrize("special", sorted(set(SPECIAL.values()) - {MASK}))
def test_a_special_id_shown_at_a_selected_place_is_found(special: int) -> None:
    for row in range(len(STORED)):
        columns = masked_columns()
        columns["input_ids"][row, 0] = special
        found = laws_broken(MaskedLM(selection=Selection.NGRAM), stored_rows(), columns)
        assert found["special_shown"].startswith("1 rows")


def test_rows_of_no_segment_are_no_pair() -> None:
    empty = replace(stored_rows().take(np.arange(0)), room=np.empty(0, np.int32))
    for name, objective in OBJECTIVES.items():
        columns = {key: column[:0] for key, column in pair_columns(name, [0, 0, 0, 0]).items()}
        assert laws_broken(objective, empty, columns) == {}
