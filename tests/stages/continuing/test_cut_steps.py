"""What `cut_steps` promises: rows in order, each in the step in which its first token falls."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.continuing.supply import cut_steps
from stages.verify.rows import PADDING, LabelledRows
from tests.campaign import examples


def block_of(lengths: list[int], first: int) -> LabelledRows:
    """Return rows of some lengths, whose ids are their numbers."""
    covered = np.arange(8) < np.array(lengths)[:, None]
    ids = np.broadcast_to(first + np.arange(len(lengths))[:, None], covered.shape).astype(np.int64)
    positions = np.broadcast_to(np.arange(8, dtype=np.int32), covered.shape)
    return LabelledRows(ids, ids, np.where(covered, 0, PADDING).astype(np.int32), positions)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.integers(1, 8), min_size=1, max_size=40), st.integers(1, 7), st.integers(8, 30))
def test_each_row_is_in_the_step_of_its_first_token(
    lengths: list[int], rows_of_block: int, step_tokens: int
) -> None:
    starts = np.cumsum(lengths) - lengths
    steps = int(starts[-1]) // step_tokens
    blocks = [
        block_of(lengths[first : first + rows_of_block], first)
        for first in range(0, len(lengths), rows_of_block)
    ]
    found = list(cut_steps(blocks, steps=steps, step_tokens=step_tokens)) if steps else []
    expected = [np.flatnonzero(starts // step_tokens == step).tolist() for step in range(steps)]
    assert [rows.input_ids[:, 0].tolist() for rows in found] == expected


def test_a_step_that_begins_with_a_block_is_cut_there() -> None:
    blocks = [block_of([8, 8], 0), block_of([8, 8], 2), block_of([8, 8], 4)]
    found = list(cut_steps(blocks, steps=2, step_tokens=16))
    assert [rows.input_ids[:, 0].tolist() for rows in found] == [[0, 1], [2, 3]]
