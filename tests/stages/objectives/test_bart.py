"""What BART's noises promise.

Labels are the body; inputs are its tokens in order, with masks for what infilling hides, less what
deletion deletes, turned or not; shares are exact; lengths of spans follow Poisson's law and their places
are uniform; compiled and plain columns are the same bits.
"""

import math
from collections import Counter
from dataclasses import replace
from itertools import combinations
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError

from stages.errors import FormatError
from stages.objectives.bart import config as bart
from stages.objectives.bart import kernel as compiled
from stages.objectives.bart.config import BART, ENDS, poisson_thresholds, restore_bart, widths_bart
from stages.objectives.rows import IGNORED, Columns, StoredRows, Widths, lengths_without_eos
from stages.objectives.vocabulary import vocabulary_of
from tests.campaign import examples
from tests.stages.objectives.built_rows import (
    BOS,
    DTYPES,
    EOS,
    MASK,
    PAD,
    SPECIAL,
    chi_square_sigmas,
    copies,
    keyed,
    other_keys,
    sigmas,
    stored,
)

VOCABULARY = vocabulary_of(1_000, SPECIAL)
FIRST = len(SPECIAL)
VERSIONS = pytest.mark.parametrize("module", [bart, compiled], ids=["plain", "compiled"])
MBART = BART(mask_ratio=0.35, poisson_lambda=3.5)
INFILLING, DELETING = BART(), BART(mask_ratio=0.0, delete_ratio=0.3)
ROTATING = BART(mask_ratio=0.0, rotate_probability=0.5)

configs = st.builds(
    BART,
    mask_ratio=st.sampled_from([0.3, 0.35, 0.0, 0.7]),
    poisson_lambda=st.sampled_from([3.0, 3.5, 0.5, 64.0]),
    delete_ratio=st.sampled_from([0.0, 0.1, 0.3]),
    rotate_probability=st.sampled_from([0.5, 1.0]),
) | st.sampled_from([INFILLING, MBART, DELETING, BART(mask_ratio=1.0), BART(poisson_lambda=0.5)])


def distinct(length: int) -> list[int]:
    """Return a body whose tokens say where they stood."""
    return list(range(FIRST, FIRST + length))


def alike(count: int, length: int) -> StoredRows:
    """Return many rows of one body of distinct tokens and its EOS, which fill them."""
    return copies(stored([[[*distinct(length), EOS]]], length=length + 1), count)


def widths(rows: StoredRows) -> Widths:
    return widths_bart(INFILLING, rows.input_ids.shape[1] + ENDS)


def noised(module: ModuleType, rows: StoredRows, config: BART) -> Columns:
    columns: Columns = module.add_noise(rows, config, VOCABULARY, widths(rows))
    return columns


def items_of(columns: Columns) -> list[list[int]]:
    """Return what stands between BOS and EOS in each row."""
    rows = zip(columns["input_ids"].tolist(), columns["input_length"].tolist(), strict=True)
    return [ids[1 : length - 1] for ids, length in rows]


@st.composite
def any_rows(draw: st.DrawFn) -> StoredRows:
    token = st.integers(FIRST, 999) | st.integers(0, 12)
    segment = st.lists(token, max_size=12) | st.lists(token, min_size=30, max_size=40)
    closed = st.builds(lambda body, end: body + end, segment, st.sampled_from([[], [EOS]]))
    rows = draw(st.lists(st.lists(closed, max_size=3), max_size=4))
    needed = max((sum(map(len, row)) for row in rows), default=1)
    length = max(needed, 1) + draw(st.integers(0, 2))
    return draw(keyed(stored(rows, length=length, dtype=draw(DTYPES))))


@settings(deadline=None, max_examples=examples(80))
@given(any_rows(), configs)
def test_labels_are_the_body_and_an_eos_and_the_decoder_sees_them_shifted(
    rows: StoredRows, config: BART
) -> None:
    columns = noised(compiled, rows, config)
    lengths = lengths_without_eos(rows, EOS)
    clean, restored = restore_bart(columns, config, VOCABULARY)
    assert clean.dtype == columns["input_ids"].dtype == rows.input_ids.dtype
    assert restored.tolist() == lengths.tolist()
    assert columns["label_length"].tolist() == [n + 1 if n else 0 for n in lengths]
    for row, length in enumerate(lengths.tolist()):
        body = rows.input_ids[row, :length].tolist()
        labels = columns["labels"][row].tolist()
        width = len(labels)
        full = [*body, EOS] if body else []
        assert labels == full + [IGNORED] * (width - len(full))
        assert columns["decoder_input_ids"][row].tolist() == ([PAD, *full[:-1]] + [PAD] * width)[:width]
        assert clean[row].tolist() == body + [PAD] * (clean.shape[1] - length)


@st.composite
def texts(draw: st.DrawFn) -> tuple[StoredRows, int]:
    """A few rows of one body of distinct tokens, and its length."""
    length = draw(st.integers(0, 60))
    rows = stored([[distinct(length)]] * 3, length=max(length, 1) + draw(st.integers(0, 3)))
    return draw(keyed(rows)), length


@settings(deadline=None, max_examples=examples(150))
@given(texts(), configs)
def test_inputs_are_tokens_in_their_order_and_masks_for_exactly_the_budget(
    given_rows: tuple[StoredRows, int], config: BART
) -> None:
    rows, length = given_rows
    columns = noised(compiled, rows, config)
    hidden, room = math.ceil(config.mask_ratio * length), widths(rows).inputs
    deleted = min(math.ceil(config.delete_ratio * length), length - hidden)
    for ids, size in zip(columns["input_ids"].tolist(), columns["input_length"].tolist(), strict=True):
        assert (ids[0], ids[size - 1]) == (BOS, EOS)
        assert ids[size:] == [PAD] * (room - size)
    for items in items_of(columns):
        tokens = [item for item in items if item != MASK]
        assert len(tokens) == length - hidden - deleted
        turn = tokens.index(min(tokens)) if tokens else 0
        assert config.rotate_probability > 0.0 or turn == 0
        in_order = tokens[turn:] + tokens[:turn]
        assert in_order == sorted(set(tokens))
        assert set(tokens) <= set(distinct(length))
        assert bool(items.count(MASK)) == (hidden > 0)
        assert items.count(MASK) + length - hidden + ENDS <= room


@settings(deadline=None, max_examples=examples(100))
@given(texts(), st.sampled_from([INFILLING, MBART, BART(mask_ratio=0.7, poisson_lambda=0.5)]))
def test_masks_stand_where_the_hidden_spans_stood(
    given_rows: tuple[StoredRows, int], config: BART
) -> None:
    rows, length = given_rows
    for row, items in enumerate(items_of(noised(compiled, rows, config))):
        spans = bart.span_lengths(rows, row, length, config=config, widths=widths(rows)).tolist()
        filled: list[int] = []
        for item in items:
            next_ = filled[-1] + 1 if filled else FIRST
            filled += range(next_, next_ + spans.pop(0)) if item == MASK else [item]
        assert filled == distinct(length)
        assert not spans


X = IGNORED
WRITTEN_OUT = {
    "input_ids": [
        [BOS, MASK, 15, 10, EOS, PAD, PAD, PAD, PAD],
        [BOS, MASK, MASK, EOS, PAD, PAD, PAD, PAD, PAD],
        [BOS, EOS, PAD, PAD, PAD, PAD, PAD, PAD, PAD],
    ],
    "labels": [[10, 11, 12, 13, 14, 15, EOS, X], [20, 21, 22, EOS, X, X, X, X], [X] * 8],
    "decoder_input_ids": [
        [PAD, 10, 11, 12, 13, 14, 15, PAD],
        [PAD, 20, 21, 22, PAD, PAD, PAD, PAD],
        [PAD] * 8,
    ],
    "input_length": [5, 4, 2],
    "label_length": [7, 4, 0],
}
"""11 12 13 are hidden, 14 is deleted, 15 comes first; 20 is deleted between two masks; no body."""


@VERSIONS
def test_rows_written_out(module: ModuleType) -> None:
    rows = stored([[[10, 11, 12, 13, 14, 15, EOS]], [[20, 21, 22]], [[EOS]]], length=7)
    config = BART(mask_ratio=0.4, delete_ratio=0.1, rotate_probability=0.5)
    columns = noised(module, rows, config)
    assert {name: column.tolist() for name, column in columns.items()} == WRITTEN_OUT


@VERSIONS
def test_a_row_whose_body_is_empty_gives_no_label(module: ModuleType) -> None:
    columns = noised(module, stored([[[EOS]], []], length=4), BART(rotate_probability=1.0))
    assert columns["input_ids"].tolist() == [[BOS, EOS, PAD, PAD, PAD, PAD]] * 2
    assert (columns["labels"] == IGNORED).all()
    assert columns["label_length"].tolist() == [0, 0]


@VERSIONS
def test_a_row_of_one_token_is_hidden_behind_one_mask(module: ModuleType) -> None:
    columns = noised(module, copies(stored([[[10]]], length=1), 100), INFILLING)
    assert items_of(columns) == [[MASK]] * 100
    assert columns["labels"].tolist() == [[10, EOS]] * 100


@VERSIONS
def test_rows_that_do_not_fit_are_refused(module: ModuleType) -> None:
    rows = alike(2, 9)
    with pytest.raises(FormatError, match="input_ids: row 0 would give 11 tokens, the column holds 10"):
        module.add_noise(rows, INFILLING, VOCABULARY, Widths(10, 10, 10))


def test_any_stored_row_fits_whatever_is_drawn() -> None:
    assert widths_bart(INFILLING, 12) == Widths(stored=10, inputs=12, labels=11)
    rows = copies(stored([[distinct(10)]], length=10), 2_000)
    for ratio in (0.1, 0.5, 1.0):
        config = BART(mask_ratio=ratio, poisson_lambda=0.5)
        columns = compiled.add_noise(rows, config, VOCABULARY, widths_bart(config, 12))
        assert columns["input_length"].max() == 12


def test_thresholds_are_those_of_poissons_law() -> None:
    found = poisson_thresholds(3.0)
    assert (len(found), found[0]) == (29, 918409308362266468)
    for mean in (0.5, 3.0, 3.5, 64.0):
        table = poisson_thresholds(mean)
        terms = [math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(len(table))]
        expected = np.cumsum(terms) * 2.0**64
        assert np.allclose(np.array(table, np.float64), expected, rtol=1e-11, atol=1.0)
        assert list(table) == sorted(table)
        assert 2**64 - 1 > table[-1] > 2**64 - 2**12


def expected_lengths(hidden: int, mean: float) -> NDArray[np.float64]:
    """Return how many spans of each length a row has on average: (hidden + 1,).

    R(s) is how often the sum is s before a draw: 1 at the start, then by what was drawn before.
    """
    chances = np.full(hidden + 1, math.exp(-mean))
    chances[1:] *= np.cumprod(mean / np.arange(1, hidden + 1))
    visits = np.zeros(hidden)
    for total in range(hidden):
        come = sum(visits[before] * chances[total - before] for before in range(total))
        visits[total] = (come + (total == 0)) / (1 - chances[0])
    expected = np.zeros(hidden + 1)
    for total, often in enumerate(visits):
        left = hidden - total
        expected[:left] += often * chances[:left]
        expected[left] += often * (1 - chances[:left].sum())
    return expected


@pytest.mark.parametrize(
    ("length", "config", "spans"),
    [(600, INFILLING, 100_000), (60, MBART, 10_000), (20, BART(mask_ratio=0.8), 10_000)],
)
def test_lengths_of_spans_follow_poissons_law_up_to_the_trimmed_one(
    length: int, config: BART, spans: int
) -> None:
    count = 2_000
    rows = alike(count, length)
    rows = replace(rows, input_ids=np.pad(rows.input_ids, ((0, 0), (0, length))))
    hidden = math.ceil(config.mask_ratio * length)
    counts = np.zeros((count, hidden + 1))
    for row in range(count):
        drawn = bart.span_lengths(rows, row, length, config=config, widths=widths(rows))
        assert drawn.sum() == hidden
        np.add.at(counts[row], drawn, 1)
    expected = expected_lengths(hidden, config.poisson_lambda)
    assert counts.sum() > spans
    common = expected > 0.01
    assert common[0]
    spread = counts[:, common].std(axis=0) / math.sqrt(count)
    assert (abs(counts.mean(axis=0) - expected)[common] < 5 * spread).all()
    assert counts[:, ~common].sum() < 5 * max(1.0, count * expected[~common].sum())


def shown_counts(config: BART, *, length: int, count: int = 40_000) -> NDArray[np.int64]:
    """Return in how many rows each of the tokens is shown: (length,)."""
    columns = noised(compiled, alike(count, length), config)
    counts = np.bincount(columns["input_ids"].ravel(), minlength=FIRST + length)
    return counts[FIRST : FIRST + length]


@pytest.mark.parametrize("config", [DELETING, BART(mask_ratio=0.0, delete_ratio=0.05)])
def test_deletion_takes_an_exact_share_and_every_set_of_positions_is_as_likely(config: BART) -> None:
    length = 8
    deleted = math.ceil(config.delete_ratio * length)
    gone = Counter(
        tuple(sorted(set(distinct(length)) - set(items)))
        for items in items_of(noised(compiled, alike(40_000, length), config))
    )
    possible = list(combinations(distinct(length), deleted))
    found = np.array([gone[each] for each in possible])
    assert found.sum() == 40_000
    assert chi_square_sigmas(found, np.full(len(possible), 40_000 / len(possible))) < 5


def test_every_arrangement_of_masks_is_as_likely_as_any_other() -> None:
    length, count = 7, 60_000
    config = BART(mask_ratio=3 / 7)
    seen: dict[int, Counter[tuple[int, ...]]] = {}
    for items in items_of(noised(compiled, alike(count, length), config)):
        masks = tuple(place for place, item in enumerate(items) if item == MASK)
        seen.setdefault(len(masks), Counter())[masks] += 1
    assert set(seen) >= {1, 2, 3}
    for number, counts in seen.items():
        places = list(combinations(range(length - 3 + number), number))
        total = counts.total()
        if total < 10 * len(places):
            continue
        found = np.array([counts[each] for each in places])
        assert chi_square_sigmas(found, np.full(len(places), total / len(places))) < 5


@pytest.mark.parametrize("config", [INFILLING, MBART, BART(mask_ratio=0.3, delete_ratio=0.2)])
def test_every_position_is_as_likely_to_be_hidden_as_its_mirror_image(config: BART) -> None:
    counts = shown_counts(config, length=40)
    gone = math.ceil(config.mask_ratio * 40) + math.ceil(config.delete_ratio * 40)
    assert counts.sum() == 40_000 * (40 - gone)
    for place in range(20):
        difference = int(counts[place]) - int(counts[-1 - place])
        assert abs(difference) < 5 * math.sqrt(2 * 40_000 * 0.25)


def test_rows_are_turned_at_their_rate_and_every_token_comes_first_as_often() -> None:
    length, count = 10, 100_000
    for rate in (0.5, 1.0):
        config = BART(mask_ratio=0.0, rotate_probability=rate)
        columns = noised(compiled, alike(count, length), config)
        first = columns["input_ids"][:, 1].astype(np.int64) - FIRST
        shown = columns["input_ids"][:, 1 : 1 + length].astype(np.int64) - FIRST
        assert np.array_equal(shown, (first[:, None] + np.arange(length)) % length)
        expected = np.full(length, count * rate / length)
        expected[0] += count * (1 - rate)
        assert chi_square_sigmas(np.bincount(first, minlength=length), expected) < 5


def test_another_epoch_shard_row_or_seed_gives_independent_noise() -> None:
    config = BART(mask_ratio=0.2, delete_ratio=0.1, rotate_probability=0.5)
    count, length = 10_000, 20
    shown = []
    for rows in other_keys(alike(count, length)):
        ids = noised(compiled, rows, config)["input_ids"].astype(np.int64)
        held = np.zeros((count, FIRST + length), np.int64)
        np.put_along_axis(held, ids, 1, axis=1)
        shown.append(held[:, FIRST:])
    rates = [held.mean(axis=0) for held in shown]
    for one, other in combinations(range(len(shown)), 2):
        both = (shown[one] & shown[other]).sum(axis=0)
        for place in range(length):
            assert sigmas(both[place], count, rates[one][place] * rates[other][place]) < 5


@VERSIONS
@pytest.mark.parametrize("config", [INFILLING, BART(delete_ratio=0.2, rotate_probability=0.5)])
def test_a_row_has_the_same_bits_whatever_is_read_with_it(module: ModuleType, config: BART) -> None:
    rows = stored([[distinct(n)] for n in (40, 0, 1, 7, 39, 20, 2, 40)], length=40)
    whole = noised(module, rows, config)
    for chosen in (np.arange(8)[::-1].copy(), np.array([5]), np.array([7, 2, 2])):
        for name, column in noised(module, rows.take(chosen), config).items():
            assert np.array_equal(column, whole[name][chosen]), name


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"mask_ratio": 0.8, "delete_ratio": 0.3}, "must not pass 1 together; lower one of them"),
        ({"mask_ratio": 0.0}, "are all 0, so inputs would show what is asked for; set one above 0"),
        ({"mask_ratio": 1.1}, "mask_ratio"),
        ({"poisson_lambda": 0.1}, "poisson_lambda"),
        ({"poisson_lambda": 65.0}, "poisson_lambda"),
        ({"rotate_probability": -0.1}, "rotate_probability"),
        ({"permute_sentences": 1.0}, "permute_sentences"),
        ({"kind": "mbart"}, "kind"),
    ],
)
def test_what_cannot_be_is_refused(content: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        BART.model_validate(content)


@VERSIONS
def test_a_tokenizer_without_a_mask_is_refused(module: ModuleType) -> None:
    vocabulary = vocabulary_of(40, {"bos": 1, "eos": 2, "pad": 3})
    with pytest.raises(FormatError, match="no 'mask' among bos, eos, pad"):
        module.add_noise(alike(1, 3), INFILLING, vocabulary, Widths(9, 9, 9))
