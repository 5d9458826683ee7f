"""What replaced token detection promises.

The stored tokens stand beside the inputs; a label is 1 where the two differ and nowhere else; special
ids are neither replaced nor drawn; positions are those of masked language modelling.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError
from scipy.stats import chisquare

from stages.errors import FormatError
from stages.objectives.electra import config as electra
from stages.objectives.electra import kernel as compiled
from stages.objectives.electra.config import Generator, ReplacedTokens, restore_electra
from stages.objectives.mlm import config as mlm
from stages.objectives.mlm.config import MaskedLM, Selection
from stages.objectives.rows import IGNORED, Columns, StoredRows
from stages.objectives.vocabulary import Vocabulary, vocabulary_of
from tests.campaign import examples
from tests.stages.objectives.built_rows import DTYPES

SPECIAL = {"unk": 0, "eos": 2, "pad": 3, "mask": 6, "sentinel_0": 39}
VOCABULARY = vocabulary_of(40, SPECIAL)
PAD = SPECIAL["pad"]
ORDINARY = np.setdiff1d(np.arange(40), list(SPECIAL.values()))
COUNTS = np.where(np.isin(np.arange(40), list(SPECIAL.values())), 0, np.arange(40) % 7)
Draw = Callable[[StoredRows, ReplacedTokens, Vocabulary], Columns]
BOTH = [electra.replace_tokens, compiled.replace_tokens]
WRITTEN_OUT = {
    "input_ids": [[10, 11, 38, 12, 2, 3], [2, 12, 7, 22, 23, 2]],
    "labels": [[0, 0, 1, 1, 0, IGNORED], [0, 1, 1, 0, 0, 0]],
    "original_ids": [[10, 11, 12, 13, 2, 3], [2, 20, 21, 22, 23, 2]],
    "selected": [[False, False, True, True, False, False], [False, True, True, False, False, False]],
}


def stored(ids: NDArray[np.integer], filled: NDArray[np.int64]) -> StoredRows:
    """Return rows of one segment each, padded from `filled` on."""
    ids = np.where(np.arange(ids.shape[1]) < filled[:, None], ids, PAD).astype(ids.dtype)
    ptr = np.arange(len(ids) + 1)
    unigram = np.cumsum(COUNTS)
    return StoredRows(ids, ptr, filled, np.arange(len(ids)), 7, 0, 0, unigram=unigram)


def many(rows: int = 2_000, length: int = 100) -> StoredRows:
    """Rows of every id but pad; half of them half full."""
    ids = np.random.default_rng(5).choice(np.setdiff1d(np.arange(40), [PAD]), (rows, length))
    return stored(ids.astype(np.uint16), np.where(np.arange(rows) % 2, length, length // 2))


@st.composite
def any_rows(draw: st.DrawFn) -> StoredRows:
    """Return rows of any ids, lengths and keys, of either dtype."""
    count, length = draw(st.integers(1, 4)), draw(st.integers(1, 70))
    seed = draw(st.integers(0, 2**32))
    generator = np.random.default_rng(seed)
    ids = generator.integers(4, 40, (count, length)).astype(draw(DTYPES))
    rows = stored(ids, generator.integers(0, length + 1, count))
    return replace(
        rows,
        numbers=generator.integers(0, 2**32, count),
        seed=draw(st.sampled_from([0, 7, 2**64 - 1])),
        epoch=draw(st.sampled_from([0, 2**32 - 1])),
        shard=draw(st.sampled_from([0, 2**24 - 1])),
    )


configs = st.builds(
    ReplacedTokens,
    mask_probability=st.sampled_from([0.15, 0.01, 0.5, 1.0, 1e-300]),
    selection=st.sampled_from([Selection.BERNOULLI, Selection.EXACT]),
    generator=st.sampled_from([Generator.UNIFORM, Generator.UNIGRAM]),
)


@settings(deadline=None, max_examples=examples(80))
@given(any_rows(), configs)
def test_any_columns_keep_every_law(rows: StoredRows, config: ReplacedTokens) -> None:
    before = rows.input_ids.copy()
    columns = compiled.replace_tokens(rows, config, VOCABULARY)
    tokens, lengths = restore_electra(columns, config, VOCABULARY)
    assert np.array_equal(rows.input_ids, before)
    assert np.array_equal(tokens, before)
    assert lengths.tolist() == rows.filled.tolist()
    inputs, selected = columns["input_ids"], columns["selected"]
    able = rows.covered & np.isin(rows.input_ids, ORDINARY)
    assert not (selected & ~able).any()
    assert np.array_equal(inputs[~selected], before[~selected])
    assert np.isin(inputs[selected], ORDINARY).all()
    assert np.array_equal(columns["labels"], np.where(rows.covered, inputs != before, IGNORED))


def test_rows_written_out() -> None:
    rows = stored(
        np.array([[10, 11, 12, 13, 2, 3], [2, 20, 21, 22, 23, 2]], np.uint16), np.array([5, 6])
    )
    columns = electra.replace_tokens(rows, ReplacedTokens(mask_probability=0.5), VOCABULARY)
    assert {name: column.tolist() for name, column in columns.items()} == WRITTEN_OUT


@pytest.mark.parametrize("replace_tokens", BOTH)
@pytest.mark.parametrize("selection", [Selection.BERNOULLI, Selection.EXACT])
def test_positions_are_those_of_masked_language_modelling(
    replace_tokens: Draw, selection: Selection
) -> None:
    rows = many(100)
    columns = replace_tokens(rows, ReplacedTokens(selection=selection), VOCABULARY)
    masked = mlm.mask_tokens(rows, MaskedLM(selection=selection), VOCABULARY)
    assert columns["selected"].any()
    assert np.array_equal(columns["selected"], masked["labels"] != IGNORED)


def test_replacements_follow_their_generator() -> None:
    rows = many(16_000)
    weights = {Generator.UNIFORM: np.ones(40), Generator.UNIGRAM: COUNTS.astype(np.float64)}
    for generator, weight in weights.items():
        columns = compiled.replace_tokens(rows, ReplacedTokens(generator=generator), VOCABULARY)
        shown = np.bincount(columns["input_ids"][columns["selected"]], minlength=40)
        expected = np.where(np.isin(np.arange(40), ORDINARY), weight, 0)
        drawn = expected > 0
        assert shown.sum() > 100_000
        assert shown[~drawn].sum() == 0
        expected = expected[drawn] / expected.sum() * shown.sum()
        p = chisquare(shown[drawn], expected).pvalue
        print(generator, f"p = {p:.3f}, n = {shown.sum():,}")  # noqa: T201  # shown with -s
        assert p > 1e-4


@settings(deadline=None, max_examples=examples(80))
@given(any_rows(), configs)
def test_no_row_has_more_replaced_tokens_than_its_exact_share(
    rows: StoredRows, config: ReplacedTokens
) -> None:
    exact = config.model_copy(update={"selection": Selection.EXACT})
    columns = compiled.replace_tokens(rows, exact, VOCABULARY)
    share = mlm.expected_counts(
        (rows.covered & np.isin(rows.input_ids, ORDINARY)).sum(axis=1), config.mask_probability
    )
    assert columns["selected"].sum(axis=1).tolist() == share.tolist()
    assert ((columns["labels"] == 1).sum(axis=1) <= share).all()


def test_a_right_guess_is_no_replacement() -> None:
    columns = electra.replace_tokens(many(), ReplacedTokens(mask_probability=1.0), VOCABULARY)
    right = columns["selected"] & (columns["input_ids"] == columns["original_ids"])
    share = right.sum() / columns["selected"].sum()
    assert abs(share - 1 / len(ORDINARY)) < 5 * (1 / len(ORDINARY) / columns["selected"].sum()) ** 0.5
    assert not columns["labels"][right].any()


@pytest.mark.parametrize("replace_tokens", BOTH)
def test_a_row_is_the_same_whatever_is_read_with_it_and_another_in_another_epoch(
    replace_tokens: Draw,
) -> None:
    rows = many(50, 33)
    whole, order = (
        replace_tokens(rows, ReplacedTokens(), VOCABULARY),
        np.random.default_rng(1).permutation(50),
    )
    for name, column in replace_tokens(rows.take(order), ReplacedTokens(), VOCABULARY).items():
        assert np.array_equal(column, whole[name][order])
    for other in (
        replace(rows, epoch=1),
        replace(rows, shard=1),
        replace(rows, seed=8),
        replace(rows, numbers=rows.numbers + 50),
    ):
        found = replace_tokens(other, ReplacedTokens(), VOCABULARY)
        assert not np.array_equal(found["selected"], whole["selected"])


@pytest.mark.parametrize("replace_tokens", BOTH)
@pytest.mark.parametrize("unigram", [None, np.zeros(40, np.int64), np.full(40, 2**32)])
def test_frequencies_that_cannot_be_drawn_from_are_refused(
    replace_tokens: Draw, unigram: NDArray[np.int64] | None
) -> None:
    rows = replace(many(2), unigram=unigram)
    with pytest.raises(FormatError, match=r"unigram: ordinary tokens of shard 0: .* set generator"):
        replace_tokens(rows, ReplacedTokens(generator=Generator.UNIGRAM), VOCABULARY)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"mask_probability": 0.0}, "mask_probability"),
        ({"selection": "whole_word"}, "selection"),
        ({"generator": "model"}, "generator"),
        ({"mask_share": 1.5}, "mask_share"),
    ],
)
def test_what_cannot_be_is_refused(content: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ReplacedTokens.model_validate(content)


def test_a_selection_may_be_named_in_words() -> None:
    assert ReplacedTokens.model_validate({"selection": "exact"}).selection is Selection.EXACT
    assert ReplacedTokens.model_validate_json('{"selection": "exact"}').selection is Selection.EXACT
