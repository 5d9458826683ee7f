"""What examples for the tiny model promise.

Windows of an encoder's inputs come with the targets of their own sentinels and with what the decoder
read there; pairs come with both sides of where they meet; prefixes are cut with their rows.
"""

import numpy as np
import pytest

from stages.objectives.bart.config import BART
from stages.objectives.electra.config import ReplacedTokens
from stages.objectives.mixture.kind import Component, Mixture
from stages.objectives.prefix_lm.config import PrefixLM
from stages.objectives.span_corruption.config import SpanCorruption
from stages.objectives.vocabulary import vocabulary_of
from stages.verify.examples import classified_pairs, cut_pairs, labelled_rows
from stages.verify.rows import NO_LABEL, LabelledRows, cut_windows, join_rows, labels_apart
from tests.stages.verify.languages import rows_of

EOS, PAD, X0, X1, X2 = 2, 3, 50, 51, 52
APART = (EOS, X0, X1, X2)
X = NO_LABEL
SPECIAL = {"eos": EOS, "pad": PAD, "sentinel_0": X0, "sentinel_1": X1, "sentinel_2": X2}
VOCABULARY = vocabulary_of(60, SPECIAL)


def batch_of(inputs: list[list[int]], targets: list[list[int]]) -> dict[str, np.ndarray]:
    """Columns of an encoder-decoder, as the loader gives them."""
    width, depth = max(map(len, inputs)), max(map(len, targets))
    return {
        "input_ids": np.array([row + [PAD] * (width - len(row)) for row in inputs]),
        "labels": np.array([row + [X] * (depth - len(row)) for row in targets]),
        "decoder_input_ids": np.array([([PAD, *row[:-1]] + [PAD] * depth)[:depth] for row in targets]),
        "input_length": np.array([len(row) for row in inputs]),
        "label_length": np.array([len(row) for row in targets]),
    }


ROW = batch_of([[10, X0, 12, 13, X1, 15, 16, X2, EOS]], [[X0, 11, X1, 14, 24, X2, 17, EOS]])


def test_a_window_has_the_targets_of_its_own_sentinels_numbered_from_the_first() -> None:
    cut = cut_pairs(ROW, length=4, apart=APART, restating=np.array([False]))
    assert cut.input_ids.tolist() == [[10, X0, 12, 13], [X0, 15, 16, X1]]
    assert cut.labels.tolist() == [[X0, 11, X, X], [X0, 14, 24, X1]]
    assert cut.decoder_input_ids is not None
    assert cut.decoder_input_ids.tolist() == [[PAD, X0, 0, 0], [11, X0, 14, 24]]
    assert cut.segment_ids.tolist() == [[0, 0, 0, 0]] * 2


def test_sentinels_that_changed_places_take_their_targets_with_them() -> None:
    swapped = batch_of([[10, X1, 12, 13, X0, 15]], [[X0, 11, X1, 14, EOS]])
    cut = cut_pairs(swapped, length=4, apart=APART, restating=np.array([False]))
    assert cut.labels.tolist()[0][:2] == [X0, 14]


def test_a_row_without_sentinels_keeps_the_end_of_its_inputs_or_the_start_if_restated() -> None:
    batch = batch_of([[10, 11, 12, 13, EOS]], [[14, 15, 16, EOS]])
    goes_on = cut_pairs(batch, length=3, apart=APART, restating=np.array([False]))
    assert (goes_on.input_ids.tolist(), goes_on.labels.tolist()) == ([[12, 13, EOS]], [[14, 15, 16]])
    restated = cut_pairs(batch, length=3, apart=APART, restating=np.array([True]))
    assert restated.input_ids.tolist() == [[10, 11, 12]]


@pytest.mark.parametrize("component", [0, 1])
def test_a_mixture_says_by_row_whether_targets_restate_inputs(component: int) -> None:
    mixed = Mixture(
        components=(
            Component(objective=BART()),
            Component(objective=PrefixLM(architecture="encoder_decoder")),
        )
    )
    batch = batch_of([[10, 11, 12, 13, EOS]], [[14, 15, 16, EOS]])
    batch["objective_id"] = np.array([component])
    rows = labelled_rows(batch, mixed, VOCABULARY, length=3)
    assert rows.input_ids.tolist() == [[[10, 11, 12], [12, 13, EOS]][component]]


def test_labels_of_sentinels_and_eos_are_apart_from_those_of_the_text() -> None:
    rows = labelled_rows(ROW, SpanCorruption(), VOCABULARY, length=9)
    assert labels_apart(rows, apart=False).labels.tolist() == [[X, 11, X, 14, 24, X, 17, X, X]]
    assert labels_apart(rows, apart=True).labels.tolist() == [[X0, X, X1, X, X, X2, X, EOS, X]]


def test_a_prefix_is_cut_with_its_row() -> None:
    batch = {
        "input_ids": np.arange(10)[None],
        "labels": np.where(np.arange(10) < 6, X, np.arange(10))[None],
        "segment_ids": np.repeat([0, 1], 5)[None],
        "position_ids": np.tile(np.arange(5), 2)[None],
        "prefix_length": np.array([6]),
    }
    rows = labelled_rows(batch, PrefixLM(), VOCABULARY, length=4)
    assert rows.segment_ids.tolist() == [[0] * 10]
    cut = cut_windows(rows, 4)
    assert cut.input_ids.tolist() == [[4, 5, 6, 7], [8, 9, 0, 0]]
    assert cut.prefix_length is not None
    assert cut.prefix_length.tolist() == [2, 0]


def test_pairs_are_cut_around_where_they_meet_and_cls_has_the_label() -> None:
    batch = {
        "input_ids": np.array([[4, 10, 11, 12, 5, 20, 21, 22, 5, PAD], [4, 10, 5] + [PAD] * 7]),
        "token_type_ids": np.array([[0] * 5 + [1] * 4 + [0], [0] * 10]),
        "segment_ids": np.array([[0] * 9 + [-1], [0] * 3 + [-1] * 7]),
        "next_sentence_label": np.array([1, X]),
    }
    rows = classified_pairs(batch, length=5)
    assert rows.input_ids.tolist() == [[4, 12, 5, 20, 21]]
    assert rows.labels.tolist() == [[1, X, X, X, X]]
    assert (rows.classes, rows.causal) == (2, False)
    assert cut_windows(rows, 5).input_ids.tolist() == rows.input_ids.tolist()


def test_rows_are_joined_with_every_column_they_have() -> None:
    rows = labelled_rows(ROW, SpanCorruption(), VOCABULARY, length=9)
    joined = join_rows([rows, rows])
    assert joined.columns.keys() == rows.columns.keys()
    assert all(len(column) == 2 for column in joined.columns.values())
    plain: LabelledRows = rows_of([[1, 2]])
    assert "decoder_input_ids" not in join_rows([plain, plain]).columns


def test_a_replaced_token_has_one_of_two_classes() -> None:
    batch = {
        "input_ids": np.array([[7, 8]]),
        "labels": np.array([[0, 1]]),
        "segment_ids": np.array([[0, 0]]),
        "position_ids": np.array([[0, 1]]),
    }
    assert labelled_rows(batch, ReplacedTokens(), VOCABULARY, length=4).classes == 2
