"""What objectives promise of framed rows: an end that closes a row and no document is never to be said.

All else is as of any row, drawn plainly or compiled: what begins a row is a token of its first segment,
and no mask hides a frame.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.loading.split_reader import dense_segments
from stages.objectives.clm.config import CausalLM
from stages.objectives.drawing import draw_columns, draw_plainly, matches
from stages.objectives.electra.config import ReplacedTokens
from stages.objectives.mlm.config import MaskedLM, Selection
from stages.objectives.prefix_lm.config import PrefixLM
from stages.objectives.rows import IGNORED, Columns, StoredRows
from stages.objectives.table import kind_of, resolve
from stages.objectives.traits import Objective
from stages.objectives.vocabulary import Vocabulary, vocabulary_of
from stages.tokenizer.special import special_ids
from stages.verify.columns import ColumnTally
from tests.campaign import examples

BEGIN, EOS, PAD = 1, 2, 3
LENGTH = 26
VOCABULARY: Vocabulary = vocabulary_of(600, special_ids())
KINDS: dict[str, Objective] = {
    "clm": CausalLM(),
    "clm without first tokens": CausalLM(mask_first_token=True),
    "mlm": MaskedLM(),
    "mlm of exact shares": MaskedLM(selection=Selection.EXACT),
    "electra": ReplacedTokens(),
    "prefix_lm": PrefixLM(),
    "prefix_lm of packed documents": PrefixLM(pack_documents=True),
}


@st.composite
def framed_rows(draw: st.DrawFn) -> StoredRows:
    """Draw rows of some segments, of which the last may go on in another row."""
    pieces = st.lists(st.integers(1, 7), min_size=1, max_size=3)
    rows = draw(st.lists(st.tuples(pieces, st.booleans()), min_size=1, max_size=6))
    ids = np.full((len(rows), LENGTH), PAD, np.uint16)
    lengths: list[int] = []
    added = np.zeros(len(rows), np.uint8)
    for number, (texts, goes_on) in enumerate(rows):
        held = [BEGIN]
        for text in texts:
            held += [*range(300 + 10 * len(held), 300 + 10 * len(held) + text), EOS]
        lengths += [texts[0] + 2, *(text + 1 for text in texts[1:])]
        added[number] = goes_on
        ids[number, : len(held)] = held
    ptr = np.cumsum([0, *(len(texts) for texts, _ in rows)])
    numbers = np.arange(len(rows))
    return StoredRows(ids, ptr, np.array(lengths), numbers, seed=7, epoch=0, shard=0, added_end=added)


def columns_of(rows: StoredRows, objective: Objective, *, plainly: bool = False) -> Columns:
    """Return what a trainer gets, segments too."""
    draw = draw_plainly if plainly else draw_columns
    columns = draw(rows, objective, VOCABULARY, resolve(objective, LENGTH).widths)
    segment_ids, position_ids = dense_segments(rows.segment_ptr, rows.segment_length, row_length=LENGTH)
    return {**columns, "segment_ids": segment_ids, "position_ids": position_ids}


@pytest.mark.parametrize("name", KINDS)
@settings(deadline=None, derandomize=True, max_examples=examples(30))
@given(rows=framed_rows())
def test_no_end_of_a_row_alone_has_a_label_and_the_row_comes_back(name: str, rows: StoredRows) -> None:
    objective = KINDS[name]
    columns = columns_of(rows, objective)
    unframed = columns_of(replace(rows, added_end=None), objective)
    row, place = rows.added_ends
    assert rows.added_end is not None
    assert (rows.input_ids[row, place] == EOS).all()
    assert len(row) == rows.added_end.sum()
    labels = unframed["labels"].copy()
    if kind_of(objective).traits(objective).label_convention == "unshifted":
        labels[row, place] = IGNORED
        assert (columns["labels"][row, place] == IGNORED).all()
    assert np.array_equal(columns["labels"], labels), "no other label is another"
    for ids in ("input_ids", "prefix_length", "in_prefix"):
        if ids in columns:
            assert np.array_equal(columns[ids], unframed[ids])
    assert (columns["input_ids"][:, 0] == BEGIN).all(), "no mask hides what begins a row"
    assert (columns["input_ids"][row, place] == EOS).all(), "nor what ends it"
    plain = columns_of(rows, objective, plainly=True)
    assert all(np.array_equal(plain[part], columns[part]) for part in columns)
    assert matches(rows, columns, objective, VOCABULARY).all()
    tally = ColumnTally(objective, VOCABULARY)
    assert tally.add(rows, columns), tally.findings()


@pytest.mark.parametrize("name", ["clm", "prefix_lm", "prefix_lm of packed documents"])
def test_a_label_on_such_an_end_is_found(name: str) -> None:
    objective = KINDS[name]
    ids = np.array([[BEGIN, 300, 301, 302, EOS, PAD]], np.uint16)
    rows = StoredRows(
        ids,
        np.array([0, 1]),
        np.array([5]),
        np.arange(1),
        seed=7,
        epoch=0,
        shard=0,
        added_end=np.ones(1, np.uint8),
    )
    columns = dict(draw_columns(rows, objective, VOCABULARY, resolve(objective, 6).widths))
    labels = columns["labels"].copy()
    assert labels[0, 4] == IGNORED
    labels[0, 4] = EOS
    columns["labels"] = labels
    own = kind_of(objective).tally(objective, VOCABULARY, "unshifted")
    if own is None:
        tally = ColumnTally(objective, VOCABULARY)
        assert not tally.add(rows, columns)
        assert [finding.check for finding in tally.findings()] == ["label_missing"]
    else:
        own.add(rows, [columns])
        assert [finding.check for finding in own.findings()] == ["label_missing"]
