"""What the mixture of denoisers promises.

Each row is drawn exactly as its own denoiser alone would draw it, with the mode token first and nowhere
else; denoisers come in their shares; compiled and plain columns are the same bits.
"""

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stages.errors import ConfigError, FormatError
from stages.objectives.drawing import draw_columns, draw_plainly, restore_rows
from stages.objectives.prefix_lm.config import PrefixLM, split_prefixes
from stages.objectives.rows import Columns, StoredRows, Widths, lengths_without_eos
from stages.objectives.span_corruption.config import SpanCorruption, corrupt_spans, span_lengths
from stages.objectives.table import refuse_impossible, resolve
from stages.objectives.traits import Objective
from stages.objectives.ul2.kind import UL2, denoisers
from stages.objectives.vocabulary import Vocabulary, vocabulary_of
from tests.campaign import examples
from tests.stages.objectives.built_rows import (
    DTYPES,
    EOS,
    ORDINARY,
    PAD,
    SPECIAL,
    chi_square_sigmas,
    keyed,
    other_keys,
    stored,
)

MODES = {"mode_r": 40, "mode_x": 41, "mode_s": 42}
VOCABULARY = vocabulary_of(80, {**SPECIAL, **MODES, **{f"sentinel_{n}": 43 + n for n in range(30)}})
WIDE = Widths(40, 50, 50)
PRESETS = pytest.mark.parametrize("config", [UL2(), UL2(preset="ul2r")], ids=["ul2", "ul2r"])
VERSIONS = pytest.mark.parametrize("draw", [draw_plainly, draw_columns], ids=["plain", "compiled"])

Draw = Callable[[StoredRows, Objective, Vocabulary, Widths], Columns]

configs = st.builds(
    UL2,
    preset=st.sampled_from(["ul2", "ul2r"]),
    mode_tokens=st.booleans(),
    s_density=st.sampled_from([0.25, 0.5]),
)


@st.composite
def any_rows(draw: st.DrawFn, config: UL2) -> StoredRows:
    """Rows of 0 to 40 tokens, each of any denoiser."""
    token = ORDINARY | st.just(EOS)
    segments = st.lists(st.lists(token, min_size=1, max_size=20), max_size=2)
    rows = draw(keyed(stored(draw(st.lists(segments, max_size=8)), length=40, dtype=draw(DTYPES))))
    number = len(rows.numbers)
    component = st.integers(0, len(denoisers(config)) - 1)
    components = draw(st.lists(component, min_size=number, max_size=number))
    return replace(rows, components=np.array(components, np.uint8))


def some_rows(config: UL2, count: int = 60) -> StoredRows:
    """Rows of many lengths, each denoiser in turn."""
    lengths = np.random.default_rng(3).integers(0, 39, count)
    rows = stored([[[*(8 + i % 31 for i in range(n)), EOS]] for n in lengths], length=40)
    return replace(rows, components=(np.arange(count) % len(denoisers(config))).astype(np.uint8))


@settings(deadline=None, max_examples=examples(60))
@given(st.data(), configs)
def test_each_row_is_drawn_as_its_denoiser_alone_draws_it(data: st.DataObject, config: UL2) -> None:
    rows = data.draw(any_rows(config))
    assert rows.components is not None
    columns = draw_plainly(rows, config, VOCABULARY, WIDE)
    assert columns["objective_id"].tolist() == rows.components.tolist()
    assert columns["objective_id"].dtype == np.int32
    for row, component in enumerate(rows.components):
        one, objective = rows.take(np.array([row])), denoisers(config)[component].objective
        if isinstance(objective, PrefixLM):
            alone = split_prefixes(one, objective, VOCABULARY, WIDE)
        else:
            assert isinstance(objective, SpanCorruption)
            alone = corrupt_spans(one, objective, VOCABULARY, WIDE)
        for name, column in alone.items():
            assert np.array_equal(column[0], columns[name][row]), name


@settings(deadline=None, max_examples=examples(60))
@given(st.data(), configs)
def test_any_row_can_be_restored_and_its_mode_token_stands_first_and_nowhere_else(
    data: st.DataObject, config: UL2
) -> None:
    rows = data.draw(any_rows(config))
    assert rows.components is not None
    columns = draw_plainly(rows, config, VOCABULARY, WIDE)
    ids, lengths = restore_rows(columns, config, VOCABULARY)
    wanted = lengths_without_eos(rows, EOS)
    assert np.array_equal(lengths, wanted)
    expected = np.where(np.arange(40) < wanted[:, None], rows.input_ids, PAD)
    assert np.array_equal(ids, expected[:, : ids.shape[1]])
    modes = np.isin(columns["input_ids"], list(MODES.values()))
    assert not modes[:, 1:].any()
    assert not np.isin(columns["labels"], list(MODES.values())).any()
    assert modes[:, 0].all() if config.mode_tokens else not modes.any()
    if config.mode_tokens:
        names = [MODES[f"mode_{denoisers(config)[each].name[0]}"] for each in rows.components]
        assert columns["input_ids"][:, 0].tolist() == names


def test_the_prefix_denoiser_writes_no_sentinel_and_the_others_write_one() -> None:
    config = UL2()
    rows = some_rows(config, 700)
    columns = draw_plainly(rows, config, VOCABULARY, WIDE)
    assert rows.components is not None
    sentinels = ((columns["labels"] >= 43).sum(axis=1) > 0)[lengths_without_eos(rows, EOS) > 1]
    prefix = (rows.components == 2)[lengths_without_eos(rows, EOS) > 1]
    assert np.array_equal(sentinels, ~prefix)
    assert 50 < prefix.sum() < 150


def test_the_presets_are_those_of_their_papers() -> None:
    def table(config: UL2) -> list[tuple[str, float, float | None, float]]:
        found: list[tuple[str, float, float | None, float]] = []
        total = sum(each.weight for each in denoisers(config))
        for each in denoisers(config):
            kind = each.objective
            if isinstance(kind, SpanCorruption):
                found.append(
                    (each.name[0], kind.noise_density, kind.mean_noise_span_length, each.weight / total)
                )
            else:
                assert isinstance(kind, PrefixLM)
                assert kind.architecture == "encoder_decoder"
                found.append((each.name[0], kind.target_density, None, each.weight / total))
        return found

    assert table(UL2()) == [
        ("r", 0.15, 3.0, 1 / 7),
        ("r", 0.15, 8.0, 1 / 7),
        ("s", 0.25, None, 1 / 7),
        ("x", 0.5, 3.0, 1 / 7),
        ("x", 0.5, 8.0, 1 / 7),
        ("x", 0.15, 64.0, 1 / 7),
        ("x", 0.5, 64.0, 1 / 7),
    ]
    assert table(UL2(preset="ul2r", s_density=0.5)) == [
        ("s", 0.5, None, 0.5),
        ("r", 0.15, 3.0, 0.25),
        ("x", 0.5, 32.0, 0.25),
    ]
    weights = [each.weight for each in denoisers(UL2(preset="ul2r", weights=(1.0, 3.0, 0.0)))]
    assert weights == [1.0, 3.0, 0.0]


@pytest.mark.slow
def test_documents_get_denoisers_in_their_shares_and_none_of_weight_zero() -> None:
    config = UL2(weights=(0.0, 1.0, 2.0, 0.0, 3.0, 1.0, 0.0))
    hashes = np.random.default_rng(2).integers(0, 2**64, 100_000, np.uint64, endpoint=False)
    weighted, even, few = (resolve(each, 512) for each in (config, UL2(), UL2(preset="ul2r")))
    found = np.bincount([weighted.component(each) for each in hashes.tolist()], minlength=7)
    assert found[[0, 3, 6]].sum() == 0
    assert chi_square_sigmas(found[[1, 2, 4, 5]], np.array([1, 2, 3, 1]) * 100_000 / 7) < 4
    equal = np.bincount([even.component(each) for each in hashes.tolist()], minlength=7)
    assert chi_square_sigmas(equal, np.full(7, 100_000 / 7)) < 4
    assert [weighted.component(each) for each in (0, 2**64 - 1)] == [1, 5]
    assert [few.component(each) for each in (2**63 - 1, 2**63)] == [0, 1]


@PRESETS
@pytest.mark.parametrize("seq_len", [40, 128, 512])
def test_the_widths_hold_the_rows_of_every_denoiser_with_their_mode_token(
    config: UL2, seq_len: int
) -> None:
    known = resolve(config, seq_len)
    widths, each = known.widths, [part.widths for part in known.parts]
    assert widths.stored == max(w.stored for w in each)
    assert widths.labels == max(w.labels for w in each) <= seq_len == widths.inputs
    many = vocabulary_of(400, {**SPECIAL, **MODES, **{f"sentinel_{n}": 43 + n for n in range(256)}})
    full = np.full((len(each), widths.stored), PAD, np.uint16)
    for row, own in enumerate(each):
        full[row, : own.stored] = 8
    rows = StoredRows(
        full,
        np.arange(len(each) + 1),
        np.array([own.stored for own in each]),
        np.arange(len(each)),
        seed=1,
        epoch=0,
        shard=0,
        components=np.arange(len(each), dtype=np.uint8),
    )
    columns = draw_columns(rows, config, many, widths)
    assert columns["input_length"].max() == seq_len
    assert restore_rows(columns, config, many)[1].tolist() == [own.stored for own in each]


def test_long_spans_of_few_tokens_are_one_span_at_the_end() -> None:
    """In bodies of up to 636 tokens, as the module says."""
    config = SpanCorruption(mean_noise_span_length=64.0)
    counts = [int(span_lengths(config, n).stored) for n in (512, 544)]
    assert counts[0] < 636 < counts[1]
    rows = stored([[[8] * 636], [[8] * 637]], length=637)
    columns = corrupt_spans(rows, config, VOCABULARY, Widths(637, 640, 640))
    assert (columns["labels"] >= 43).sum(axis=1).tolist() == [1, 2]


def test_another_epoch_shard_seed_or_row_draws_otherwise() -> None:
    config = UL2()
    rows = some_rows(config, 2_100)
    found = [draw_columns(each, config, VOCABULARY, WIDE) for each in other_keys(rows)]
    long = lengths_without_eos(rows, EOS) > 30
    for first, second in itertools.combinations(found, 2):
        differ = (first["labels"] != second["labels"]).any(axis=1)
        for component in (2, 3, 4):
            assert differ[long & (rows.components == component)].mean() > 0.7


@VERSIONS
@PRESETS
def test_a_row_has_the_same_columns_whatever_is_read_with_it(draw: Draw, config: UL2) -> None:
    rows = some_rows(config)
    whole = draw(rows, config, VOCABULARY, WIDE)
    order = np.random.default_rng(1).permutation(60)
    for chosen in (order, np.array([10]), np.empty(0, np.int64)):
        some = draw(rows.take(chosen), config, VOCABULARY, WIDE)
        assert some.keys() == whole.keys()
        for name, column in some.items():
            assert column.dtype == whole[name].dtype
            assert np.array_equal(column, whole[name][chosen]), name


def test_a_row_under_another_denoisers_name_is_not_restored() -> None:
    config = UL2()
    rows = some_rows(config)
    columns = dict(draw_plainly(rows, config, VOCABULARY, WIDE))
    columns["objective_id"] = (columns["objective_id"] + 3).astype(np.int32) % 7
    ids, lengths = restore_rows(columns, config, VOCABULARY)
    wanted = lengths_without_eos(rows, EOS)
    assert (lengths != wanted).mean() > 0.5
    columns["objective_id"] = np.full(60, 9, np.int32)
    assert restore_rows(columns, config, VOCABULARY)[1].sum() == 0
    assert len(ids) == 60


@VERSIONS
def test_rows_without_a_denoiser_are_refused(draw: Draw) -> None:
    config = UL2(preset="ul2r")
    rows = some_rows(config, 5)
    with pytest.raises(FormatError, match="none stored"):
        draw(replace(rows, components=None), config, VOCABULARY, WIDE)
    wrong = replace(rows, components=np.array([0, 1, 3, 0, 0], np.uint8))
    with pytest.raises(FormatError, match="row 2 has component 3, but the mixture has 3"):
        draw(wrong, config, VOCABULARY, WIDE)


def test_a_mixture_that_needs_more_sentinels_is_refused() -> None:
    refuse_impossible(UL2(), seq_len=512, num_sentinels=128)
    with pytest.raises(ConfigError, match="up to 128 spans, the tokenizer has 100 sentinels"):
        refuse_impossible(UL2(mode_tokens=False), seq_len=512, num_sentinels=100)
    refuse_impossible(UL2(preset="ul2r"), seq_len=512, num_sentinels=100)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"preset": "ul3"}, "preset"),
        ({"s_density": 0.6}, "s_density"),
        ({"weights": (1.0, 1.0)}, "preset = 'ul2' has 7 denoisers, r_3_15, .*; give a weight for each"),
        ({"preset": "ul2r", "weights": (1.0, -1.0, 1.0)}, "none may be negative"),
        ({"preset": "ul2r", "weights": (0.0, 0.0, 0.0)}, "one must be above 0"),
    ],
)
def test_what_cannot_be_is_refused(content: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        UL2.model_validate(content)
