"""What causal language modelling promises.

Labels are the input ids themselves, unshifted, and -100 exactly where there is nothing to predict.
"""

import numpy as np
import pytest
from pydantic import ValidationError

from stages.objectives.clm import IGNORED, CausalLM, causal_labels

INPUT_IDS = np.array([[10, 11, 12, 2, 3, 3], [10, 2, 11, 2, 12, 13], [3, 3, 3, 3, 3, 3]])
SEGMENT_IDS = np.array([[0, 0, 0, 0, -1, -1], [0, 0, 1, 1, 2, 2], [-1] * 6], np.int32)


def test_labels_are_the_inputs_and_none_lies_on_padding() -> None:
    labels = causal_labels(INPUT_IDS, SEGMENT_IDS, CausalLM())
    assert labels.tolist() == [
        [10, 11, 12, 2, IGNORED, IGNORED],
        [10, 2, 11, 2, 12, 13],
        [IGNORED] * 6,
    ]
    assert labels.dtype == np.int64


def test_the_first_token_of_each_segment_may_go_without_loss() -> None:
    labels = causal_labels(INPUT_IDS, SEGMENT_IDS, CausalLM(mask_first_token=True))
    assert labels.tolist() == [
        [IGNORED, 11, 12, 2, IGNORED, IGNORED],
        [IGNORED, 2, IGNORED, 2, IGNORED, 13],
        [IGNORED] * 6,
    ]


def test_the_inputs_stay_as_they_are() -> None:
    before = INPUT_IDS.copy(), SEGMENT_IDS.copy()
    causal_labels(INPUT_IDS, SEGMENT_IDS, CausalLM(mask_first_token=True))
    assert (before[0] == INPUT_IDS).all()
    assert (before[1] == SEGMENT_IDS).all()


def test_no_rows_give_no_labels() -> None:
    assert causal_labels(INPUT_IDS[:0], SEGMENT_IDS[:0], CausalLM()).shape == (0, 6)


def test_another_kind_is_refused() -> None:
    with pytest.raises(ValidationError, match="kind"):
        CausalLM.model_validate({"kind": "mlm"})


def test_no_loss_is_torchs_ignored_index() -> None:
    assert IGNORED == -100
