"""What the budget promises: as many tokens for all, each row read once, as many tokens in each step."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stages.comparing.budget import rows_of_tokens, step_rows, tokens_read, with_rare_labels
from stages.errors import DataError
from stages.loading.dataset import open_dataset
from stages.verify.rows import NO_LABEL, PADDING, LabelledRows
from tests.stages.loading.test_dataset import write_dataset
from tests.stages.loading.test_masked_rows import SHARDS, write_masked


def write_causal(root: Path) -> Path:
    return write_dataset(root, SHARDS)


WRITERS = [write_causal, write_masked]


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("tokens", [7, 100, 599, 601, 1_500])
def test_rows_hold_the_tokens_asked_for_and_not_a_row_more(
    write: Callable[[Path], Path], tokens: int, tmp_path: Path
) -> None:
    reading = rows_of_tokens(open_dataset(write(tmp_path)), tokens)
    read = tokens_read(reading.rows)
    assert read.sum() - read[-1] < tokens <= read.sum()
    assert 0 < reading.passes <= 1 + tokens / 300


def test_rows_come_in_the_order_of_a_trainer(tmp_path: Path) -> None:
    dataset = open_dataset(write_dataset(tmp_path, SHARDS))
    reading = rows_of_tokens(dataset, 900)
    epochs = [dataset.at(epoch, np.arange(120))["input_ids"] for epoch in (0, 1)]
    assert np.array_equal(reading.rows.input_ids, np.concatenate(epochs)[:180])
    assert reading.passes == 1.5


def test_one_epoch_is_not_left_for_more_tokens(tmp_path: Path) -> None:
    reading = rows_of_tokens(open_dataset(write_dataset(tmp_path, SHARDS)), 10_000, most_epochs=1)
    assert (len(reading.rows.labels), reading.passes) == (120, 1)


def test_a_split_without_a_label_is_named(tmp_path: Path) -> None:
    dataset = open_dataset(write_dataset(tmp_path, ([[[2]]],)))
    with pytest.raises(DataError, match="no row with a label"):
        rows_of_tokens(dataset, 10)


def rows_of_lengths(lengths: list[int]) -> LabelledRows:
    covered = np.arange(max(lengths)) < np.array(lengths)[:, None]
    ids = np.where(covered, 5, 0)
    segments = np.where(covered, 0, PADDING).astype(np.int32)
    return LabelledRows(ids, np.where(covered, 5, NO_LABEL), segments, segments)


def test_each_row_is_read_once_in_steps_of_as_many_tokens() -> None:
    rows = rows_of_lengths([1 + n % 9 for n in range(500)])
    steps = step_rows(rows, step_tokens=100, seed=3)
    sums = [int(tokens_read(rows)[step].sum()) for step in steps]
    assert sorted(np.concatenate(steps).tolist()) == list(range(500))
    assert len(steps) == round(sum(sums) / 100)
    assert max(sums) - min(sums) <= 20
    again, other = (step_rows(rows, step_tokens=100, seed=seed) for seed in (3, 4))
    assert np.array_equal(np.concatenate(again), np.concatenate(steps))
    assert not np.array_equal(np.concatenate(other), np.concatenate(steps))


def test_a_row_longer_than_a_step_is_a_step() -> None:
    assert [len(step) for step in step_rows(rows_of_lengths([9, 9, 9]), step_tokens=4, seed=1)] == [
        1,
        1,
        1,
    ]


def test_what_a_decoder_reads_counts() -> None:
    rows = rows_of_lengths([3, 5])
    targets = replace(rows, decoder_input_ids=rows.input_ids, attention="encoder_decoder")
    assert tokens_read(targets).tolist() == [6, 10]


def test_a_rare_label_is_what_a_rare_input_is() -> None:
    rows = replace(
        rows_of_lengths([3]), labels=np.array([[5, 8, NO_LABEL]]), input_ids=np.array([[5, 8, 9]])
    )
    compact = with_rare_labels(rows, np.array([9, 5]))
    assert compact.input_ids.tolist() == [[1, 2, 0]]
    assert compact.labels.tolist() == [[1, 2, NO_LABEL]]
