"""Shuffled rows keep what a model may count: the tokens of each document, and of each part of it."""

from dataclasses import replace

import numpy as np
import pytest

from stages.verify.rows import NO_LABEL, PADDING, LabelledRows, shuffle_tokens

ROWS, WIDTH = 40, 24
PARTS = ("documents", "a prefix of the row", "a prefix of each document")


@pytest.mark.parametrize("parts", PARTS)
def test_tokens_stay_in_their_part_and_labels_go_with_them(parts: str) -> None:
    draws = np.random.default_rng(5)
    ids = np.arange(ROWS * WIDTH).reshape(ROWS, WIDTH)
    place = np.arange(WIDTH)
    second = draws.integers(6, 12, (ROWS, 1))
    document = (place >= second).astype(np.int32)
    document[:, -3:] = PADDING
    labels = np.where(document == PADDING, NO_LABEL, ids)
    rows = LabelledRows(ids, labels, document, np.zeros_like(document))
    part = document
    if parts == PARTS[1]:
        prefix = draws.integers(1, 6, ROWS)
        rows, part = replace(rows, prefix_length=prefix), 2 * document + (place < prefix[:, None])
    elif parts == PARTS[2]:
        inside = ((place < 3) | ((place >= second) & (place < second + 4))).astype(np.int64)
        rows, part = replace(rows, in_prefix=inside), 2 * document + inside
    shuffled = shuffle_tokens(rows, np.random.default_rng(1))
    assert (shuffled.input_ids != ids).any()
    assert np.array_equal(np.where(document == PADDING, NO_LABEL, shuffled.input_ids), shuffled.labels)
    for number in range(ROWS):
        for own in np.unique(part[number]):
            at = part[number] == own
            assert sorted(shuffled.input_ids[number, at]) == ids[number, at].tolist()
