"""What every objective promises of any stored rows: of no token, of one or two, of special ids alone.

Nothing is lost and nothing changed: the columns give the rows back, and neither what was passed nor any
global generator differs afterwards; a row has the same bits whatever is read along with it. Compiled
kernels draw the bits of the plain functions, in every form of every kind. What only one kind promises
stands in its own tests.
"""

import random
from dataclasses import astuple, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.objectives.bart.config import BART
from stages.objectives.clm.config import CausalLM
from stages.objectives.drawing import draw_columns, draw_plainly, matches
from stages.objectives.electra.config import Generator, ReplacedTokens
from stages.objectives.fim.config import FIM
from stages.objectives.kind import Kind, nothing_drawn
from stages.objectives.mixture.kind import Component, Mixture
from stages.objectives.mlm.config import MaskedLM, Selection
from stages.objectives.prefix_lm.config import PrefixLM
from stages.objectives.rows import IGNORED, Columns, StoredRows
from stages.objectives.simcse.config import SimCSE
from stages.objectives.span_corruption.config import ModeToken, SpanCorruption
from stages.objectives.table import KINDS, kind_of, read_objective, resolve, traits_of
from stages.objectives.traits import Objective
from stages.objectives.ul2.kind import UL2
from stages.objectives.vocabulary import vocabulary_of
from stages.tokenizer.special import special_ids
from stages.verify.columns import ColumnTally
from tests.campaign import examples
from tests.stages.objectives.built_rows import DTYPES, ID_TYPES, shown

SIZE, SEQ_LEN = 600, 24
SPECIAL = special_ids()
VOCABULARY = vocabulary_of(SIZE, SPECIAL, np.arange(SIZE) % 3 != 0)
EOS, PAD = SPECIAL["eos"], SPECIAL["pad"]
IN_TEXTS = [SPECIAL[name] for name in ("unk", "bos", "eos", "cls", "sep", "mask")]
UNIGRAM = np.cumsum(np.where(VOCABULARY.is_special, 0, np.arange(SIZE) % 7))
REST: ModeToken = "mode_s"
EXTREME: ModeToken = "mode_x"
SEQ2SEQ = PrefixLM(architecture="encoder_decoder", target_density=0.25, mode_token=REST)
_FORMS: dict[str, Objective] = {
    "clm-first": CausalLM(mask_first_token=True),
    "clm-targets": CausalLM(loss="targets"),
    "clm-targets-first": CausalLM(loss="targets", mask_first_token=True),
    **{f"mlm-{selection}": MaskedLM(selection=selection) for selection in Selection},
    "electra": ReplacedTokens(mask_probability=0.5),
    "unigram": ReplacedTokens(generator=Generator.UNIGRAM, selection=Selection.EXACT),
    "fim": FIM(fim_rate=0.8, train_on_sentinels=False),
    "prefix": PrefixLM(),
    "seq2seq": SEQ2SEQ,
    "t5": SpanCorruption(),
    "t5-half": SpanCorruption(noise_density=0.5, mode_token=EXTREME),
    "ul2": UL2(),
    "ul2r": UL2(preset="ul2r", mode_tokens=False),
    "bart": BART(delete_ratio=0.1, rotate_probability=0.5),
    "simcse": SimCSE(),
    "crops": SimCSE(views="cropped"),
    "mixture": Mixture(
        components=(
            Component(objective=SpanCorruption()),
            Component(objective=BART()),
            Component(objective=SEQ2SEQ),
        )
    ),
}
BOTH_TYPES = [
    form for name, form in _FORMS.items() if name in ("t5", "crops") or isinstance(form, MaskedLM)
]
"""Objectives that are tried with ids of both types in the slice, too."""
IN_ONE_ROW = KINDS.keys() - {"nsp", "sop"}
"""Kinds whose rows are drawn of themselves alone."""
OBJECTIVES = {kind: read_objective({"kind": kind}) for kind in sorted(IN_ONE_ROW - {"mixture"})} | _FORMS
NAMES = pytest.mark.parametrize("name", OBJECTIVES)
CHANCES = st.sampled_from([0.0, 0.1, 0.3, 0.5, 1.0])
DENSITIES = st.sampled_from([0.5, 0.25, 0.01, 0.4])
SPANS = st.builds(
    SpanCorruption,
    noise_density=st.sampled_from([0.15, 0.01, 0.5]),
    mean_noise_span_length=st.sampled_from([1.0, 3.0, 2.5, 8.0, 64.0]),
    mode_token=st.sampled_from([None, "mode_r", "mode_x", "mode_s"]),
)
SETTINGS: dict[str, st.SearchStrategy[Objective]] = {
    "bart": st.builds(
        BART,
        mask_ratio=st.sampled_from([0.3, 0.35, 0.7]),
        poisson_lambda=st.sampled_from([3.0, 3.5, 0.5, 64.0]),
        delete_ratio=st.sampled_from([0.0, 0.1, 0.3]),
        rotate_probability=CHANCES,
    )
    | st.sampled_from(
        [
            BART(mask_ratio=1.0),
            BART(mask_ratio=0.0, delete_ratio=0.3),
            BART(mask_ratio=0.0, rotate_probability=0.5),
        ]
    ),
    "clm": st.builds(CausalLM, loss=st.sampled_from(["all", "targets"]), mask_first_token=st.booleans()),
    "electra": st.builds(
        ReplacedTokens,
        mask_probability=st.sampled_from([0.15, 0.01, 0.5, 1.0, 1e-300]),
        selection=st.sampled_from([Selection.BERNOULLI, Selection.EXACT]),
        generator=st.sampled_from([Generator.UNIFORM, Generator.UNIGRAM]),
    ),
    "fim": st.builds(
        FIM,
        loss=st.sampled_from(["all", "middle"]),
        fim_rate=CHANCES,
        fim_spm_rate=CHANCES,
        train_on_sentinels=st.booleans(),
    ),
    "mlm": st.builds(MaskedLM, selection=st.sampled_from(list(Selection)), mask_probability=DENSITIES),
    "prefix_lm": st.builds(
        PrefixLM,
        architecture=st.just("encoder_decoder"),
        target_density=DENSITIES,
        mode_token=st.sampled_from([None, REST]),
    )
    | st.builds(PrefixLM, target_density=DENSITIES, pack_documents=st.booleans())
    | st.builds(
        PrefixLM,
        target_density=DENSITIES,
        pack_documents=st.sampled_from([True]),
        split=st.just("source"),
    ),
    "simcse": st.sampled_from([SimCSE(), *(SimCSE(views="cropped", crop_ratio=c) for c in (0.6, 1.0))]),
    "span_corruption": SPANS | st.just(SpanCorruption(noise_density=0.9, mean_noise_span_length=9.0)),
    "ul2": st.builds(
        UL2,
        preset=st.sampled_from(["ul2", "ul2r"]),
        mode_tokens=st.booleans(),
        s_density=st.sampled_from([0.25, 0.5]),
    ),
    "mixture": st.just(_FORMS["mixture"]),
}
"""By kind, the settings of which every choice is drawn."""


@st.composite
def any_rows(draw: st.DrawFn, objective: Objective, *, empty: bool = False) -> StoredRows:
    """Rows of no token up to as many as fit, of text, special ids or both, in up to three segments.

    Where `empty`, segments of no token are among them, too, of which a token store has none.
    """
    stored = resolve(objective, SEQ_LEN).widths.stored
    holds = [part.widths.stored for part in resolve(objective, SEQ_LEN).parts] or [stored]
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = draw(st.integers(0, 5))
    components = generator.integers(0, len(holds), count).astype(np.uint8)
    wide = st.sampled_from(ID_TYPES) if objective in BOTH_TYPES else DTYPES
    ids = np.full((count, stored), PAD, draw(wide))
    rows: list[list[int]] = []
    for row, component in enumerate(components.tolist()):
        segments = draw(st.integers(1, 3))
        room = holds[component] - segments * traits_of(objective).growth
        filled = draw(st.sampled_from([0, 1, 2, room]) | st.integers(0, room))
        text = generator.choice(VOCABULARY.ordinary, filled)
        special = generator.random(filled) < draw(st.sampled_from([0.0, 0.3, 1.0]))
        ids[row, :filled] = np.where(special, generator.choice(IN_TEXTS, filled), text)
        if filled and draw(st.booleans()):
            ids[row, filled - 1] = EOS
        ends = np.sort([*generator.integers(not empty, max(filled, 2), segments - 1), filled])
        ends = ends if empty else np.unique(ends)
        rows.append(np.diff(ends[ends <= filled], prepend=0).tolist() if filled else [])
    ends_of_rows = np.array([sum(lengths) for lengths in rows], np.int64)
    learned = (generator.random(ids.shape) < 0.5) & (np.arange(stored) < ends_of_rows[:, None])
    stored_rows = StoredRows(
        ids,
        np.cumsum([0, *map(len, rows)], dtype=np.int64),
        np.array([length for row in rows for length in row], np.int64),
        generator.integers(0, 2**32, count),
        seed=draw(st.sampled_from([0, 7, 2**64 - 1])),
        epoch=draw(st.sampled_from([0, 1, 2**32 - 1])),
        shard=draw(st.sampled_from([0, 2**24 - 1])),
        components=components if resolve(objective, SEQ_LEN).parts else None,
        unigram=UNIGRAM,
        loss_mask=learned.astype(np.uint8) if traits_of(objective).loss_mask else None,
    )
    if not traits_of(objective).segment_prompts:
        return stored_rows
    prompts = generator.integers(0, SEQ_LEN, sum(map(len, rows)))
    return replace(stored_rows, segment_prompt=prompts.astype(np.int32))


def bits(values: object) -> list[tuple[str, bytes] | str]:
    """Return what is compared of arrays and of anything else."""
    assert isinstance(values, tuple)
    return [
        (each.dtype.str, each.tobytes()) if isinstance(each, np.ndarray) else repr(each)
        for each in values
    ]


def generators() -> list[object]:
    """Return the states of the generators that any code of the process could draw from."""
    ours: object = np.random.get_state()  # noqa: NPY002  # must stay as it is
    return [random.getstate(), bits(ours), torch.get_rng_state().numpy().tobytes()]


def same_bits(found: Columns, expected: Columns) -> bool:
    """Say whether columns are the same to the bit."""
    return list(found) == list(expected) and all(
        found[name].dtype == column.dtype and np.array_equal(found[name], column)
        for name, column in expected.items()
    )


def drawn(rows: StoredRows, objective: Objective) -> Columns:
    return draw_columns(rows, objective, VOCABULARY, resolve(objective, SEQ_LEN).widths)


def test_every_kind_that_is_drawn_from_rows_alone_is_among_them() -> None:
    assert {each.kind for each in OBJECTIVES.values()} == IN_ONE_ROW
    assert SETTINGS.keys() == IN_ONE_ROW, "a kind needs an entry in SETTINGS: how its settings are drawn"
    assert not any(traits_of(each).written_for for each in OBJECTIVES.values())


@pytest.mark.parametrize("kind", SETTINGS)
@settings(deadline=None, max_examples=examples(150))
@given(st.data())
def test_compiled_columns_are_the_plain_ones_bit_for_bit(kind: str, data: st.DataObject) -> None:
    objective = data.draw(SETTINGS[kind])
    rows = data.draw(any_rows(objective, empty=True))
    plain = draw_plainly(rows, objective, VOCABULARY, resolve(objective, SEQ_LEN).widths)
    assert same_bits(drawn(rows, objective), plain)


@NAMES
@settings(deadline=None, max_examples=examples(20))
@given(st.data())
def test_any_rows_come_back_and_nothing_is_made_but_columns_of_the_widths_and_ids_of_the_vocabulary(
    name: str, data: st.DataObject
) -> None:
    objective = OBJECTIVES[name]
    rows = data.draw(any_rows(objective))
    rows_before, before = bits(astuple(rows)), generators()
    widths, columns = resolve(objective, SEQ_LEN).widths, drawn(rows, objective)
    assert same_bits(draw_plainly(rows, objective, VOCABULARY, widths), columns)
    assert generators() == before
    assert bits(astuple(rows)) == rows_before
    assert matches(rows, columns, objective, VOCABULARY).all()
    assert {len(column) for column in columns.values()} == {len(rows.numbers)}
    assert columns["input_ids"].shape[-1] == widths.inputs
    assert columns["input_ids"].dtype == rows.input_ids.dtype
    assert (columns["input_ids"] < SIZE).all()
    if "labels" in columns:
        assert columns["labels"].shape[-1] == widths.labels
        labels = columns["labels"][columns["labels"] != IGNORED]
        assert ((labels >= 0) & (labels < SIZE)).all()
        assert not np.isin(labels, [PAD]).any() or traits_of(objective).label_convention == "replaced"


@NAMES
@settings(deadline=None, max_examples=examples(20))
@given(st.data())
def test_any_row_has_the_same_columns_whatever_is_read_with_it(name: str, data: st.DataObject) -> None:
    objective = OBJECTIVES[name]
    rows = data.draw(any_rows(objective))
    whole, count = drawn(rows, objective), len(rows.numbers)
    chosen = data.draw(st.lists(st.integers(0, count - 1), max_size=6) if count else st.just([]))
    places = np.array(chosen, np.int64)
    some = {key: column[places] for key, column in whole.items()}
    assert same_bits(drawn(rows.take(places), objective), some)


def filled_rows(objective: Objective, count: int) -> StoredRows:
    """Return rows of one segment each, as long as fits, of words that all differ."""
    length = resolve(objective, SEQ_LEN).widths.stored
    filled, generator = length - traits_of(objective).growth, np.random.default_rng(3)
    ids = np.full((count, length), PAD, np.uint16)
    for row in ids:
        row[:filled] = generator.choice(VOCABULARY.ordinary, filled, replace=False)
    numbers = np.arange(count)
    lengths = np.full(count, filled, np.int64)
    ptr = np.arange(count + 1)
    return StoredRows(ids, ptr, lengths, numbers, seed=7, epoch=0, shard=0, unigram=UNIGRAM)


def as_stored(rows: StoredRows, columns: Columns) -> Columns:
    """Return columns of the same shapes in which nothing was drawn: ids as stored, no label, no mark."""
    found = {name: np.zeros_like(column) for name, column in columns.items()}
    for name in found.keys() & {"segment_ids", "position_ids"}:
        found[name] = columns[name]
    for name in found.keys() & {"input_ids", "original_ids"}:
        ids = found[name]
        ids[...] = PAD
        room = min(ids.shape[-1], rows.input_ids.shape[1])
        ids[..., :room] = rows.input_ids[:, None, :room] if ids.ndim == 3 else rows.input_ids[:, :room]
    for name in found.keys() & {"labels"}:
        found[name][...] = IGNORED
    return found


DRAWING = [
    name
    for name, one in OBJECTIVES.items()
    if isinstance(KINDS[one.kind], Kind) and kind_of(one).draws is not nothing_drawn
]


PLAIN = [
    name for name, one in OBJECTIVES.items() if name not in DRAWING and not resolve(one, SEQ_LEN).parts
]


@pytest.mark.parametrize("name", PLAIN)
def test_a_kind_that_draws_says_what(name: str) -> None:
    objective = OBJECTIVES[name]
    rows = filled_rows(objective, 300)
    if traits_of(objective).loss_mask:
        rows = replace(rows, loss_mask=np.ones_like(rows.input_ids, np.uint8))
    columns, later = (drawn(replace(rows, epoch=epoch), objective) for epoch in (0, 1))
    assert same_bits(later, columns), "it draws, so `draws` of its kind may not be nothing_drawn"


def test_kinds_that_may_be_mixed_make_the_same_columns() -> None:
    found: dict[object, set[str]] = {}
    for kind in KINDS.values():
        if isinstance(kind, Kind) and kind.mixes:
            objective = read_objective({"kind": kind.name})
            traits, rows = traits_of(objective), filled_rows(objective, 3)
            alike = (traits.attention, traits.label_convention, traits.single, traits.growth)
            names = set(drawn(rows, objective))
            assert found.setdefault(alike, names) == names, kind.name
    assert len(found) > 2


@pytest.mark.parametrize("name", DRAWING)
def test_verify_notices_a_draw_that_changes_nothing(name: str) -> None:
    """A draw and what restores it may agree that nothing happens; the law of draws is another's."""
    objective = OBJECTIVES[name]
    rows = filled_rows(objective, 300)
    good = {  # in the types that a trainer gets
        name: column if column.dtype.kind in "bf" else column.astype(np.int64)
        for name, column in drawn(rows, objective).items()
    }
    found = []
    for columns in (good, as_stored(rows, good)):
        tally = ColumnTally(objective, VOCABULARY)
        list(tally.watch([shown(rows, columns, vocabulary=VOCABULARY)]))
        found.append(tally.findings())
    assert found[0] == []
    assert found[1] != [], f"`draws` of {name} counts nothing that its draw decides"
