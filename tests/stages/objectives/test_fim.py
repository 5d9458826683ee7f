"""What filling in the middle promises.

Every segment keeps its tokens, in three parts that join to its body again; compiled and plain columns
are the same bits; rates and cuts are those of the definition; a row has the same bits whatever is read
along with it.
"""

import math
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
from stages.objectives.fim import config as fim
from stages.objectives.fim import kernel as compiled
from stages.objectives.fim.config import FIM, GROWTH, restore_fim
from stages.objectives.rows import IGNORED, Columns, StoredRows, Widths
from stages.objectives.vocabulary import vocabulary_of
from tests.campaign import examples
from tests.stages.objectives.built_rows import (
    DTYPES,
    EOS,
    ORDINARY,
    PAD,
    SPECIAL,
    VOCABULARY,
    Segments,
    chi_square_sigmas,
    copies,
    keyed,
    other_keys,
    sigmas,
    stored,
)

PRE, MID, SUF = (SPECIAL[name] for name in ("fim_prefix", "fim_middle", "fim_suffix"))
MARKS = (PRE, SUF, MID)
VERSIONS = pytest.mark.parametrize("module", [fim, compiled], ids=["plain", "compiled"])


def alike(count: int, segments: Segments) -> StoredRows:
    """Return many rows of the same segments."""
    length = sum(len(segment) + GROWTH for segment in segments)
    return copies(stored([segments], length=length), count)


def widths(rows: StoredRows) -> Widths:
    length = rows.input_ids.shape[1]
    return Widths(length, length, length)


def shown(rows: StoredRows, columns: Columns) -> list[tuple[list[int], list[int]]]:
    """Return (stored, shown) tokens of each segment in turn."""
    pairs = []
    for row, (ids, segments) in enumerate(
        zip(columns["input_ids"].tolist(), columns["segment_ids"].tolist(), strict=True)
    ):
        begin = 0
        for number in range(rows.segment_ptr[row + 1] - rows.segment_ptr[row]):
            length = rows.segment_length[rows.segment_ptr[row] + number]
            clean = rows.input_ids[row, begin : begin + length].tolist()
            pairs.append((clean, [i for i, s in zip(ids, segments, strict=True) if s == number]))
            begin += length
    return pairs


def parts(tokens: list[int], *, closed: bool) -> tuple[list[int], list[int], list[int]]:
    """Return A, B and C of a segment shown prefix first; of the other kind nothing, A with B, and C."""
    suffix, middle = tokens.index(SUF), tokens.index(MID)
    end = len(tokens) - closed
    return tokens[1:suffix], tokens[middle + 1 : end], tokens[suffix + 1 : middle]


X = IGNORED
WRITTEN_OUT = {
    "input_ids": [
        [PRE, SUF, 12, 13, MID, 10, 11, EOS, 20, 21, 22, PAD, PAD, PAD],
        [PRE, 10, SUF, 12, 13, MID, 11, EOS, PAD, PAD, PAD, PAD, PAD, PAD],
        [20, 21, 22, PAD, PAD, PAD, PAD, PAD, PAD, PAD, PAD, PAD, PAD, PAD],
    ],
    "labels": [
        [X, X, 12, 13, X, 10, 11, EOS, 20, 21, 22, X, X, X],
        [X, 10, X, 12, 13, X, 11, EOS, X, X, X, X, X, X],
        [20, 21, 22, X, X, X, X, X, X, X, X, X, X, X],
    ],
    "segment_ids": [
        [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, -1, -1, -1],
        [0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1],
        [0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1],
    ],
    "position_ids": [
        [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 0, 0, 0],
        [0, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 0, 0, 0],
        [0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ],
}
"""Suffix first, the other plain; prefix first; plain."""

configs = st.builds(
    FIM,
    fim_rate=st.sampled_from([0.5, 0.0, 0.9, 1.0]),
    fim_spm_rate=st.sampled_from([0.5, 0.0, 1.0]),
    train_on_sentinels=st.booleans(),
)
bodies = st.lists(ORDINARY, max_size=9)
wild = st.lists(st.integers(0, 39), max_size=6)


@st.composite
def any_rows(draw: st.DrawFn, *, special: bool) -> StoredRows:
    text = bodies | wild if special else bodies
    closed = st.builds(lambda body, end: body + end, text, st.sampled_from([[], [EOS]]))
    segments = closed if special else closed.filter(len)
    rows = draw(st.lists(st.lists(segments, max_size=4), max_size=4))
    needed = max((sum(len(s) + GROWTH for s in row) for row in rows), default=1)
    length = max(needed, 1) + draw(st.integers(0, 2))
    return draw(keyed(stored(rows, length=length, dtype=draw(DTYPES))))


@settings(deadline=None, max_examples=examples(200))
@given(any_rows(special=True), configs)
def test_the_compiled_restore_tells_what_the_plain_one_tells(rows: StoredRows, config: FIM) -> None:
    columns = compiled.fill_in_middle(rows, config, VOCABULARY, widths(rows))
    assert list(columns) == ["input_ids", "labels", "segment_ids", "position_ids"]
    clean, lengths = restore_fim(columns, config, VOCABULARY)
    also, same = compiled.restore_fim(columns, config, VOCABULARY)
    assert (also.dtype, same.dtype) == (clean.dtype, lengths.dtype)
    assert (also.tolist(), same.tolist()) == (clean.tolist(), lengths.tolist())


@settings(deadline=None, max_examples=examples(200))
@given(any_rows(special=False), configs)
def test_any_row_of_text_can_be_restored(rows: StoredRows, config: FIM) -> None:
    columns = compiled.fill_in_middle(rows, config, VOCABULARY, widths(rows))
    for restore in (restore_fim, compiled.restore_fim):
        clean, lengths = restore(columns, config, VOCABULARY)
        assert clean.dtype == rows.input_ids.dtype
        assert clean.tolist() == rows.input_ids.tolist()
        assert lengths.tolist() == rows.filled.tolist()


@settings(deadline=None, max_examples=examples(200))
@given(any_rows(special=False), configs)
def test_parts_join_to_the_body_and_each_id_stands_once_or_not_at_all(
    rows: StoredRows, config: FIM
) -> None:
    columns = compiled.fill_in_middle(rows, config, VOCABULARY, widths(rows))
    assert {columns[name].dtype.str for name in ("labels", "segment_ids", "position_ids")} == {"<i4"}
    for clean, tokens in shown(rows, columns):
        closed = clean[-1] == EOS
        assert (tokens[-1] == EOS, tokens.count(EOS)) == (closed, int(closed))
        counts = [tokens.count(mark) for mark in MARKS]
        if sum(counts) == 0:
            assert tokens == clean
            assert config.fim_rate < 1.0 or clean == [EOS]
            continue
        assert counts == [1, 1, 1]
        assert tokens[0] == PRE
        assert len(tokens) == len(clean) + GROWTH
        assert config.fim_rate > 0.0
        before, between, after = parts(tokens, closed=closed)
        assert before + between + after == clean[: len(clean) - closed]
        assert not before or config.fim_spm_rate < 1.0


@settings(deadline=None, max_examples=examples(100))
@given(any_rows(special=True), configs)
def test_any_body_that_writes_out_one_of_the_ids_is_shown_as_it_is_stored(
    rows: StoredRows, config: FIM
) -> None:
    columns = compiled.fill_in_middle(rows, config, VOCABULARY, widths(rows))
    for clean, tokens in shown(rows, columns):
        body = clean[:-1] if clean[-1:] == [EOS] else clean
        plain = not body or not {EOS, *MARKS}.isdisjoint(body)
        assert tokens == clean or not plain
        assert tokens.count(EOS) == clean.count(EOS)
        if config.fim_rate == 1.0 and not plain:
            assert len(tokens) == len(clean) + GROWTH


@settings(deadline=None, max_examples=examples(100))
@given(any_rows(special=True), configs)
def test_labels_are_the_ids_and_positions_begin_anew_in_each_segment(
    rows: StoredRows, config: FIM
) -> None:
    columns = compiled.fill_in_middle(rows, config, VOCABULARY, widths(rows))
    ids, labels, segments = columns["input_ids"], columns["labels"], columns["segment_ids"]
    padding: NDArray[np.bool_] = np.asarray(segments == -1)
    assert (ids[padding] == PAD).all()
    assert (labels[padding] == IGNORED).all()
    assert not columns["position_ids"][padding].any()
    silent = ~padding & (labels == IGNORED)
    assert np.array_equal(labels[~padding & ~silent], ids[~padding & ~silent])
    assert np.isin(ids[silent], MARKS).all()
    assert not (config.train_on_sentinels and silent.any())
    for row, numbers in enumerate(segments.tolist()):
        held = [number for number in numbers if number >= 0]
        assert numbers == held + [-1] * (len(numbers) - len(held))
        assert held == sorted(held)
        expected = [held[:place].count(number) for place, number in enumerate(held)]
        assert columns["position_ids"][row, : len(held)].tolist() == expected


@VERSIONS
def test_rows_written_out(module: ModuleType) -> None:
    document, other = [10, 11, 12, 13, EOS], [20, 21, 22]
    rows = stored([[document, other], [document], [other]], length=14)
    rows = replace(rows, numbers=np.array([0, 11, 2]))
    columns = module.fill_in_middle(rows, FIM(train_on_sentinels=False), VOCABULARY, widths(rows))
    assert {name: column.tolist() for name, column in columns.items()} == WRITTEN_OUT


@VERSIONS
def test_a_body_that_cannot_be_told_apart_again_stays_plain(module: ModuleType) -> None:
    rows = alike(50, [[EOS], [10, EOS, 11], [10, PRE, EOS], [SUF], [MID, 12]])
    columns = module.fill_in_middle(rows, FIM(fim_rate=1.0), VOCABULARY, widths(rows))
    pairs = shown(rows, columns)
    assert len(pairs) == 250
    assert all(clean == tokens for clean, tokens in pairs)


@VERSIONS
def test_bodies_of_one_and_two_tokens_are_transformed_with_empty_parts(module: ModuleType) -> None:
    rows = alike(400, [[10, EOS], [10, 11]])
    config = FIM(fim_rate=1.0, fim_spm_rate=0.0)
    columns = module.fill_in_middle(rows, config, VOCABULARY, widths(rows))
    seen = {tuple(tokens) for _, tokens in shown(rows, columns)}
    ones = {(PRE, 10, SUF, MID, EOS), (PRE, SUF, 10, MID, EOS), (PRE, SUF, MID, 10, EOS)}
    assert {tokens for tokens in seen if tokens[-1] == EOS} == ones
    assert len(seen - ones) == 6


@VERSIONS
def test_a_row_without_room_for_its_growth_is_refused_whatever_is_drawn(module: ModuleType) -> None:
    rows = stored([[[10, 11, EOS]], [[10, 11], [12, EOS]]], length=9)
    config = FIM(fim_rate=0.0)
    with pytest.raises(
        FormatError,
        match=r"row 1 of shard 0: 4 tokens in 2 segments, which may grow by 3 tokens each, pass the 9 of"
        r" a row; the shard was packed without room for fim, make it again",
    ):
        module.fill_in_middle(rows, config, VOCABULARY, widths(rows))


@VERSIONS
def test_no_rows_give_no_columns(module: ModuleType) -> None:
    rows = stored([], length=6)
    columns = module.fill_in_middle(rows, FIM(), VOCABULARY, widths(rows))
    assert {column.shape for column in columns.values()} == {(0, 6)}


@pytest.mark.parametrize(("rate", "spm_rate"), [(0.5, 0.5), (0.9, 0.25)])
def test_segments_are_transformed_and_turned_at_their_rates(rate: float, spm_rate: float) -> None:
    segments = [[*range(8, 21), EOS]] * 3
    rows = alike(40_000, segments)
    config = FIM(fim_rate=rate, fim_spm_rate=spm_rate)
    columns = compiled.fill_in_middle(rows, config, VOCABULARY, widths(rows))
    ids = columns["input_ids"]
    begun = [np.logical_and(ids == PRE, columns["segment_ids"] == number) for number in range(3)]
    changed = np.asarray(np.stack(begun).any(axis=2))
    assert sigmas(changed.sum(), changed.size, rate) < 5
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert sigmas((changed[one] & changed[other]).sum(), 40_000, rate**2) < 5
    assert sigmas((changed[:, 1:] & changed[:, :-1]).sum(), 3 * 39_999, rate**2) < 5
    assert np.array_equal((ids == EOS).sum(axis=1), (rows.input_ids == EOS).sum(axis=1))
    turned = ((ids[:, :-1] == PRE) & (ids[:, 1:] == SUF)).sum()
    empty = 2 / 14 - 1 / 14**2  # no A: the lesser of two cuts among 14 is 0; the orders look alike then
    assert sigmas(turned, changed.sum(), spm_rate + (1 - spm_rate) * empty) < 5


def segments_to_cut(length: int) -> StoredRows:
    return alike(40_000, [list(range(8, 8 + length))])


def drawn_cuts(rows: StoredRows) -> NDArray[np.int64]:
    """Return (c1, c2) of rows of one segment each, all transformed and shown prefix first."""
    config = FIM(fim_rate=1.0, fim_spm_rate=0.0)
    ids = compiled.fill_in_middle(rows, config, VOCABULARY, widths(rows))["input_ids"]
    first = np.argmax(ids == SUF, axis=1) - 1
    after = np.argmax(ids == MID, axis=1) - first - 2
    return np.stack([first, rows.filled - after], axis=1)


@pytest.mark.parametrize("length", [1, 2, 30])
def test_cuts_are_the_lesser_and_the_greater_of_two_uniform_ones(length: int) -> None:
    cuts = drawn_cuts(segments_to_cut(length))
    number, ends = len(cuts), np.arange(length + 1)
    pairs = np.zeros((length + 1, length + 1), np.int64)
    np.add.at(pairs, tuple(cuts.T), 1)
    chances = np.triu(np.full(pairs.shape, 2.0), 1) + np.eye(length + 1)
    possible = chances > 0
    assert pairs[~possible].sum() == 0
    expected = number * chances[possible] / (length + 1) ** 2
    assert chi_square_sigmas(pairs[possible], expected) < 5
    for column, share in ((0, 1 / 3), (1, 2 / 3)):
        shares = chances.sum(axis=1 - column) / (length + 1) ** 2
        mean = float(ends @ shares)
        spread = math.sqrt(float((ends - mean) ** 2 @ shares) / number)
        assert abs(cuts[:, column].mean() - mean) < 5 * spread
        assert abs(mean / length - share) < 1 / (3 * length)


def test_another_epoch_shard_row_or_seed_gives_independent_draws() -> None:
    versions = other_keys(segments_to_cut(30))
    changed = [
        compiled.fill_in_middle(rows, FIM(), VOCABULARY, widths(rows))["input_ids"][:, 0] == PRE
        for rows in versions
    ]
    cuts = [drawn_cuts(rows)[:, 0].astype(np.float64) for rows in versions]
    for one, other in combinations(range(len(versions)), 2):
        assert sigmas((changed[one] & changed[other]).sum(), 40_000, 0.25) < 5
        assert abs(np.corrcoef(cuts[one], cuts[other])[0, 1]) < 5 / math.sqrt(40_000)


@VERSIONS
def test_a_row_has_the_same_bits_whatever_is_read_with_it(module: ModuleType) -> None:
    document, other = [*range(8, 18), EOS], [*range(20, 25)]
    rows = stored([[document, other], [other], [document], [other, other, document]] * 8, length=40)
    whole = module.fill_in_middle(rows, FIM(), VOCABULARY, widths(rows))
    for chosen in (np.arange(32)[::-1].copy(), np.array([5]), np.array([31, 2, 2, 17])):
        part = rows.take(chosen)
        found = module.fill_in_middle(part, FIM(), VOCABULARY, widths(part))
        for name, column in found.items():
            assert np.array_equal(column, whole[name][chosen]), name


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"fim_rate": 1.1}, "fim_rate"),
        ({"fim_rate": -0.1}, "fim_rate"),
        ({"fim_spm_rate": 2.0}, "fim_spm_rate"),
        ({"level": "byte"}, "level"),
        ({"kind": "clm"}, "kind"),
        ({"fragment_fim_rate": 0.5}, "fragment_fim_rate"),
    ],
)
def test_what_cannot_be_is_refused(content: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        FIM.model_validate(content)


def test_a_tokenizer_without_the_ids_is_refused() -> None:
    rows = alike(1, [[10, EOS]])
    with pytest.raises(FormatError, match="no 'fim_prefix' among eos, pad"):
        fim.fill_in_middle(rows, FIM(), vocabulary_of(40, {"eos": 2, "pad": 3}), widths(rows))
