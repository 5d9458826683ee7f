"""What the views of SimCSE promise.

Two identical views are the row; two cropped ones are pieces of it, from uniform places of their own;
compiled and plain columns are the same bits; whether views are pieces of their row can be checked.
"""

import math
from itertools import combinations
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stages.errors import FormatError
from stages.objectives.rows import Columns, StoredRows, Widths
from stages.objectives.simcse import config as simcse
from stages.objectives.simcse import kernel as compiled
from stages.objectives.simcse.config import SimCSE, check_views, restore_simcse, widths_of_views
from tests.campaign import examples
from tests.stages.objectives.built_rows import (
    DTYPES,
    EOS,
    ORDINARY,
    PAD,
    VOCABULARY,
    chi_square_sigmas,
    copies,
    keyed,
    other_keys,
    sigmas,
    stored,
)

VERSIONS = pytest.mark.parametrize("module", [simcse, compiled], ids=["plain", "compiled"])
CROPPED = SimCSE(views="cropped", crop_ratio=0.6)
configs = st.sampled_from([SimCSE(), CROPPED, SimCSE(views="cropped", crop_ratio=1.0)])


def viewed(module: ModuleType, rows: StoredRows, config: SimCSE) -> Columns:
    length = rows.input_ids.shape[1]
    columns: Columns = module.make_views(rows, config, VOCABULARY, Widths(length, length, length))
    return columns


@st.composite
def any_rows(draw: st.DrawFn) -> StoredRows:
    segment = st.lists(st.integers(0, VOCABULARY.size - 1), max_size=9)
    rows = draw(st.lists(st.lists(segment, max_size=2), max_size=5))
    needed = max((sum(map(len, row)) for row in rows), default=1)
    length = max(needed, 1) + draw(st.integers(0, 2))
    return draw(keyed(stored(rows, length=length, dtype=draw(DTYPES))))


@settings(deadline=None, max_examples=examples(200))
@given(any_rows(), configs)
def test_both_views_are_of_the_row(rows: StoredRows, config: SimCSE) -> None:
    found = viewed(compiled, rows, config)
    assert list(found) == ["input_ids", "input_length"]
    assert found["input_ids"].dtype == rows.input_ids.dtype
    assert found["input_length"].dtype == np.int32
    assert check_views(rows, found, config, VOCABULARY).all()


@settings(deadline=None, max_examples=examples(100))
@given(any_rows())
def test_both_of_two_identical_views_are_the_row(rows: StoredRows) -> None:
    columns = viewed(compiled, rows, SimCSE())
    clean, lengths = restore_simcse(columns, SimCSE(), VOCABULARY)
    assert clean.tolist() == rows.input_ids.tolist()
    assert lengths.tolist() == rows.filled.tolist()
    assert np.array_equal(columns["input_ids"][:, 1], rows.input_ids)
    assert np.array_equal(columns["input_length"][:, 1], lengths)


@settings(deadline=None, max_examples=examples(100))
@given(any_rows(), st.sampled_from([0.5, 0.6, 0.75, 1.0]))
def test_cropped_views_are_pieces_of_the_row_of_their_share(rows: StoredRows, ratio: float) -> None:
    columns = viewed(compiled, rows, SimCSE(views="cropped", crop_ratio=ratio))
    for row, filled in enumerate(rows.filled.tolist()):
        tokens, length = rows.input_ids[row, :filled].tolist(), math.ceil(ratio * filled)
        assert columns["input_length"][row].tolist() == [length, length]
        for view in columns["input_ids"][row].tolist():
            assert view[length:] == [PAD] * (len(view) - length)
            assert view[:length] in [tokens[at : at + length] for at in range(filled - length + 1)]


WRITTEN_OUT = {
    "input_ids": [
        [[10, 11, 12, 13, PAD, PAD], [11, 12, 13, 14, PAD, PAD]],
        [[20, 21, PAD, PAD, PAD, PAD], [20, 21, PAD, PAD, PAD, PAD]],
        [[PAD] * 6, [PAD] * 6],
    ],
    "input_length": [[4, 4], [2, 2], [0, 0]],
}


@VERSIONS
def test_rows_written_out(module: ModuleType) -> None:
    rows = stored([[[10, 11, 12, 13, 14, EOS]], [[20, 21]], []], length=6)
    columns = viewed(module, rows, CROPPED)
    assert {name: column.tolist() for name, column in columns.items()} == WRITTEN_OUT


@pytest.mark.parametrize("config", [SimCSE(), CROPPED])
def test_views_that_are_no_pieces_of_their_row_are_found(config: SimCSE) -> None:
    rows = stored([[[10, 11, 12, 13, 14, EOS]]] * 5, length=7)
    good = viewed(simcse, rows, config)
    wrong = {name: column.copy() for name, column in good.items()}
    length = good["input_length"][0, 0]
    wrong["input_ids"][0, 0, 1] = 9
    wrong["input_ids"][1, 1, [0, 1]] = wrong["input_ids"][1, 1, [1, 0]]
    wrong["input_ids"][2, 1, length] = 10
    wrong["input_length"][3, 1] -= 1
    assert check_views(rows, good, config, VOCABULARY).all()
    assert check_views(rows, wrong, config, VOCABULARY).tolist() == [False] * 4 + [True]


def test_cropped_views_begin_anywhere_and_apart_from_each_other() -> None:
    count, length = 100_000, 10
    rows = copies(stored([[list(range(8, 8 + length))]], length=length), count)
    begins = viewed(compiled, rows, CROPPED)["input_ids"][:, :, 0].astype(np.int64) - 8
    pairs = np.zeros((5, 5), np.int64)
    np.add.at(pairs, (begins[:, 0], begins[:, 1]), 1)
    assert chi_square_sigmas(pairs.ravel(), np.full(25, count / 25)) < 5


def test_another_epoch_shard_row_or_seed_gives_independent_views() -> None:
    rows = copies(stored([[list(range(8, 18))]], length=10), 40_000)
    begins = [viewed(compiled, each, CROPPED)["input_ids"][:, 0, 0] for each in other_keys(rows)]
    for one, other in combinations(begins, 2):
        assert sigmas(int((one == other).sum()), 40_000, 1 / 5) < 5


@VERSIONS
def test_a_row_has_the_same_bits_whatever_is_read_with_it(module: ModuleType) -> None:
    rows = stored([[list(range(8, 8 + n))] for n in (10, 0, 1, 9, 10)], length=10)
    whole = viewed(module, rows, CROPPED)
    for chosen in (np.arange(5)[::-1].copy(), np.array([3]), np.array([4, 2, 2])):
        for name, column in viewed(module, rows.take(chosen), CROPPED).items():
            assert np.array_equal(column, whole[name][chosen]), name


def test_cropped_views_are_not_restored() -> None:
    rows = stored([[[10, 11, EOS]]], length=3)
    with pytest.raises(FormatError, match='views = "cropped": they need not tell the whole row'):
        restore_simcse(viewed(simcse, rows, CROPPED), CROPPED, VOCABULARY)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"views": "dropout"}, "views"),
        ({"crop_ratio": 0.4}, "crop_ratio"),
        ({"crop_ratio": 1.1}, "crop_ratio"),
        ({"temperature": 0.05}, "temperature"),
        ({"kind": "clm"}, "kind"),
    ],
)
def test_what_cannot_be_is_refused(content: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SimCSE.model_validate(content)


PAIRS, TRIPLES = SimCSE(views="pairs"), SimCSE(views="triples")


@st.composite
def rows_of_sections(draw: st.DrawFn, count: int) -> StoredRows:
    """Rows of one text or of `count`, closed by an EOS or not."""
    text = st.lists(ORDINARY, min_size=1, max_size=6)
    rows = draw(st.lists(st.lists(text, min_size=count, max_size=count) | st.tuples(text), max_size=6))
    closed = [[*row[:-1], [*row[-1], EOS]] if draw(st.booleans()) else [*row] for row in rows]
    return draw(keyed(stored(closed, length=count * 6 + 1, dtype=draw(DTYPES))))


def side_by_side(module: ModuleType, rows: StoredRows, config: SimCSE) -> Columns:
    columns: Columns = module.make_views(rows, config, VOCABULARY, widths_of_views(config, 7))
    return columns


@settings(deadline=None, max_examples=examples(200))
@given(st.data(), st.sampled_from([PAIRS, TRIPLES]))
def test_views_are_the_texts_of_a_source_each_closed_alike(data: st.DataObject, config: SimCSE) -> None:
    rows = data.draw(rows_of_sections(config.num_views))
    found, expected = side_by_side(compiled, rows, config), side_by_side(simcse, rows, config)
    for name, column in expected.items():
        assert found[name].dtype == column.dtype
        assert found[name].tolist() == column.tolist()
    assert check_views(rows, found, config, VOCABULARY).all()
    for row in range(len(rows.input_ids)):
        first, last = rows.segment_ptr[row : row + 2]
        flat = rows.input_ids[row, : rows.filled[row]].tolist()
        cuts = np.cumsum(rows.segment_length[first:last])[:-1].tolist()
        texts = [flat[a:b] for a, b in zip([0, *cuts], [*cuts, len(flat)], strict=True)]
        texts[-1] = [token for token in texts[-1] if token != EOS]
        texts = texts * 2 if len(texts) == 1 else texts
        wanted = [[*text, EOS] for text in texts] + [[]] * (config.num_views - len(texts))
        shown = [
            view[:length].tolist()
            for view, length in zip(found["input_ids"][row], found["input_length"][row], strict=True)
        ]
        assert shown == wanted
        for view in range(len(texts)):
            changed = {name: column.copy() for name, column in found.items()}
            changed["input_ids"][row, view, 0] += 1
            assert not check_views(rows, changed, config, VOCABULARY)[row]


@VERSIONS
def test_texts_that_cannot_be_views_are_refused(module: ModuleType) -> None:
    rows = stored([[[10], [11]]], length=19)
    with pytest.raises(FormatError, match="row 0: 2 texts, but triples have 3"):
        side_by_side(module, rows, TRIPLES)
    rows = stored([[[10], [11] * 7]], length=13)
    with pytest.raises(FormatError, match="row 0: a text of 7 tokens does not fit a view of 7"):
        side_by_side(module, rows, PAIRS)
