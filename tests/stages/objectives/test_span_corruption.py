"""What span corruption promises.

Inputs and targets together hold every token once, and give the body back; spans are of the numbers and
lengths of the definition, all choices equally likely; compiled and plain columns are the same bits; rows
as long as the widths say always fit.
"""

import itertools
import random
from dataclasses import replace
from math import comb
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError

from stages.errors import ConfigError, FormatError
from stages.objectives.rows import IGNORED, Columns, StoredRows, Widths, lengths_without_eos
from stages.objectives.span_corruption import config as span_corruption
from stages.objectives.span_corruption import kernel as compiled
from stages.objectives.span_corruption.config import (
    ModeToken,
    SpanCorruption,
    corrupt_spans,
    corrupted_lengths,
    max_spans,
    noise_spans,
    refuse_sentinels,
    restore_span_corruption,
    span_lengths,
)
from stages.objectives.vocabulary import vocabulary_of
from tests.campaign import examples
from tests.stages.objectives.built_rows import (
    EOS,
    PAD,
    SPECIAL,
    any_rows,
    chi_square_sigmas,
    copies,
    other_keys,
    stored,
)

MODES = {"mode_r": 40, "mode_x": 41, "mode_s": 42}
MODE: ModeToken = "mode_x"
FIRST, NUM_SENTINELS = 43, 64
SENTINELS = {f"sentinel_{n}": FIRST + n for n in range(NUM_SENTINELS)}
VOCABULARY = vocabulary_of(FIRST + NUM_SENTINELS + 5, {**SPECIAL, **MODES, **SENTINELS})
WIDE = Widths(80, 90, 90)
HALF = SpanCorruption(noise_density=0.5, mean_noise_span_length=2.0)
VERSIONS = pytest.mark.parametrize("module", [span_corruption, compiled], ids=["plain", "compiled"])

configs = st.builds(
    SpanCorruption,
    noise_density=st.sampled_from([0.15, 0.01, 0.5]),
    mean_noise_span_length=st.sampled_from([1.0, 3.0, 2.5, 8.0, 64.0]),
    mode_token=st.sampled_from([None, "mode_r", "mode_x", "mode_s"]),
) | st.just(SpanCorruption(noise_density=0.9, mean_noise_span_length=9.0))


def tokens_of(columns: Columns, row: int) -> tuple[list[int], list[int]]:
    """Return inputs and targets of one row without padding."""
    inputs = columns["input_ids"][row, : columns["input_length"][row]]
    return inputs.tolist(), columns["labels"][row, : columns["label_length"][row]].tolist()


def split(tokens: list[int]) -> list[list[int]]:
    """Split at sentinels, which end each part but the last."""
    parts: list[list[int]] = [[]]
    for token in tokens:
        if token >= FIRST:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def body_of(length: int) -> StoredRows:
    """Return one row of one closed document, no two of whose first 30 tokens are the same."""
    return stored([[[*(8 + n % 31 for n in range(length)), EOS]]], length=80)


@settings(deadline=None, max_examples=examples(60))
@given(any_rows(), configs)
def test_inputs_and_targets_hold_every_token_once_between_sentinels_in_order(
    rows: StoredRows, config: SpanCorruption
) -> None:
    before = rows.input_ids.copy()
    columns = corrupt_spans(rows, config, VOCABULARY, WIDE)
    lengths = lengths_without_eos(rows, EOS)
    for row, n in enumerate(lengths):
        inputs, targets = tokens_of(columns, row)
        body = rows.input_ids[row, :n].tolist()
        if config.mode_token:
            assert inputs.pop(0) == MODES[config.mode_token]
        assert inputs.pop() == EOS
        if n < 2:
            assert (inputs, targets) == (body, [])
            continue
        assert targets.pop() == EOS
        noise, spans = (int(each[0]) for each in noise_spans(np.array([n]), config))
        assert [t for t in inputs if t >= FIRST] == [t for t in targets if t >= FIRST]
        assert [t for t in targets if t >= FIRST] == list(range(FIRST, FIRST + spans))
        text, hidden = split(inputs), split(targets)
        assert hidden.pop(0) == text.pop() == []
        assert all(text)
        assert all(hidden)
        assert sum(map(len, hidden)) == noise
        assert [t for pair in zip(text, hidden, strict=True) for part in pair for t in part] == body
    assert np.array_equal(rows.input_ids, before)


@settings(deadline=None, max_examples=examples(50))
@given(any_rows(), configs)
def test_columns_are_padded_shifted_and_give_the_bodies_back(
    rows: StoredRows, config: SpanCorruption
) -> None:
    columns = corrupt_spans(rows, config, VOCABULARY, WIDE)
    labels, shifted = columns["labels"], columns["decoder_input_ids"]
    inside = np.arange(WIDE.labels) < columns["label_length"][:, None]
    assert np.array_equal(labels != IGNORED, inside)
    assert (shifted[:, 0] == PAD).all()
    assert np.array_equal(shifted[:, 1:], np.where(inside[:, 1:], labels[:, :-1], PAD))
    outside = np.arange(WIDE.inputs) >= columns["input_length"][:, None]
    assert (columns["input_ids"][outside] == PAD).all()
    assert columns["input_ids"].dtype == shifted.dtype == rows.input_ids.dtype
    assert {columns[name].dtype for name in ("labels", "input_length", "label_length")} == {
        np.dtype(np.int32)
    }
    ids, lengths = restore_span_corruption(columns, config, VOCABULARY)
    assert np.array_equal(lengths, lengths_without_eos(rows, EOS))
    kept = np.arange(80) < lengths[:, None]
    expected = np.where(kept, rows.input_ids, PAD)[:, : ids.shape[1]]
    assert np.array_equal(ids, expected)
    assert ids.dtype == rows.input_ids.dtype


@VERSIONS
def test_a_row_written_out(module: ModuleType) -> None:
    config = SpanCorruption(noise_density=0.5, mean_noise_span_length=2.0, mode_token=MODE)
    rows = stored([[[10, 11, 12, 13, 14, 15, 16, 17, EOS]], [[20, EOS]], []], length=9)
    columns = module.corrupt_spans(rows, config, VOCABULARY, Widths(9, 9, 8))
    a, b, x, i = FIRST, FIRST + 1, MODES["mode_x"], IGNORED
    assert {name: column.tolist() for name, column in columns.items()} == {
        "input_ids": [
            [x, 10, 11, 12, a, 15, b, EOS, PAD],
            [x, 20, EOS, PAD, PAD, PAD, PAD, PAD, PAD],
            [x, EOS, PAD, PAD, PAD, PAD, PAD, PAD, PAD],
        ],
        "labels": [[a, 13, 14, b, 16, 17, EOS, i], [i] * 8, [i] * 8],
        "decoder_input_ids": [[PAD, a, 13, 14, b, 16, 17, PAD], [PAD] * 8, [PAD] * 8],
        "input_length": [8, 3, 2],
        "label_length": [7, 0, 0],
    }


def test_tokens_and_spans_are_counted_as_defined() -> None:
    n = np.array([0, 1, 2, 3, 10, 30, 31, 568])
    assert [each.tolist() for each in noise_spans(n, SpanCorruption())] == [
        [0, 0, 1, 1, 2, 4, 5, 85],
        [0, 0, 1, 1, 1, 1, 2, 28],
    ]
    tight = SpanCorruption(noise_density=0.5, mean_noise_span_length=1.0)
    assert [each.tolist() for each in noise_spans(np.array([2, 3, 7, 8]), tight)] == [
        [1, 2, 4, 4],
        [1, 1, 3, 4],
    ]


def test_a_body_of_up_to_thirty_tokens_always_ends_in_its_one_span() -> None:
    for n in range(2, 31):
        noise, _ = noise_spans(np.array([n]), SpanCorruption())
        inputs, targets = tokens_of(
            corrupt_spans(replace(body_of(n), epoch=n), SpanCorruption(), VOCABULARY, WIDE), 0
        )
        body = body_of(n).input_ids[0, :n].tolist()
        assert inputs == [*body[: n - noise[0]], FIRST, EOS]
        assert targets == [FIRST, *body[n - noise[0] :], EOS]


@pytest.mark.parametrize(
    ("density", "mean", "widths"),
    [
        (0.15, 3.0, (568, 114)),
        (0.15, 8.0, (588, 100)),
        (0.5, 3.0, (766, 512)),
        (0.5, 8.0, (908, 512)),
        (0.15, 64.0, (600, 92)),
        (0.5, 64.0, (1006, 512)),
    ],
)
def test_widths_are_those_of_the_published_table(
    density: float, mean: float, widths: tuple[int, int]
) -> None:
    config = SpanCorruption(noise_density=density, mean_noise_span_length=mean)
    assert span_lengths(config, 512) == Widths(widths[0], 512, widths[1])


@settings(deadline=None, max_examples=examples(60))
@given(configs, st.integers(4, 900), st.none() | st.integers(100, 300))
def test_every_row_that_is_no_longer_than_stored_fits_and_one_more_token_does_not(
    config: SpanCorruption, seq_len: int, target_len: int | None
) -> None:
    widths = span_lengths(config, seq_len, target_len)
    inputs, targets = corrupted_lengths(np.arange(widths.stored + 2), config)
    assert inputs[:-1].max() <= seq_len == widths.inputs
    assert targets[:-1].max() == widths.labels
    limit = target_len or (seq_len if config.noise_density <= 0.5 else 10**9)
    assert widths.labels <= limit
    assert inputs[-1] > seq_len or targets[-1] > limit
    assert (np.diff(inputs) >= 0).all()
    assert (np.diff(targets) >= 0).all()


@VERSIONS
def test_a_full_row_fits_with_and_without_an_eos_at_its_end(module: ModuleType) -> None:
    widths = span_lengths(HALF, 40)
    piece = list(itertools.islice(itertools.cycle(range(8, 40)), widths.stored))
    rows = stored([[piece], [[*piece[:-1], EOS]]], length=widths.stored)
    columns = module.corrupt_spans(rows, HALF, VOCABULARY, widths)
    assert columns["input_length"].max() == 40
    assert lengths_without_eos(rows, EOS).tolist() == [widths.stored, widths.stored - 1]


@VERSIONS
def test_all_choices_of_spans_are_equally_likely(module: ModuleType) -> None:
    rows = copies(body_of(12), 100_000)  # 6 tokens of noise and 6 of text, 3 parts of each
    columns = module.corrupt_spans(rows.take(np.arange(3_000)), HALF, VOCABULARY, WIDE)
    if module is compiled:
        columns = module.corrupt_spans(rows, HALF, VOCABULARY, WIDE)
    places = np.concatenate(
        [np.nonzero(columns[name] >= FIRST)[1].reshape(-1, 3) for name in ("input_ids", "labels")],
        axis=1,
    )
    _, counts = np.unique(places, axis=0, return_counts=True)
    assert len(counts) == comb(5, 2) ** 2
    sigmas = chi_square_sigmas(counts, np.full(len(counts), len(places) / len(counts)))
    assert sigmas < 4


def test_lengths_of_spans_and_of_text_follow_the_law_of_uniform_cuts() -> None:
    rows = copies(body_of(70), 20_000)
    columns = compiled.corrupt_spans(rows, SpanCorruption(), VOCABULARY, WIDE)
    for name, tokens, place in (("labels", 10, -1), ("input_ids", 60, 0)):
        parts = 3  # 10 of 70 tokens in round(10 / 3) spans
        sentinels = np.nonzero(columns[name] >= FIRST)[1].reshape(-1, parts)
        gaps = np.diff(sentinels, axis=1, prepend=place)[:, 1:] - 1  # of the second part on
        counts = np.bincount(gaps[:, 0], minlength=tokens)[1 : tokens - parts + 2]
        chances = np.array(
            [comb(tokens - length - 1, parts - 2) for length in range(1, tokens - parts + 2)]
        ) / comb(tokens - 1, parts - 1)
        often = chances * len(rows.numbers) >= 5
        found = np.append(counts[often], counts[~often].sum())
        expected = np.append(chances[often], chances[~often].sum()) * len(rows.numbers)
        held = expected > 0
        assert chi_square_sigmas(found[held], expected[held]) < 4, name


def starts(rows: StoredRows) -> NDArray[np.int64]:
    columns = compiled.corrupt_spans(rows, HALF, VOCABULARY, WIDE)
    return np.nonzero(columns["input_ids"] >= FIRST)[1].reshape(len(rows.numbers), -1)


def test_another_epoch_shard_seed_or_row_draws_other_spans() -> None:
    rows = copies(body_of(12), 20_000)
    found = [starts(each)[:, 0] for each in other_keys(rows)]
    for first, second in itertools.combinations(found, 2):
        pairs = np.unique(np.stack([first, second]), axis=1, return_counts=True)[1]
        share = np.bincount(first)[1:5] / len(first)
        expected = np.outer(share, np.bincount(second)[1:5]).ravel()
        assert chi_square_sigmas(pairs, expected * pairs.sum() / expected.sum()) < 4


@VERSIONS
def test_a_row_has_the_same_columns_whatever_is_read_with_it(module: ModuleType) -> None:
    lengths = np.random.default_rng(3).integers(0, 70, 40)
    rows = stored([[[*range(8, 8 + min(n, 31)), EOS]] for n in lengths], length=80)
    whole = module.corrupt_spans(rows, SpanCorruption(), VOCABULARY, WIDE)
    order = np.random.default_rng(1).permutation(40)
    for chosen in (order, np.array([7]), np.empty(0, np.int64)):
        some = module.corrupt_spans(rows.take(chosen), SpanCorruption(), VOCABULARY, WIDE)
        for name, column in some.items():
            assert np.array_equal(column, whole[name][chosen]), name


def test_noise_and_text_are_cut_by_draws_of_their_own() -> None:
    columns = compiled.corrupt_spans(copies(body_of(12), 5_000), HALF, VOCABULARY, WIDE)
    shown = np.nonzero(columns["input_ids"] >= FIRST)[1].reshape(-1, 3)[:, 0]
    hidden = np.nonzero(columns["labels"] >= FIRST)[1].reshape(-1, 3)[:, 1] - 1
    counts = np.histogram2d(shown, hidden, bins=(range(1, 6), range(1, 6)))[0]
    assert abs(np.corrcoef(shown, hidden)[0, 1]) < 5 / np.sqrt(5_000)
    assert (counts > 0).all()


@pytest.mark.parametrize("damage", ["swapped", "doubled", "missing", "trailing", "other"])
def test_columns_with_other_sentinels_do_not_give_the_body_back(damage: str) -> None:
    rows = body_of(12)
    columns = {k: v.copy() for k, v in corrupt_spans(rows, HALF, VOCABULARY, WIDE).items()}
    inputs, length = columns["input_ids"][0], int(columns["input_length"][0])
    places = np.flatnonzero(inputs >= FIRST)
    if damage == "swapped":
        inputs[places[:2]] = inputs[places[:2]][::-1]
    elif damage == "doubled":
        inputs[places[0] + 1 : length + 1] = inputs[places[0] : length].copy()
        columns["input_length"][0] += 1
    elif damage == "missing":
        inputs[places[-1]] = EOS
        columns["input_length"][0] -= 1
    elif damage == "trailing":
        label, end = columns["labels"][0], int(columns["label_length"][0])
        label[end - 1 : end + 1] = [FIRST + 3, EOS]
        columns["label_length"][0] += 1
    else:
        inputs[places[1]] = FIRST + 7
    ids, lengths = restore_span_corruption(columns, HALF, VOCABULARY)
    same = lengths[0] == 12 and np.array_equal(ids[0, :12], rows.input_ids[0, :12])
    assert not same


def test_no_global_generator_is_read_or_left_changed() -> None:
    before = random.getstate(), str(np.random.get_state())  # noqa: NPY002  # must stay as it is
    corrupt_spans(body_of(50), HALF, VOCABULARY, WIDE)
    assert (random.getstate(), str(np.random.get_state())) == before  # noqa: NPY002  # likewise


@VERSIONS
def test_more_spans_than_sentinels_are_refused_and_never_become_other_ids(module: ModuleType) -> None:
    few = vocabulary_of(60, {**SPECIAL, **{f"sentinel_{n}": FIRST + n for n in range(5)}})
    enough = module.corrupt_spans(body_of(20), HALF, few, WIDE)
    assert enough["labels"].max() == FIRST + 4
    with pytest.raises(FormatError, match="5 sentinels, but a row has 6 spans"):
        module.corrupt_spans(body_of(24), HALF, few, WIDE)


@VERSIONS
def test_rows_longer_than_the_widths_are_refused(module: ModuleType) -> None:
    rows = replace(body_of(40), numbers=np.array([17]))
    for widths, name in ((Widths(80, 30, 90), "input_ids"), (Widths(80, 90, 30), "labels")):
        with pytest.raises(
            FormatError, match=f"{name}: row 17 would give 31 tokens, the column holds 30"
        ):
            module.corrupt_spans(rows, HALF, VOCABULARY, widths)


def test_a_run_that_needs_more_sentinels_is_refused_with_what_would_do() -> None:
    config = SpanCorruption(noise_density=0.5, mean_noise_span_length=3.0)
    assert max_spans(config, 512) == 128
    refuse_sentinels(config, 1_024, 256)
    with pytest.raises(ConfigError, match="up to 384 spans, the tokenizer has 256 sentinels") as found:
        refuse_sentinels(config, 1_536, 256)
    fits = int(str(found.value).split("lower it to ")[1].split(", or")[0].replace(",", ""))
    assert max_spans(config, fits) == 256 < max_spans(config, fits + 1)


def test_inputs_too_short_for_any_span_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"seq_len = 3: inputs and targets .* at least 4 and 3 tokens"):
        span_lengths(SpanCorruption(mode_token=MODE), 3)
    assert span_lengths(SpanCorruption(mode_token=MODE), 4).stored == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"noise_density": 0.0}, "noise_density"),
        ({"noise_density": 1.0}, "noise_density"),
        ({"mean_noise_span_length": 0.5}, "mean_noise_span_length"),
        (
            {"noise_density": 0.9, "mean_noise_span_length": 1.0},
            r"can have 0\.1 spans, not 0\.9; lower the density to 0\.5, or raise the length to 9",
        ),
        ({"mode_token": "mode_q"}, "mode_token"),
        ({"kind": "mlm"}, "kind"),
    ],
)
def test_what_cannot_be_is_refused(content: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SpanCorruption.model_validate(content)
