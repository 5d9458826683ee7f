"""What masked language modelling promises.

Rows can be restored; special ids are never selected nor drawn; shares are those of the config; a draw
is a function of seed, epoch, shard, row and position alone, whatever is read along with it. The compiled
kernel gives the bits of numpy, and numpy those of a plain loop.
"""

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.stats import chisquare

from stages.errors import FormatError
from stages.objectives.mlm import config as mlm
from stages.objectives.mlm import kernel as compiled
from stages.objectives.mlm.config import MaskedLM, Selection, expected_counts, mask_tokens, restore_mlm
from stages.objectives.rows import IGNORED, Columns, StoredRows
from stages.objectives.vocabulary import Vocabulary, vocabulary_of
from tests.campaign import examples
from tests.stages.objectives.built_rows import sigmas
from tests.stages.objectives.plain_masks import (
    MASK,
    SPECIAL,
    STARTS,
    VOCABULARIES,
    VOCABULARY,
    any_rows,
    configs,
    many,
    maskable,
    plain_masks,
    stored,
)

Mask = Callable[[StoredRows, MaskedLM, Vocabulary], Columns]
BOTH = [mask_tokens, compiled.mask_tokens]
KEPT_SHARE = 0.1
X = IGNORED
WRITTEN_OUT = {
    Selection.BERNOULLI: (
        [[10, 11, MASK, MASK, 14, 2, 3, 3], [MASK, 2, MASK, 22, 23, 18, MASK, 26]],
        [[X, X, 12, 13, X, X, X, X], [20, X, 21, X, X, 24, 25, X]],
    ),
    Selection.EXACT: (
        [[10, 11, MASK, MASK, 14, 2, 3, 3], [20, 2, MASK, 22, 23, 24, MASK, 26]],
        [[X, X, 12, 13, X, X, X, X], [20, X, 21, X, X, X, 25, X]],
    ),
    Selection.WHOLE_WORD: (
        [[10, 11, 12, MASK, 14, 2, 3, 3], [20, 2, MASK, 22, 23, MASK, MASK, 26]],
        [[X, X, X, 13, X, X, X, X], [20, X, 21, X, X, 24, 25, X]],
    ),
    Selection.NGRAM: (
        [[10, 11, 12, MASK, MASK, 2, 3, 3], [20, 2, MASK, MASK, 23, 24, MASK, 26]],
        [[X, X, X, 13, 14, X, X, X], [X, X, 21, 22, X, X, 25, X]],
    ),
}


@settings(deadline=None, max_examples=examples(150))
@given(any_rows(), configs, st.sampled_from(VOCABULARIES))
def test_the_masks_of_any_rows_are_those_of_a_plain_loop(
    rows: StoredRows, config: MaskedLM, vocabulary: Vocabulary
) -> None:
    expected = plain_masks(rows, config, vocabulary)
    for mask in BOTH:
        columns = mask(rows, config, vocabulary)
        assert (columns["input_ids"].tolist(), columns["labels"].tolist()) == expected
        assert columns["input_ids"].dtype == rows.input_ids.dtype
        assert columns["labels"].dtype == np.int32


@settings(deadline=None, max_examples=examples(100))
@given(any_rows(), configs)
def test_any_row_can_be_restored_and_labels_lie_on_ordinary_tokens(
    rows: StoredRows, config: MaskedLM
) -> None:
    before = rows.input_ids.copy()
    columns = compiled.mask_tokens(rows, config, VOCABULARY)
    tokens, lengths = restore_mlm(columns, config, VOCABULARY)
    assert np.array_equal(tokens, before)
    assert tokens.dtype == before.dtype
    assert lengths.tolist() == rows.filled.tolist()
    assert np.array_equal(rows.input_ids, before)
    selected = columns["labels"] != IGNORED
    assert not (selected & ~maskable(rows)).any()
    shown = columns["input_ids"][selected]
    assert not (np.isin(shown, list(SPECIAL.values())) & (shown != MASK)).any()


@pytest.mark.parametrize("selection", Selection)
def test_rows_written_out(selection: Selection) -> None:
    rows = stored([[10, 11, 12, 13, 14, 2, 3, 3], [20, 2, 21, 22, 23, 24, 25, 26]], [[6], [2, 3, 3]])
    config = MaskedLM(mask_probability=0.4, selection=selection)
    columns = mask_tokens(rows, config, VOCABULARY)
    assert (columns["input_ids"].tolist(), columns["labels"].tolist()) == WRITTEN_OUT[selection]


@pytest.mark.parametrize("mask", BOTH)
@pytest.mark.parametrize("selection", Selection)
def test_rows_of_special_ids_alone_have_no_labels(mask: Mask, selection: Selection) -> None:
    rows = stored([[2, 2, 6, 9], [3, 3, 3, 3], [0, 1, 2, 3]])
    config = MaskedLM(mask_probability=1.0, selection=selection)
    columns = mask(rows, config, VOCABULARY)
    assert np.array_equal(columns["input_ids"], rows.input_ids)
    assert (columns["labels"] == IGNORED).all()


@pytest.mark.parametrize("mask", BOTH)
def test_a_row_without_a_selected_position_is_left_as_it_is(mask: Mask) -> None:
    rows = stored([[10, 2]] * 64)
    counts = (mask(rows, MaskedLM(), VOCABULARY)["labels"] != IGNORED).sum(axis=1)
    assert {0, 1} == set(counts.tolist())
    labels = mask(rows, MaskedLM(selection=Selection.EXACT), VOCABULARY)["labels"]
    assert ((labels != IGNORED).sum(axis=1) == 1).all()


@pytest.mark.parametrize("mask", BOTH)
@pytest.mark.parametrize("selection", Selection)
def test_no_rows_give_no_columns(mask: Mask, selection: Selection) -> None:
    columns = mask(stored(np.empty((0, 6), np.int64)), MaskedLM(selection=selection), VOCABULARY)
    assert {name: column.shape for name, column in columns.items()} == {
        "input_ids": (0, 6),
        "labels": (0, 6),
    }


def test_the_exact_share_is_rounded_and_at_least_one() -> None:
    counts = expected_counts(np.array([0, 1, 2, 3, 4, 10, 20, 100]), 0.15)
    assert counts.tolist() == [0, 1, 1, 1, 1, 2, 3, 15]
    assert expected_counts(np.array([0, 1, 7]), 1.0).tolist() == [0, 1, 7]


@pytest.mark.parametrize("probability", [0.15, 0.4])
def test_positions_are_selected_independently_at_the_rate_asked_for(probability: float) -> None:
    rows = many()
    labels = compiled.mask_tokens(rows, MaskedLM(mask_probability=probability), VOCABULARY)["labels"]
    able, selected = maskable(rows), labels != IGNORED
    assert able.sum() > 100_000
    assert sigmas(selected.sum(), able.sum(), probability) < 5
    neighbours = able[:, 1:] & able[:, :-1]
    both = selected[:, 1:] & selected[:, :-1]
    assert sigmas(both.sum(), neighbours.sum(), probability**2) < 5
    rows_both = selected[::2] & selected[1::2]
    assert sigmas(rows_both.sum(), (able[::2] & able[1::2]).sum(), probability**2) < 5
    for place in range(able.shape[1]):
        assert sigmas(selected[:, place].sum(), able[:, place].sum(), probability) < 5
    spread = selected.sum(axis=1) - able.sum(axis=1) * probability
    variance = (able.sum(axis=1) * probability * (1 - probability)).mean()
    assert 0.8 < spread.var() / variance < 1.2


def test_every_row_has_its_exact_share_and_each_position_its_turn() -> None:
    rows = many()
    labels = compiled.mask_tokens(rows, MaskedLM(selection=Selection.EXACT), VOCABULARY)["labels"]
    able, selected = maskable(rows), labels != IGNORED
    assert np.array_equal(selected.sum(axis=1), np.floor(0.15 * able.sum(axis=1) + 0.5))
    for place in range(able.shape[1]):
        assert sigmas(selected[:, place].sum(), able[:, place].sum(), 0.15) < 5


@pytest.mark.parametrize("selection", Selection)
def test_selected_positions_show_mask_random_and_own_ids_in_their_shares(selection: Selection) -> None:
    rows = many(10_000)
    columns = compiled.mask_tokens(rows, MaskedLM(selection=selection), VOCABULARY)
    selected = columns["labels"] != IGNORED
    shown, own = columns["input_ids"][selected], columns["labels"][selected]
    assert len(shown) > 100_000
    same = 0.1 / len(VOCABULARY.ordinary)
    assert sigmas((shown == MASK).sum(), len(shown), 0.8) < 5
    assert sigmas((shown == own).sum(), len(shown), KEPT_SHARE + same) < 5
    drawn = shown[(shown != MASK) & (shown != own)]
    counts = np.bincount(drawn, minlength=VOCABULARY.size)[VOCABULARY.ordinary]
    assert counts.sum() == len(drawn) > 7_000
    assert chisquare(counts).pvalue > 1e-4


def test_another_epoch_shard_row_or_seed_gives_another_mask() -> None:
    base = many()
    masks = [
        compiled.mask_tokens(rows, MaskedLM(), VOCABULARY)["labels"] != IGNORED
        for rows in (
            base,
            replace(base, epoch=1),
            replace(base, shard=1),
            replace(base, seed=8),
            replace(base, numbers=base.numbers + len(base.numbers)),
        )
    ]
    number = int(maskable(base).sum())
    for n, first in enumerate(masks):
        for second in masks[n + 1 :]:
            assert sigmas((first & second).sum(), number, 0.15**2) < 5


@pytest.mark.parametrize("selection", Selection)
def test_a_row_has_the_same_mask_whatever_is_read_with_it(
    monkeypatch: pytest.MonkeyPatch, selection: Selection
) -> None:
    rows, config = many(50, 33), MaskedLM(selection=selection)
    whole = compiled.mask_tokens(rows, config, VOCABULARY)
    order = np.random.default_rng(1).permutation(50)
    monkeypatch.setattr(mlm, "_CHUNK", 40)
    for mask in BOTH:
        shuffled = mask(rows.take(order), config, VOCABULARY)
        one = mask(rows.take(np.array([49])), config, VOCABULARY)
        for name, column in whole.items():
            assert np.array_equal(shuffled[name], column[order])
            assert np.array_equal(one[name], column[49:])


def test_no_global_generator_is_read_or_left_changed() -> None:
    before = random.getstate(), str(np.random.get_state())  # noqa: NPY002  # must stay as it is
    mask_tokens(many(10), MaskedLM(), VOCABULARY)
    assert (random.getstate(), str(np.random.get_state())) == before  # noqa: NPY002  # likewise


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"mask_probability": 0.0}, "mask_probability"),
        ({"mask_probability": 1.1}, "mask_probability"),
        ({"mask_share": 0.8, "random_share": 0.3}, "must not pass 1 together"),
        ({"selection": "words"}, "selection"),
        ({"max_ngram": 0}, "max_ngram"),
        ({"kind": "clm"}, "kind"),
        ({"whole_word": True}, "whole_word"),
    ],
)
def test_what_cannot_be_is_refused(content: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        MaskedLM.model_validate(content)


def test_a_tokenizer_without_a_mask_is_refused() -> None:
    for mask in BOTH:
        with pytest.raises(FormatError, match="no 'mask' among eos, pad"):
            mask(stored([[10]]), MaskedLM(), vocabulary_of(40, {"eos": 2, "pad": 3}))


def test_a_special_id_outside_the_vocabulary_is_refused() -> None:
    with pytest.raises(FormatError, match=r"special_ids\.mask = 40: must lie below vocab_size = 40"):
        vocabulary_of(40, {"mask": 40})


@pytest.mark.parametrize("selection", Selection)
@pytest.mark.parametrize("vocabulary", [VOCABULARY, vocabulary_of(40, SPECIAL | {"last": 39}, STARTS)])
def test_ids_outside_the_vocabulary_raise_nothing_so_that_verify_can_name_them(
    vocabulary: Vocabulary, selection: Selection
) -> None:
    rows = stored([[4_000, -7, 10, 11]], dtype=np.int32)
    config = MaskedLM(mask_probability=1.0, selection=selection)
    plain, fast = (mask(rows, config, vocabulary) for mask in BOTH)
    for name, column in plain.items():
        assert np.array_equal(column, fast[name])
    assert np.array_equal(restore_mlm(plain, config, vocabulary)[0], rows.input_ids)
