"""What prefix language modelling promises.

Prefix and rest are the row, neither empty; loss lies on the rest alone; prefixes are uniform between
their bounds; compiled and plain columns are the same bits, whatever rows are read together.
"""

import itertools
import random
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stages.errors import ConfigError, FormatError
from stages.objectives.prefix_lm import config as prefix_lm
from stages.objectives.prefix_lm import kernel as compiled
from stages.objectives.prefix_lm.config import (
    PrefixLM,
    keeps_prompts,
    prefix_widths,
    restore_prefix_lm,
    shortest_prefixes,
    split_prefixes,
)
from stages.objectives.rows import IGNORED, Columns, StoredRows, Widths, lengths_without_eos
from stages.objectives.span_corruption.config import ModeToken
from stages.objectives.vocabulary import vocabulary_of
from tests.campaign import examples
from tests.stages.objectives.built_rows import (
    DTYPES,
    EOS,
    ORDINARY,
    PAD,
    SPECIAL,
    chi_square_sigmas,
    copies,
    keyed,
    other_keys,
    stored,
)

MODE: ModeToken = "mode_s"
VOCABULARY = vocabulary_of(45, {**SPECIAL, MODE: 40})
WIDE = Widths(30, 40, 40)
DECODER = PrefixLM()
ENCODER = PrefixLM(architecture="encoder_decoder")
VERSIONS = pytest.mark.parametrize("module", [prefix_lm, compiled], ids=["plain", "compiled"])

densities = st.sampled_from([0.5, 0.25, 0.01, 0.4])
decoders = st.builds(PrefixLM, target_density=densities)
encoders = st.builds(
    PrefixLM,
    architecture=st.just("encoder_decoder"),
    target_density=densities,
    mode_token=st.sampled_from([None, MODE]),
)


@st.composite
def any_rows(draw: st.DrawFn) -> StoredRows:
    """Rows of 0 to 30 tokens in up to three segments, some of special ids, some closed by EOS."""
    token = ORDINARY | st.sampled_from([EOS, SPECIAL["unk"], SPECIAL["mask"]])
    segments = st.lists(st.lists(token, min_size=1, max_size=10), max_size=3)
    rows = draw(st.lists(segments, max_size=5))
    return draw(keyed(stored(rows, length=30, dtype=draw(DTYPES))))


def closed(length: int) -> StoredRows:
    """Return a row of one document of so many tokens, its EOS included."""
    return stored([[[*(8 + n % 31 for n in range(length - 1)), EOS]]], length=length)


def check_bounds(prefix: int, n: int, config: PrefixLM) -> None:
    shortest = int(shortest_prefixes(np.array([n]), config)[0])
    assert 1 <= max(1, round((1 - 2 * config.target_density) * (n - 1))) == shortest <= prefix < n


@settings(deadline=None, max_examples=examples(60))
@given(any_rows(), decoders)
def test_a_decoder_sees_the_row_and_has_loss_after_the_prefix_alone(
    rows: StoredRows, config: PrefixLM
) -> None:
    columns = split_prefixes(rows, config, VOCABULARY, WIDE)
    assert columns["input_ids"] is rows.input_ids
    assert columns["labels"].dtype == columns["prefix_length"].dtype == np.int32
    for row, n in enumerate(rows.filled.tolist()):
        prefix = int(columns["prefix_length"][row])
        labels = columns["labels"][row].tolist()
        assert labels == [IGNORED] * prefix + rows.input_ids[row, prefix:n].tolist() + [IGNORED] * (
            30 - n
        )
        if n < 2:
            assert prefix == n
        else:
            check_bounds(prefix, n, config)


@settings(deadline=None, max_examples=examples(60))
@given(any_rows(), encoders)
def test_an_encoder_reads_the_prefix_and_its_decoder_gives_the_rest(
    rows: StoredRows, config: PrefixLM
) -> None:
    columns = split_prefixes(rows, config, VOCABULARY, WIDE)
    first = [40] if config.mode_token else []
    for row, n in enumerate(lengths_without_eos(rows, EOS).tolist()):
        inputs = columns["input_ids"][row, : columns["input_length"][row]].tolist()
        targets = columns["labels"][row, : columns["label_length"][row]].tolist()
        body = rows.input_ids[row, :n].tolist()
        if n < 2:
            assert (inputs, targets) == ([*first, *body, EOS], [])
            continue
        prefix = len(inputs) - len(first) - 1
        check_bounds(prefix, n, config)
        assert inputs == [*first, *body[:prefix], EOS]
        assert targets == [*body[prefix:], EOS]
    labels, shifted = columns["labels"], columns["decoder_input_ids"]
    inside = np.arange(WIDE.labels) < columns["label_length"][:, None]
    assert np.array_equal(labels != IGNORED, inside)
    assert (shifted[:, 0] == PAD).all()
    assert np.array_equal(shifted[:, 1:], np.where(inside[:, 1:], labels[:, :-1], PAD))
    outside = np.arange(WIDE.inputs) >= columns["input_length"][:, None]
    assert (columns["input_ids"][outside] == PAD).all()


@settings(deadline=None, max_examples=examples(60))
@given(any_rows(), decoders | encoders)
def test_any_row_can_be_restored(rows: StoredRows, config: PrefixLM) -> None:
    before = rows.input_ids.copy()
    columns = split_prefixes(rows, config, VOCABULARY, WIDE)
    ids, lengths = restore_prefix_lm(columns, config, VOCABULARY)
    wanted = rows.filled if config.architecture == "decoder_only" else lengths_without_eos(rows, EOS)
    assert np.array_equal(lengths, wanted)
    expected = np.where(np.arange(30) < wanted[:, None], rows.input_ids, PAD)
    assert np.array_equal(ids, expected[:, : ids.shape[1]])
    assert ids.dtype == rows.input_ids.dtype
    assert np.array_equal(rows.input_ids, before)


@VERSIONS
def test_rows_written_out(module: ModuleType) -> None:
    rows = replace(stored([[[10, 11, 12, 13, EOS]], [[20, EOS]], [[30]], []], length=6), epoch=4)
    x = IGNORED
    columns = module.split_prefixes(rows, DECODER, VOCABULARY, Widths(6, 6, 6))
    assert columns["labels"].tolist() == [
        [x, x, x, 13, EOS, x],
        [x, EOS, x, x, x, x],
        [x] * 6,
        [x] * 6,
    ]
    assert columns["prefix_length"].tolist() == [3, 1, 1, 0]
    config = PrefixLM(architecture="encoder_decoder", mode_token=MODE)
    columns = module.split_prefixes(rows, config, VOCABULARY, Widths(6, 6, 5))
    assert {name: column.tolist() for name, column in columns.items()} == {
        "input_ids": [
            [40, 10, 11, EOS, PAD, PAD],
            [40, 20, EOS, PAD, PAD, PAD],
            [40, 30, EOS, PAD, PAD, PAD],
            [40, EOS, PAD, PAD, PAD, PAD],
        ],
        "labels": [[12, 13, EOS, x, x], [x] * 5, [x] * 5, [x] * 5],
        "decoder_input_ids": [[PAD, 12, 13, PAD, PAD], [PAD] * 5, [PAD] * 5, [PAD] * 5],
        "input_length": [4, 3, 3, 2],
        "label_length": [3, 0, 0, 0],
    }


def prefixes(rows: StoredRows, config: PrefixLM) -> list[int]:
    length: list[int] = compiled.split_prefixes(rows, config, VOCABULARY, WIDE)["prefix_length"].tolist()
    return length


@pytest.mark.parametrize(("density", "least"), [(0.5, 1), (0.25, 14), (0.01, 28), (0.4, 6)])
def test_prefixes_are_uniform_between_their_bounds(density: float, least: int) -> None:
    rows = copies(closed(30), 100_000)
    found = np.bincount(prefixes(rows, PrefixLM(target_density=density)), minlength=30)
    assert found[:least].sum() == 0
    expected = np.full(30 - least, 100_000 / (30 - least))
    assert chi_square_sigmas(found[least:], expected) < 4
    mean = 100_000 * (least + 29) / 2
    assert abs(found @ np.arange(30) - mean) < 5 * np.sqrt(100_000 * (30 - least) ** 2 / 12)


def test_another_epoch_shard_seed_or_row_draws_another_prefix() -> None:
    rows = copies(closed(9), 20_000)
    found = [prefixes(each, DECODER) for each in other_keys(rows)]
    for first, second in itertools.combinations(found, 2):
        counts = np.bincount(np.array(first) * 8 + np.array(second) - 9, minlength=64)
        assert chi_square_sigmas(counts, np.full(64, 20_000 / 64)) < 4


@VERSIONS
@pytest.mark.parametrize("config", [DECODER, ENCODER], ids=["decoder", "encoder"])
def test_a_row_has_the_same_columns_whatever_is_read_with_it(
    module: ModuleType, config: PrefixLM
) -> None:
    lengths = np.random.default_rng(3).integers(0, 29, 40)
    rows = stored([[[*range(8, 8 + n), EOS]] for n in lengths], length=30)
    whole: Columns = module.split_prefixes(rows, config, VOCABULARY, WIDE)
    order = np.random.default_rng(1).permutation(40)
    for chosen in (order, np.array([7]), np.empty(0, np.int64)):
        some = module.split_prefixes(rows.take(chosen), config, VOCABULARY, WIDE)
        for name, column in some.items():
            assert np.array_equal(column, whole[name][chosen]), name


@pytest.mark.parametrize("density", [0.5, 0.25, 0.1])
@pytest.mark.parametrize("mode", [None, MODE])
def test_every_row_that_is_no_longer_than_stored_fits(density: float, mode: ModeToken | None) -> None:
    config = PrefixLM(architecture="encoder_decoder", target_density=density, mode_token=mode)
    widths = prefix_widths(config, 20)
    assert (widths.stored, widths.inputs) == (20 - (mode is not None), 20)
    full = copies(stored([[[8] * widths.stored]], length=widths.stored), 400)
    columns = split_prefixes(full, config, VOCABULARY, widths)
    assert columns["input_length"].max() == 20
    assert columns["label_length"].max() == widths.labels
    short = stored([[[8] * n] for n in range(widths.stored + 1)], length=widths.stored)
    split_prefixes(short, config, VOCABULARY, widths)


def test_widths_of_both_forms() -> None:
    assert prefix_widths(DECODER, 512) == Widths(512, 512, 512)
    assert prefix_widths(ENCODER, 512) == Widths(512, 512, 512)
    quarter = PrefixLM(architecture="encoder_decoder", target_density=0.25, mode_token=MODE)
    assert prefix_widths(quarter, 512) == Widths(511, 512, 257)


@VERSIONS
def test_rows_longer_than_the_widths_are_refused_whatever_their_prefix(module: ModuleType) -> None:
    rows = replace(closed(25), numbers=np.array([17]))
    for widths, name in ((Widths(30, 23, 40), "input_ids"), (Widths(30, 40, 23), "labels")):
        with pytest.raises(
            FormatError, match=f"{name}: row 17 would give 24 tokens, the column holds 23"
        ):
            module.split_prefixes(rows, ENCODER, VOCABULARY, widths)


def test_a_changed_label_is_not_restored() -> None:
    rows = closed(20)
    for config in (DECODER, ENCODER):
        columns = {k: v.copy() for k, v in split_prefixes(rows, config, VOCABULARY, WIDE).items()}
        place = np.flatnonzero(columns["labels"][0] != IGNORED)[0]
        columns["labels"][0, place] = 39
        ids, _ = restore_prefix_lm(columns, config, VOCABULARY)
        assert not np.array_equal(ids[0, :19], rows.input_ids[0, :19])


def test_no_global_generator_is_read_or_left_changed() -> None:
    before = random.getstate(), str(np.random.get_state())  # noqa: NPY002  # must stay as it is
    split_prefixes(closed(20), DECODER, VOCABULARY, WIDE)
    assert (random.getstate(), str(np.random.get_state())) == before  # noqa: NPY002  # likewise


def test_inputs_too_short_for_a_prefix_are_refused() -> None:
    with pytest.raises(ConfigError, match="seq_len = 2: inputs of prefix_lm take at least 3 tokens"):
        prefix_widths(PrefixLM(architecture="encoder_decoder", mode_token=MODE), 2)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"target_density": 0.0}, "target_density"),
        ({"target_density": 0.6}, "target_density"),
        ({"architecture": "encoder"}, "architecture"),
        ({"mode_token": "mode_s"}, "leave it out, or set architecture to 'encoder_decoder'"),
    ],
)
def test_what_cannot_be_is_refused(content: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        PrefixLM.model_validate(content)


SOURCE = PrefixLM(split="source")
SOURCE_SEQ2SEQ = PrefixLM(split="source", architecture="encoder_decoder", target_density=0.25)


@VERSIONS
@settings(deadline=None, max_examples=examples(150))
@given(st.data(), st.sampled_from([SOURCE, SOURCE_SEQ2SEQ]))
def test_the_prompt_that_a_source_names_is_the_prefix(
    module: ModuleType, data: st.DataObject, config: PrefixLM
) -> None:
    texts = data.draw(st.lists(st.lists(ORDINARY, max_size=20), min_size=1, max_size=6))
    rows = data.draw(keyed(stored([[[*text, EOS]] for text in texts], length=24)))
    prompts = [data.draw(st.integers(0, len(text) + 1)) for text in texts]
    rows = replace(rows, prompt=np.array(prompts, np.int32))
    widths = prefix_widths(config, 24)
    columns: Columns = module.split_prefixes(rows, config, VOCABULARY, widths)
    drawn: Columns = module.split_prefixes(replace(rows, prompt=None), config, VOCABULARY, widths)
    clean, lengths = restore_prefix_lm(columns, config, VOCABULARY)
    for row, (text, prompt) in enumerate(zip(texts, prompts, strict=True)):
        decoder = config.architecture == "decoder_only"
        body = [*text, EOS] if decoder else text
        assert clean[row, : lengths[row]].tolist() == body
        said = columns["labels"][row][columns["labels"][row] != IGNORED].tolist()
        if prompt:
            rest = body[prompt:]
            assert said == (rest if decoder or not rest else [*rest, EOS])
        else:
            assert said == drawn["labels"][row][drawn["labels"][row] != IGNORED].tolist()
    assert keeps_prompts(rows, columns, config, VOCABULARY).all()
    named = rows.prompt > 0 if rows.prompt is not None else np.zeros(0, np.bool_)
    name = "prefix_length" if config.architecture == "decoder_only" else "input_length"
    moved = {**columns, name: columns[name] + 1}
    assert (keeps_prompts(rows, moved, config, VOCABULARY) == ~named).all()


def test_a_source_does_not_split_packed_rows() -> None:
    message = "a packed row holds several prompts and targets; set pack_documents instead"
    with pytest.raises(ValidationError, match=message):
        PrefixLM(split="source", pack_rows=True)
