"""What calibrating the learning check promises: each fault is the one it is named after."""

import numpy as np
import pytest
from learning_gates import (
    FAULTS,
    MASKED_FAULTS,
    labels_everywhere,
    labels_shifted,
    labels_visible,
    spread,
)

from stages.verify.model import NO_LABEL, LabelledRows, predicted_labels

X = NO_LABEL


def rows_of(input_ids: list[int], labels: list[int], *, causal: bool) -> LabelledRows:
    """One row of two documents and one pad."""
    segments = np.array([[0, 0, 0, 1, 1, -1]], np.int32)
    positions = np.array([[0, 1, 2, 0, 1, 0]], np.int32)
    return LabelledRows(np.array([input_ids]), np.array([labels]), segments, positions, causal=causal)


CAUSAL = rows_of([5, 6, 7, 8, 9, 3], [5, 6, 7, 8, 9, X], causal=True)
MASKED = rows_of([5, 4, 7, 8, 4, 3], [X, 6, X, X, 9, X], causal=False)


def test_visible_labels_are_what_the_model_sees() -> None:
    causal = labels_visible(CAUSAL)
    shown = predicted_labels(causal)
    assert shown.tolist() == [[5, 6, X, 8, X]]
    masked = labels_visible(MASKED)
    assert masked.input_ids.tolist() == [[5, 6, 7, 8, 9, 3]]
    assert predicted_labels(masked).tolist() == MASKED.labels.tolist()


def test_shifted_labels_are_those_of_later_tokens() -> None:
    assert predicted_labels(labels_shifted(CAUSAL, 1)).tolist() == [[7, 8, X, X, X]]
    assert labels_shifted(MASKED, 1).labels.tolist() == [[6, X, X, 9, X, X]]
    assert labels_shifted(MASKED, 2).labels.tolist() == [[X, X, 9, X, X, X]]


def test_labels_everywhere_spare_padding_alone() -> None:
    assert labels_everywhere(MASKED).labels.tolist() == [[5, 6, 7, 8, 9, X]]


@pytest.mark.parametrize("name", MASKED_FAULTS)
def test_every_fault_but_none_changes_the_rows_and_spares_the_originals(name: str) -> None:
    originals = (CAUSAL, MASKED) if name in FAULTS else (MASKED,)
    for rows in originals:
        before = rows.input_ids.copy(), rows.labels.copy()
        faulty = MASKED_FAULTS[name](rows)
        same = np.array_equal(faulty.input_ids, before[0]) and np.array_equal(faulty.labels, before[1])
        assert same == (name == "correct")
        assert np.array_equal(rows.input_ids, before[0])
        assert np.array_equal(rows.labels, before[1])


def test_a_range_is_its_least_and_most() -> None:
    assert spread([0.5, -0.25, 1.0]) == "-0.250 .. 1.000"
