"""What a mixture promises: each row is what its component alone would make of it, and says which."""

import numpy as np
import pytest

from stages.errors import ConfigError
from stages.objectives.bart.config import BART
from stages.objectives.clm.config import CausalLM
from stages.objectives.drawing import draw_columns, draw_plainly, matches
from stages.objectives.fim.config import FIM
from stages.objectives.mixture.kind import Component, Mixture
from stages.objectives.mlm.config import MaskedLM
from stages.objectives.prefix_lm.config import PrefixLM
from stages.objectives.rows import StoredRows, single_segments
from stages.objectives.span_corruption.config import SpanCorruption
from stages.objectives.table import refuse_impossible, resolve, traits_of
from stages.objectives.traits import Objective
from stages.objectives.vocabulary import vocabulary_of
from stages.tokenizer.special import special_ids

VOCABULARY = vocabulary_of(600, special_ids())
SEQ_LEN = 64
MIXED = Mixture(
    components=(
        Component(weight=3.0, objective=SpanCorruption()),
        Component(objective=BART()),
        Component(objective=SpanCorruption(noise_density=0.5)),
    )
)
MASKS = Mixture(
    components=(
        Component(objective=MaskedLM(mask_probability=0.4)),
        Component(objective=MaskedLM()),
    )
)
TWO_CAUSAL = Mixture(
    components=(Component(objective=CausalLM()), Component(objective=CausalLM(mask_first_token=True)))
)


def rows_of(mixture: Mixture, count: int = 90) -> StoredRows:
    """Rows of one document each, their components in turns, none longer than its component's."""
    stored = resolve(mixture, SEQ_LEN).widths.stored
    longest = [part.widths.stored for part in resolve(mixture, SEQ_LEN).parts]
    components = np.arange(count, dtype=np.uint8) % len(longest)
    lengths = np.array([1 + (5 * n) % longest[c] for n, c in enumerate(components.tolist())])
    ids = np.full((count, stored), special_ids()["pad"], np.uint16)
    for row, length in enumerate(lengths.tolist()):
        ids[row, :length] = 530 + np.arange(length) % 60
    ptr, length = single_segments(lengths)
    return StoredRows(
        ids, ptr, length, np.arange(count), seed=7, epoch=1, shard=2, components=components
    )


@pytest.mark.parametrize("mixture", [MIXED, MASKS, TWO_CAUSAL])
def test_each_row_is_what_its_component_makes_of_it(mixture: Mixture) -> None:
    rows, widths = rows_of(mixture), resolve(mixture, SEQ_LEN).widths
    assert rows.components is not None
    columns = draw_columns(rows, mixture, VOCABULARY, widths)
    assert columns["objective_id"].tolist() == rows.components.tolist()
    for number, part in enumerate(mixture.components):
        chosen = np.flatnonzero(rows.components == number)
        alone = draw_plainly(rows.take(chosen), part.objective, VOCABULARY, widths)
        assert alone.keys() == columns.keys() - {"objective_id"}
        for name, column in alone.items():
            assert np.array_equal(columns[name][chosen], column)


@pytest.mark.parametrize("mixture", [MIXED, MASKS, TWO_CAUSAL])
def test_columns_give_the_rows_back(mixture: Mixture) -> None:
    rows, widths = rows_of(mixture), resolve(mixture, SEQ_LEN).widths
    columns = draw_columns(rows, mixture, VOCABULARY, widths)
    assert matches(rows, columns, mixture, VOCABULARY).all()
    wrong = {**columns, "objective_id": (columns["objective_id"] + 1) % len(mixture.components)}
    if mixture is MIXED:
        assert not matches(rows, wrong, mixture, VOCABULARY).all()


def test_no_rows_have_columns_too() -> None:
    none = rows_of(MIXED).take(np.empty(0, np.int64))
    columns = draw_columns(none, MIXED, VOCABULARY, resolve(MIXED, SEQ_LEN).widths)
    assert columns["labels"].shape == (0, resolve(MIXED, SEQ_LEN).widths.labels)


def test_document_copies_are_shared_out_by_weight() -> None:
    hashes = np.random.default_rng(3).integers(0, 2**64, 20_000, np.uint64, endpoint=False).tolist()
    known = resolve(MIXED, SEQ_LEN)
    found = np.bincount([known.component(each) for each in hashes], minlength=3)
    expected = 20_000 * np.array([0.6, 0.2, 0.2])
    assert (np.abs(found - expected) < 5 * np.sqrt(expected)).all()
    assert [known.component(each) for each in (0, 2**64 - 1)] == [0, 2]


def test_the_mixture_has_the_traits_of_its_components() -> None:
    traits = traits_of(MIXED)
    assert (traits.attention, traits.label_convention) == ("encoder_decoder", "targets")
    assert traits.single
    assert traits.dynamic


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        (SpanCorruption(), MaskedLM(), "span_corruption has attention = 'encoder_decoder', but mlm"),
        (SpanCorruption(), BART(pack_rows=True), "has single = True, but bart has False"),
        (FIM(), MaskedLM(), "fim has attention"),
        (PrefixLM(), PrefixLM(split="source"), "the sections of a source lay out rows of their own"),
        (PrefixLM(split="source"), PrefixLM(), "the sections of a source lay out rows of their own"),
    ],
)
def test_rows_that_no_batch_could_hold_together_are_refused(
    one: Objective, other: Objective, message: str
) -> None:
    mixture = Mixture.model_validate(
        {"components": [{"objective": part.model_dump()} for part in (one, other)]}
    )
    with pytest.raises(ConfigError, match=message):
        refuse_impossible(mixture, seq_len=SEQ_LEN, num_sentinels=256)


def test_what_a_component_cannot_be_made_of_is_refused() -> None:
    mixture = Mixture(components=(Component(objective=SpanCorruption()),) * 2)
    refuse_impossible(mixture, seq_len=SEQ_LEN, num_sentinels=256)
    with pytest.raises(ConfigError, match="sentinels"):
        refuse_impossible(mixture, seq_len=SEQ_LEN, num_sentinels=2)


def test_rows_of_a_mixture_are_never_taken_for_the_stored_ones() -> None:
    assert traits_of(CausalLM()).copied
    assert not traits_of(TWO_CAUSAL).copied
