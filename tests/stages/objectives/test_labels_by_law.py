"""What labels promise of any stored rows, by the convention that docs/format.md gives each kind.

Here a label is held to the stored tokens alone: which position has one, and what it says there. A
special id is never selected, replaced or drawn, and has a label only where all tokens have one.
"""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stages.objectives.bart.config import BART
from stages.objectives.clm.config import CausalLM
from stages.objectives.drawing import draw_columns, draw_plainly
from stages.objectives.fim.config import FIM
from stages.objectives.prefix_lm.config import PrefixLM
from stages.objectives.rows import IGNORED, Columns, StoredRows
from stages.objectives.span_corruption.config import SpanCorruption
from stages.objectives.table import resolve, traits_of
from stages.objectives.traits import Objective
from tests.campaign import examples
from tests.stages.objectives.test_every_kind import (
    EOS,
    OBJECTIVES,
    PAD,
    SEQ_LEN,
    SPECIAL,
    VOCABULARY,
    any_rows,
)

MASK, FIRST = SPECIAL["mask"], SPECIAL["sentinel_0"]
SENTINELS = VOCABULARY.sentinels.tolist()
OF_FIM = [SPECIAL[f"fim_{part}"] for part in ("prefix", "middle", "suffix")]
Law = Callable[[StoredRows, Columns, Objective], int]
"""Holds columns to stored rows; gives how many labels it looked at."""


def labelled(columns: Columns) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = columns["labels"] != IGNORED
    return found


def unshifted(rows: StoredRows, columns: Columns, objective: Objective) -> int:
    """A label is the input, on all tokens but those that the kind leaves out."""
    ids, found = columns["input_ids"], labelled(columns)
    assert (columns["labels"][found] == ids[found]).all()
    covered = columns["segment_ids"] >= 0 if "segment_ids" in columns else rows.covered
    wanted = covered.copy()
    if isinstance(objective, FIM):
        assert not objective.train_on_sentinels
        wanted &= ~np.isin(ids, OF_FIM)
    if isinstance(objective, PrefixLM):
        wanted &= np.arange(ids.shape[1]) >= columns["prefix_length"][:, None]
    if isinstance(objective, CausalLM) and objective.loss == "targets":
        assert rows.loss_mask is not None
        wanted &= rows.loss_mask == 1
    if isinstance(objective, CausalLM) and objective.mask_first_token:
        for row in range(len(ids)):
            lengths = rows.segment_length[rows.segment_ptr[row] : rows.segment_ptr[row + 1]]
            wanted[row, (np.cumsum(lengths) - lengths)[lengths > 0]] = False
    assert np.array_equal(found, wanted)
    return int(found.sum())


def masked(rows: StoredRows, columns: Columns, _objective: Objective) -> int:
    """A label is the ordinary token that stood there; the input shows it, the mask or an ordinary id."""
    ids, stored, found = columns["input_ids"], rows.input_ids, labelled(columns)
    assert (columns["labels"][found] == stored[found]).all()
    assert not VOCABULARY.is_special[stored[found]].any()
    assert not (found & ~rows.covered).any()
    assert np.isin(ids[found], [MASK, *VOCABULARY.ordinary]).all()
    assert (ids[~found] == stored[~found]).all()
    return int(found.sum())


def replaced(rows: StoredRows, columns: Columns, _objective: Objective) -> int:
    """A label says of every token whether the input is another; only ordinary ids are, and by such."""
    ids, stored, chosen = columns["input_ids"], rows.input_ids, columns["selected"].astype(np.bool_)
    wanted = np.where(rows.covered, ids != stored, IGNORED)
    assert np.array_equal(columns["labels"], wanted)
    assert np.array_equal(columns["original_ids"], stored)
    assert not VOCABULARY.is_special[stored[chosen]].any()
    assert not VOCABULARY.is_special[ids[chosen]].any()
    assert not (chosen & ~rows.covered).any()
    assert (ids[~chosen] == stored[~chosen]).all()
    return int(chosen.sum())


def targets(rows: StoredRows, columns: Columns, objective: Objective) -> int:
    """Labels are tokens of the row and sentinels, each in their order, and an EOS."""
    for row, found in enumerate(columns["labels"].tolist()):
        length = int(columns["label_length"][row])
        given, rest = found[:length], found[length:]
        assert IGNORED not in given
        assert set(rest) <= {IGNORED}
        shown = columns["decoder_input_ids"][row].tolist()
        assert shown == ([PAD, *given[:-1]] if length else []) + [PAD] * len(rest)
        if not length:
            continue
        assert given[-1] == EOS
        sentinels = [token for token in given if token in SENTINELS]
        texts = [token for token in given[:-1] if token not in SENTINELS]
        hidden = [token for token in columns["input_ids"][row].tolist() if token in SENTINELS]
        assert sentinels == hidden == SENTINELS[: len(hidden)]
        if isinstance(objective, SpanCorruption):
            assert given[0] == FIRST
        stored = rows.input_ids[row][rows.covered[row]].tolist()
        assert not Counter(texts) - Counter(stored)
        left = iter(stored)
        assert all(token in left for token in texts)  # in the order of the row
        if isinstance(objective, BART):
            assert texts == (stored[:-1] if stored[-1] == EOS else stored)
    return int(labelled(columns).sum())


LAWS: dict[str, Law] = {
    "unshifted": unshifted,
    "masked": masked,
    "replaced": replaced,
    "targets": targets,
}
LABELLED = [
    name for name, objective in OBJECTIVES.items() if traits_of(objective).label_convention in LAWS
]


def test_every_convention_of_labels_is_held_to_a_law() -> None:
    conventions = {traits_of(objective).label_convention for objective in OBJECTIVES.values()}
    assert conventions == {*LAWS, "pairs"}


@pytest.mark.parametrize("name", LABELLED)
def test_labels_of_any_rows_are_what_the_stored_tokens_say(name: str) -> None:
    objective, seen = OBJECTIVES[name], 0
    known = resolve(objective, SEQ_LEN)
    law = LAWS[known.traits.label_convention]

    @settings(deadline=None, max_examples=examples(80), derandomize=True)
    @given(st.data())
    def held(data: st.DataObject) -> None:
        nonlocal seen
        rows = data.draw(any_rows(objective))
        for draw in (draw_columns, draw_plainly):
            seen += law(rows, draw(rows, objective, VOCABULARY, known.widths), objective)

    held()
    assert seen
