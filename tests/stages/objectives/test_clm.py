"""What causal language modelling promises.

Labels are the input ids themselves, unshifted, and -100 exactly where there is nothing to predict.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stages.errors import FormatError
from stages.objectives.clm.config import CausalLM, label_causally
from stages.objectives.rows import IGNORED, StoredRows
from tests.campaign import examples
from tests.stages.objectives.built_rows import EOS, PAD, any_rows

INPUT_IDS = np.array([[10, 11, 12, 2, 3, 3], [10, 2, 11, 2, 12, 13], [3, 3, 3, 3, 3, 3]], np.uint16)
ROWS = StoredRows(
    INPUT_IDS,
    np.array([0, 1, 4, 4]),
    np.array([4, 2, 2, 2]),
    np.arange(3),
    seed=7,
    epoch=0,
    shard=0,
)


def test_labels_are_the_inputs_and_none_lies_on_padding() -> None:
    columns = label_causally(ROWS, CausalLM())
    assert columns["labels"].tolist() == [
        [10, 11, 12, 2, IGNORED, IGNORED],
        [10, 2, 11, 2, 12, 13],
        [IGNORED] * 6,
    ]
    assert columns["labels"].dtype == np.int32
    assert columns["input_ids"] is INPUT_IDS


@settings(deadline=None, max_examples=examples(100))
@given(any_rows(), st.booleans(), st.booleans())
def test_labels_of_any_row_are_its_tokens_even_where_eos_is_the_id_of_padding(
    rows: StoredRows,
    mask_first_token: bool,  # noqa: FBT001  # hypothesis passes it
    shared: bool,  # noqa: FBT001  # likewise
) -> None:
    if shared:
        rows = replace(rows, input_ids=np.where(rows.input_ids == EOS, PAD, rows.input_ids))
    labels = label_causally(rows, CausalLM(mask_first_token=mask_first_token))["labels"]
    assert labels.shape == rows.input_ids.shape
    segments = iter(rows.segment_length.tolist())
    for row, found in enumerate(labels.tolist()):
        expected: list[int] = []
        for _ in range(rows.segment_ptr[row + 1] - rows.segment_ptr[row]):
            text = rows.input_ids[row, len(expected) : len(expected) + next(segments)].tolist()
            expected += [IGNORED, *text[1:]] if mask_first_token else text
        assert found == expected + [IGNORED] * (len(found) - len(expected))


def test_the_first_token_of_each_segment_may_go_without_loss() -> None:
    labels = label_causally(ROWS, CausalLM(mask_first_token=True))["labels"]
    assert labels.tolist() == [
        [IGNORED, 11, 12, 2, IGNORED, IGNORED],
        [IGNORED, 2, IGNORED, 2, IGNORED, 13],
        [IGNORED] * 6,
    ]


MASK = np.array([[0, 0, 1, 1, 0, 0], [0, 1, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0]], np.uint8)


def test_only_what_the_loss_mask_marks_has_a_label() -> None:
    rows = replace(ROWS, loss_mask=MASK)
    labels = label_causally(rows, CausalLM(loss="targets"))["labels"]
    assert labels.tolist() == [
        [IGNORED, IGNORED, 12, 2, IGNORED, IGNORED],
        [IGNORED, 2, IGNORED, IGNORED, 12, 13],
        [IGNORED] * 6,
    ]
    assert labels.dtype == np.int32


def test_of_what_is_marked_a_first_token_may_go_without_loss_too() -> None:
    rows = replace(ROWS, loss_mask=MASK)
    labels = label_causally(rows, CausalLM(loss="targets", mask_first_token=True))["labels"]
    assert labels[1].tolist() == [IGNORED, 2, IGNORED, IGNORED, IGNORED, 13]


def test_a_mark_on_padding_gives_no_label() -> None:
    rows = replace(ROWS, loss_mask=np.ones_like(MASK))
    labels = label_causally(rows, CausalLM(loss="targets"))["labels"]
    assert labels.tolist() == label_causally(ROWS, CausalLM())["labels"].tolist()


def test_rows_that_do_not_say_where_targets_are_are_refused() -> None:
    with pytest.raises(FormatError, match="have a column loss_mask, but the manifest names none"):
        label_causally(ROWS, CausalLM(loss="targets"))


def test_a_loss_on_all_tokens_is_not_named_so_that_manifests_of_before_stay_as_they_are() -> None:
    assert CausalLM().model_dump(mode="json") == {"kind": "clm", "mask_first_token": False}
    named = {"kind": "clm", "mask_first_token": False, "loss": "targets"}
    assert CausalLM(loss="targets").model_dump(mode="json") == named
    assert CausalLM.model_validate(named) == CausalLM(loss="targets")
    assert CausalLM.model_validate({"kind": "clm"}) == CausalLM()


def test_the_inputs_stay_as_they_are() -> None:
    before = INPUT_IDS.copy()
    label_causally(ROWS, CausalLM(mask_first_token=True))
    assert (before == INPUT_IDS).all()


def test_no_rows_give_no_labels() -> None:
    none = ROWS.take(np.empty(0, np.int64))
    assert label_causally(none, CausalLM(mask_first_token=True))["labels"].shape == (0, 6)


def test_rows_are_taken_with_their_segments() -> None:
    taken = ROWS.take(np.array([1, 0, 1]))
    assert taken.segment_ptr.tolist() == [0, 3, 4, 7]
    assert taken.segment_length.tolist() == [2, 2, 2, 4, 2, 2, 2]
    assert taken.filled.tolist() == [6, 4, 6]
    assert taken.numbers.tolist() == [1, 0, 1]


def test_another_kind_is_refused() -> None:
    with pytest.raises(ValidationError, match="kind"):
        CausalLM.model_validate({"kind": "mlm"})


def test_no_loss_is_torchs_ignored_index() -> None:
    assert IGNORED == -100
