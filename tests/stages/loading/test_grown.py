"""What a dataset that grew promises, beside its rows: where each row lies, and which epochs it has."""

from pathlib import Path

import pytest

from stages.errors import ConfigError
from stages.loading.grown import open_dataset
from tests.stages.loading import test_drawn_epochs
from tests.stages.loading.test_blend import PERMUTED
from tests.stages.loading.test_dataset import EOS, SHARDS, write_dataset
from tests.stages.loading.test_drawn_epochs import with_epochs


def test_the_shards_of_a_row_are_counted_through_all_generations(tmp_path: Path) -> None:
    """Generation 0 has shards of 2 and 3 rows, generation 1 of 1 and 2, generation 2 of 1."""
    later = ([[[30, EOS]]], [[[31, EOS]], [[32, EOS]]])
    write_dataset(tmp_path / "datasets", SHARDS)
    write_dataset(tmp_path / "generations/0001/datasets", later)
    write_dataset(tmp_path / "generations/0002/datasets", later[:1])
    rows = open_dataset(tmp_path / "datasets/clm", shuffle=False)
    own = [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]
    assert [rows.locate(row) for row in range(len(rows))] == [*own, (2, 0), (3, 0), (3, 1), (4, 0)]


@pytest.mark.parametrize("fewer", [0, 1])
def test_an_epoch_that_a_generation_cannot_give_is_refused_before_it_is_read(
    fewer: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, folder in enumerate(("datasets", "generations/0001/datasets")):
        monkeypatch.setattr(test_drawn_epochs, "EPOCHS", 1 if number == fewer else 2)
        path = with_epochs(tmp_path / folder, changes=PERMUTED)
    path = tmp_path / "datasets" / path.name
    rows = open_dataset(path)
    said = "epoch = 1: bart cannot be drawn when it is read, .* 1 epoch stands on disk"
    with pytest.raises(ConfigError, match=said):
        rows.set_epoch(1)
    with pytest.raises(ConfigError, match=said):
        open_dataset(path, epoch=1)
    assert rows.epoch == 0
    open_dataset(path, generations=1).set_epoch(fewer)
