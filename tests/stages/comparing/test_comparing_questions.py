"""What questions promise: one token of a text, asked for in the words of each objective."""

import numpy as np
import pytest

from stages.comparing.measuring import draw_places
from stages.comparing.questions import ATTENTION, ask, whole_texts
from stages.objectives.bart.config import BART
from stages.objectives.mixture.kind import Component, Mixture
from stages.objectives.mlm.config import MaskedLM
from stages.objectives.prefix_lm.config import PrefixLM
from stages.objectives.table import KINDS, questions_of, read_objective
from stages.objectives.traits import Form, Questions
from stages.objectives.ul2.kind import UL2
from stages.objectives.vocabulary import vocabulary_of
from stages.verify.rows import NO_LABEL, PADDING, count_labelled, predicted_labels

X = NO_LABEL
EOS, PAD, MASK, S0, PRE, SUF, MID = 2, 3, 4, 5, 6, 7, 8
NAMES = ("eos", "pad", "mask", "sentinel_0", "fim_prefix", "fim_suffix", "fim_middle")
VOCABULARY = vocabulary_of(60, dict(zip(NAMES, range(2, 9), strict=True)))
TEXTS = [np.array([10, 11, 12, 13]), np.array([20, 21])]
PLACES = [[2], [1]]

GOING_ON = {
    Form.NEXT: [[10, 11, 12], [20, 21, 0]],
    Form.PREFIX: [[10, 11, 12], [20, 21, 0]],
    Form.MASK: [[10, 11, MASK], [20, MASK, 0]],
    Form.SPAN: [[10, 11, S0, EOS], [20, S0, EOS, 0]],
    Form.REST: [[10, 11, EOS], [20, EOS, 0]],
}
WITHIN = {
    Form.MASK: [[10, 11, MASK, 13], [20, MASK, 0, 0]],
    Form.SPAN: [[10, 11, S0, 13, EOS], [20, S0, EOS, 0, 0]],
    Form.MIDDLE: [[PRE, 10, 11, SUF, 13, MID, 12], [PRE, 20, SUF, MID, 21, 0, 0]],
}
ALL = [(form, False) for form in GOING_ON] + [(form, True) for form in WITHIN]


@pytest.mark.parametrize("form", GOING_ON)
def test_what_comes_next_is_asked_of_what_stands_before(form: Form) -> None:
    asked = ask(TEXTS, PLACES, form=form, vocabulary=VOCABULARY)
    assert asked.input_ids.tolist() == GOING_ON[form]


@pytest.mark.parametrize("form", WITHIN)
def test_what_stood_there_is_asked_of_all_else(form: Form) -> None:
    asked = ask(TEXTS, PLACES, form=form, vocabulary=VOCABULARY, within=True)
    assert asked.input_ids.tolist() == WITHIN[form]


@pytest.mark.parametrize(("form", "within"), ALL)
def test_a_question_has_one_label_which_is_the_token_asked_for(form: Form, *, within: bool) -> None:
    asked = ask(TEXTS, PLACES, form=form, vocabulary=VOCABULARY, within=within)
    labels = predicted_labels(asked)
    assert asked.attention == ATTENTION[form]
    assert (labels != X).sum(axis=1).tolist() == [1, 1]
    assert labels[labels != X].tolist() == [12, 21]
    assert count_labelled(asked) == 2


@pytest.mark.parametrize(
    ("form", "rows"),
    {
        Form.NEXT: [[9, 10, 11, 12], [9, 20, 21, 0]],
        Form.PREFIX: [[9, 10, 11, 12], [9, 20, 21, 0]],
        Form.MASK: [[9, 10, 11, MASK], [9, 20, MASK, 0]],
    }.items(),
)
def test_a_model_of_framed_documents_is_asked_of_framed_ones(form: Form, rows: list[list[int]]) -> None:
    framed = vocabulary_of(60, {**VOCABULARY.special_ids, "begin": 9})
    asked = ask(TEXTS, PLACES, form=form, vocabulary=framed)
    assert asked.input_ids.tolist() == rows
    labels = predicted_labels(asked)
    assert labels[labels != X].tolist() == [12, 21]
    if form is Form.PREFIX:
        assert asked.prefix_length is not None
        assert asked.prefix_length.tolist() == [3, 2]
    read = whole_texts(TEXTS, attention="prefix", begin=9)
    assert read.input_ids[:, 0].tolist() == [9, 9]
    assert (read.segment_ids != PADDING).sum(axis=1).tolist() == [5, 3]


@pytest.mark.parametrize("form", [Form.MASK, Form.SPAN, Form.REST])
def test_the_token_asked_for_is_not_shown(form: Form) -> None:
    asked = ask(TEXTS, PLACES, form=form, vocabulary=VOCABULARY, within=form != Form.REST)
    assert not np.isin([12, 21], asked.input_ids).any()
    if asked.decoder_input_ids is not None:
        assert not np.isin([12, 21], asked.decoder_input_ids).any()


def test_a_prefix_ends_where_the_question_begins() -> None:
    asked = ask(TEXTS, PLACES, form=Form.PREFIX, vocabulary=VOCABULARY)
    assert asked.prefix_length is not None
    assert asked.prefix_length.tolist() == [2, 1]


def test_a_text_that_is_read_whole_has_no_label_and_is_all_prefix() -> None:
    read = whole_texts(TEXTS, attention="prefix")
    assert (read.labels == X).all()
    assert (read.segment_ids != PADDING).sum(axis=1).tolist() == [4, 2]
    assert read.prefix_length is not None
    assert read.prefix_length.tolist() == [4, 2]


def test_models_are_asked_as_their_rows_ask_them() -> None:
    questions = {
        kind: questions_of(read_objective({"kind": kind})) for kind in KINDS.keys() - {"mixture"}
    }
    assert questions["clm"] == Questions(Form.NEXT)
    assert questions["fim"] == Questions(Form.NEXT, Form.MIDDLE)
    assert questions["mlm"] == questions["nsp"] == questions["sop"] == Questions(Form.MASK, Form.MASK)
    assert questions["span_corruption"] == questions_of(UL2()) == Questions(Form.SPAN, Form.SPAN)
    assert questions["bart"] == questions["electra"] == questions["simcse"] == Questions()
    assert questions_of(PrefixLM(architecture="encoder_decoder")) == Questions(Form.REST)


def test_a_mixture_is_asked_if_its_components_are_asked_alike() -> None:
    masks = Mixture(
        components=(
            Component(objective=MaskedLM()),
            Component(objective=MaskedLM(mask_probability=0.4)),
        )
    )
    mixed = Mixture(
        components=(
            Component(objective=BART()),
            Component(objective=PrefixLM(architecture="encoder_decoder")),
        )
    )
    assert questions_of(masks) == Questions(Form.MASK, Form.MASK)
    assert questions_of(mixed) == Questions()


def test_places_lie_in_all_parts_of_a_text_and_never_at_its_start() -> None:
    texts = [np.arange(64)] * 50 + [np.arange(8)] * 50
    places = draw_places(texts, 4)
    assert {len(some) for some in places[:50]} == {4}
    assert all(
        1 + 63 * n / 4 - 1 <= at < 2 + 63 * (n + 1) / 4
        for some in places[:50]
        for n, at in enumerate(some)
    )
    assert all(1 <= at < 8 for some in places[50:] for at in some)
    assert places == draw_places(texts, 4)
