"""What rows for Hugging Face datasets promise: every row of every epoch, with the columns asked for.

The package `datasets` reads them in `make clients`; it is none of ours.
"""

from pathlib import Path

import numpy as np
import pytest

import shardmill
from stages.errors import ConfigError
from stages.loading.hub_rows import TRAINED_ON, read_rows, to_iterable_dataset
from tests.stages.loading.test_dataset import EOS, write_dataset

ROWS = [[[number, EOS], [number + 1, EOS]] for number in range(10, 30)]


def test_each_epoch_has_its_own_order_and_padding_is_masked(tmp_path: Path) -> None:
    rows = shardmill.open_dataset(write_dataset(tmp_path, (ROWS[:7], ROWS[7:])))
    found = list(read_rows(rows, TRAINED_ON, 0, 2))
    assert len(found) == 2 * len(ROWS)
    for epoch in (0, 1):
        rows.set_epoch(epoch)
        batch = rows.batch(range(len(rows)))
        part = found[epoch * len(rows) : (epoch + 1) * len(rows)]
        assert [list(row) for row in part] == [list(TRAINED_ON)] * len(rows)
        for name in ("input_ids", "labels"):
            assert [row[name] for row in part] == batch[name].tolist()
        masks = np.array([row["attention_mask"] for row in part])
        assert (masks == (batch["segment_ids"] >= 0)).all()
        assert 0 < masks.mean() < 1
    assert found[: len(rows)] != found[len(rows) :]


def test_a_column_that_is_not_there_is_refused(tmp_path: Path) -> None:
    rows = shardmill.open_dataset(write_dataset(tmp_path, (ROWS,)))
    with pytest.raises(ConfigError, match="rows have no token_type_ids; they have attention_mask"):
        next(read_rows(rows, ["token_type_ids"], 0, 1))


def test_the_package_that_it_needs_is_named(tmp_path: Path) -> None:
    rows = shardmill.open_dataset(write_dataset(tmp_path, (ROWS,)))
    with pytest.raises(ConfigError, match="needs the package datasets"):
        to_iterable_dataset(rows)


def test_every_pass_gives_the_same_rows_and_leaves_the_dataset_in_its_epoch(tmp_path: Path) -> None:
    rows = shardmill.open_dataset(write_dataset(tmp_path, (ROWS,)), epoch=1)
    first = list(read_rows(rows, TRAINED_ON, 1, 3))
    rows.set_epoch(5)
    assert list(read_rows(rows, TRAINED_ON, 1, 3)) == first
    assert len(first) == 2 * len(ROWS)
    assert rows.epoch == 5


@pytest.mark.parametrize("epochs", [0, -1])
def test_at_least_one_epoch_is_given(tmp_path: Path, epochs: int) -> None:
    rows = shardmill.open_dataset(write_dataset(tmp_path, (ROWS,)))
    with pytest.raises(ConfigError, match=f"epochs = {epochs}: must be at least 1"):
        to_iterable_dataset(rows, epochs=epochs)
