"""What the contrastive check promises: views of one text are found, those of two are not."""

import numpy as np
import pytest

from stages.objectives.learning import LearningConfig
from stages.objectives.simcse.config import SimCSE
from stages.verify.contrast import Views, check_contrast, view_rows
from stages.verify.gates import settings_of
from stages.verify.rows import PADDING
from tests.stages.verify.languages import NUM_IDS

CONFIG = settings_of(SimCSE(), LearningConfig()).model_copy(update={"row_length": 16})


def views_of(seed: int, *, shuffled: bool = False) -> Views:
    """Sixteen texts in two views and no opposite; shuffled, the second views are those of others."""
    draws = np.random.default_rng(seed)
    ids = np.repeat(draws.integers(NUM_IDS, size=(16, 1, 16)), 3, axis=1)
    if shuffled:
        ids[:, 1] = draws.integers(NUM_IDS, size=(16, 16))
    return ids, np.tile([16, 12, 0], (16, 1))


@pytest.mark.parametrize("shuffled", [False, True])
def test_only_views_of_one_text_are_found_among_those_of_others(*, shuffled: bool) -> None:
    result = check_contrast(
        lambda step: views_of(step, shuffled=shuffled),
        views_of(999, shuffled=shuffled),
        config=CONFIG,
        seed=0,
    )
    assert result.chance == pytest.approx(np.log(16))
    assert len(result.curve) == result.steps
    assert (result.loss < result.chance / 2) is not shuffled


def test_views_become_rows_view_by_view_and_are_cut() -> None:
    ids, lengths = np.arange(12).reshape(2, 2, 3), np.array([[3, 1], [2, 0]])
    rows = view_rows((ids, lengths), 2)
    assert rows.input_ids.tolist() == [[0, 1], [6, 7], [3, 4], [9, 10]]
    assert (rows.segment_ids != PADDING).tolist() == [[True] * 2, [True] * 2, [True, False], [False] * 2]
    assert rows.attention == "bidirectional"
