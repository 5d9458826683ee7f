"""What masked language modelling promises.

Rows can be restored; special ids are never selected nor drawn; shares are those of the config; a draw
is a function of seed, epoch, shard, row and position alone, whatever is read along with it.
"""

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError

from stages.errors import FormatError
from stages.objectives import mlm
from stages.objectives.clm import IGNORED
from stages.objectives.mlm import MaskedLM, Selection, expected_counts, mask_tokens
from stages.objectives.rows import StoredRows
from stages.objectives.vocabulary import Vocabulary, vocabulary_of
from stages.seeding import Key, Tag, draw_u64, threshold

SPECIAL = {"unk": 0, "bos": 1, "eos": 2, "pad": 3, "mask": 6, "sentinel": 9}
VOCABULARY = vocabulary_of(40, SPECIAL)
MASK, PAD = SPECIAL["mask"], SPECIAL["pad"]
KEPT_SHARE = 0.1


def stored(input_ids: NDArray[np.int64] | list[list[int]], **fields: int) -> StoredRows:
    """Give rows of shard 0 from row 0 on; pads are padding."""
    ids = np.array(input_ids, np.int64)
    segments = np.where(ids == PAD, -1, 0).astype(np.int32)
    return StoredRows(
        ids,
        segments,
        np.arange(len(ids)),
        seed=fields.get("seed", 7),
        epoch=fields.get("epoch", 0),
        shard=fields.get("shard", 0),
    )


def many(rows: int = 2_000, length: int = 100, **fields: int) -> StoredRows:
    """Rows of every id there is, special ones included."""
    return stored(np.random.default_rng(5).integers(0, VOCABULARY.size, (rows, length)), **fields)


def maskable(rows: StoredRows) -> NDArray[np.bool_]:
    return (rows.segment_ids >= 0) & ~np.isin(rows.input_ids, list(SPECIAL.values()))


def plain_masks(
    rows: StoredRows, config: MaskedLM, vocabulary: Vocabulary
) -> tuple[list[list[int]], list[list[int]]]:
    """The slow plain masks: one position after the other, numbers of any size."""
    input_ids, labels = rows.input_ids.tolist(), np.full(rows.input_ids.shape, IGNORED).tolist()
    key = Key(rows.seed, rows.epoch, rows.shard, Tag.MASK_SELECTION)
    other = Key(rows.seed, rows.epoch, rows.shard, Tag.MASK_REPLACEMENT)
    ordinary = [id_ for id_ in range(vocabulary.size) if id_ not in SPECIAL.values()]
    for row, number in enumerate(rows.numbers):
        found = []
        for place, id_ in enumerate(rows.input_ids[row]):
            if rows.segment_ids[row, place] >= 0 and id_ in ordinary:
                draws = draw_u64(key, np.array([number], np.uint64), block=place // 2)[0]
                found.append((int(draws[place % 2]), place))
        if config.selection is Selection.EXACT and found:
            count = max(1, int(config.mask_probability * len(found) + 0.5))
            chosen = sorted(found)[:count]
        else:
            chosen = [pair for pair in found if pair[0] < threshold(config.mask_probability)]
        for _, place in chosen:
            action, drawn = map(
                int, draw_u64(other, np.array([number], np.uint64), block=place)[0].tolist()
            )
            labels[row][place] = input_ids[row][place]
            if action < threshold(config.mask_share):
                input_ids[row][place] = vocabulary.special_ids["mask"]
            elif action < threshold(config.mask_share) + threshold(config.random_share):
                input_ids[row][place] = ordinary[drawn * len(ordinary) >> 64]
    return input_ids, labels


X = IGNORED
WRITTEN_OUT = (
    [[MASK, 11, 12, MASK, 14, 2, 3, 3], [20, 2, 21, 22, MASK, 24, 25, 26]],
    [[10, X, X, 13, X, X, X, X], [X, X, X, X, 23, X, X, X]],
)

configs = st.builds(
    MaskedLM,
    mask_probability=st.sampled_from([0.15, 0.01, 0.5, 1.0]),
    selection=st.sampled_from(Selection),
    mask_share=st.sampled_from([0.8, 0.0, 0.5]),
    random_share=st.sampled_from([0.1, 0.0, 0.2]),
)


@st.composite
def any_rows(draw: st.DrawFn) -> StoredRows:
    length = draw(st.integers(2, 12))
    row = st.lists(st.integers(0, VOCABULARY.size - 1), min_size=length, max_size=length)
    rows = stored(draw(st.lists(row, min_size=1, max_size=5)))
    numbers = draw(st.lists(st.integers(0, 2**32 - 1), min_size=5, max_size=5))
    return replace(
        rows,
        numbers=np.array(numbers[: len(rows.input_ids)]),
        seed=draw(st.sampled_from([0, 2**63 - 1])),
        epoch=draw(st.sampled_from([0, 1, 2**32 - 1])),
        shard=draw(st.sampled_from([0, 2**24 - 1])),
    )


@settings(deadline=None, max_examples=60)
@given(any_rows(), configs)
def test_the_masks_of_any_rows_are_those_of_a_plain_loop(rows: StoredRows, config: MaskedLM) -> None:
    input_ids, labels = mask_tokens(rows, config, VOCABULARY)
    expected = plain_masks(rows, config, VOCABULARY)
    assert (input_ids.tolist(), labels.tolist()) == expected


@settings(deadline=None, max_examples=60)
@given(any_rows(), configs)
def test_any_row_can_be_restored_and_labels_lie_on_ordinary_tokens(
    rows: StoredRows, config: MaskedLM
) -> None:
    before = rows.input_ids.copy()
    input_ids, labels = mask_tokens(rows, config, VOCABULARY)
    selected = labels != IGNORED
    assert np.array_equal(np.where(selected, labels, input_ids), rows.input_ids)
    assert np.array_equal(rows.input_ids, before)
    assert not (selected & ~maskable(rows)).any()
    shown = input_ids[selected]
    assert not (np.isin(shown, list(SPECIAL.values())) & (shown != MASK)).any()
    assert {input_ids.dtype, labels.dtype} == {np.dtype(np.int64)}


def test_rows_written_out() -> None:
    rows = stored([[10, 11, 12, 13, 14, 2, 3, 3], [20, 2, 21, 22, 23, 24, 25, 26]])
    input_ids, labels = mask_tokens(rows, MaskedLM(mask_probability=0.4), VOCABULARY)
    assert (input_ids.tolist(), labels.tolist()) == WRITTEN_OUT


@pytest.mark.parametrize("selection", Selection)
def test_rows_of_special_ids_alone_have_no_labels(selection: Selection) -> None:
    rows = stored([[2, 2, 6, 9], [3, 3, 3, 3], [0, 1, 2, 3]])
    config = MaskedLM(mask_probability=1.0, selection=selection)
    input_ids, labels = mask_tokens(rows, config, VOCABULARY)
    assert np.array_equal(input_ids, rows.input_ids)
    assert (labels == IGNORED).all()


def test_a_row_without_a_selected_position_is_left_as_it_is() -> None:
    rows = stored([[10, 2]] * 64)
    _, labels = mask_tokens(rows, MaskedLM(), VOCABULARY)
    counts = (labels != IGNORED).sum(axis=1)
    assert {0, 1} == set(counts.tolist())
    _, labels = mask_tokens(rows, MaskedLM(selection=Selection.EXACT), VOCABULARY)
    assert ((labels != IGNORED).sum(axis=1) == 1).all()


def test_no_rows_give_no_columns() -> None:
    rows = stored(np.empty((0, 6), np.int64))
    input_ids, labels = mask_tokens(rows, MaskedLM(), VOCABULARY)
    assert (input_ids.shape, labels.shape) == ((0, 6), (0, 6))


def test_the_exact_share_is_rounded_and_at_least_one() -> None:
    counts = expected_counts(np.array([0, 1, 2, 3, 4, 10, 20, 100]), 0.15)
    assert counts.tolist() == [0, 1, 1, 1, 1, 2, 3, 15]
    assert expected_counts(np.array([0, 1, 7]), 1.0).tolist() == [0, 1, 7]


def sigmas(found: int, number: int, probability: float) -> float:
    variance = number * probability * (1 - probability)
    return abs(found - number * probability) / math.sqrt(variance)


@pytest.mark.parametrize("probability", [0.15, 0.4])
def test_positions_are_selected_independently_at_the_rate_asked_for(probability: float) -> None:
    rows = many()
    _, labels = mask_tokens(rows, MaskedLM(mask_probability=probability), VOCABULARY)
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
    _, labels = mask_tokens(rows, MaskedLM(selection=Selection.EXACT), VOCABULARY)
    able, selected = maskable(rows), labels != IGNORED
    assert np.array_equal(selected.sum(axis=1), np.floor(0.15 * able.sum(axis=1) + 0.5))
    for place in range(able.shape[1]):
        assert sigmas(selected[:, place].sum(), able[:, place].sum(), 0.15) < 5


def test_selected_positions_show_mask_random_and_own_ids_in_their_shares() -> None:
    rows = many(8_000)
    input_ids, labels = mask_tokens(rows, MaskedLM(), VOCABULARY)
    selected = labels != IGNORED
    shown, own = input_ids[selected], labels[selected]
    assert len(shown) > 90_000
    same = 0.1 / len(VOCABULARY.ordinary)
    assert sigmas((shown == MASK).sum(), len(shown), 0.8) < 5
    assert sigmas((shown == own).sum(), len(shown), KEPT_SHARE + same) < 5
    drawn = shown[(shown != MASK) & (shown != own)]
    counts = np.bincount(drawn, minlength=VOCABULARY.size)[VOCABULARY.ordinary]
    mean = len(drawn) / len(VOCABULARY.ordinary)
    assert counts.sum() == len(drawn)
    assert float(((counts - mean) ** 2 / mean).sum()) < 63.9  # chi-square, 33 degrees, p = 0.001


def test_another_epoch_shard_row_or_seed_gives_another_mask() -> None:
    base = many()
    masks = [
        mask_tokens(rows, MaskedLM(), VOCABULARY)[1] != IGNORED
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


def test_a_row_has_the_same_mask_whatever_is_read_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = many(50, 33)
    whole = mask_tokens(rows, MaskedLM(), VOCABULARY)
    order = np.random.default_rng(1).permutation(50)
    shuffled = replace(
        rows,
        input_ids=rows.input_ids[order],
        segment_ids=rows.segment_ids[order],
        numbers=rows.numbers[order],
    )
    monkeypatch.setattr(mlm, "_CHUNK", 40)
    for found, expected in zip(mask_tokens(shuffled, MaskedLM(), VOCABULARY), whole, strict=True):
        assert np.array_equal(found, expected[order])
    one = mask_tokens(rows.take(slice(49, 50)), MaskedLM(), VOCABULARY)
    assert np.array_equal(one[0][0], whole[0][49])


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
        ({"kind": "clm"}, "kind"),
        ({"whole_word": True}, "whole_word"),
    ],
)
def test_what_cannot_be_is_refused(content: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        MaskedLM.model_validate(content)


def test_a_tokenizer_without_a_mask_is_refused() -> None:
    with pytest.raises(FormatError, match="no 'mask' among eos, pad"):
        mask_tokens(stored([[10]]), MaskedLM(), vocabulary_of(40, {"eos": 2, "pad": 3}))


def test_a_special_id_outside_the_vocabulary_is_refused() -> None:
    with pytest.raises(FormatError, match=r"special_ids\.mask = 40: must lie below vocab_size = 40"):
        vocabulary_of(40, {"mask": 40})


def test_ids_outside_the_vocabulary_raise_nothing_so_that_verify_can_name_them() -> None:
    rows = stored([[4_000, -7, 10, 11]])
    input_ids, labels = mask_tokens(rows, MaskedLM(mask_probability=1.0), VOCABULARY)
    assert np.array_equal(np.where(labels != IGNORED, labels, input_ids), rows.input_ids)
