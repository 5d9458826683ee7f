"""What the loader for torchtitan promises: its trainer's batches, without end, from an exact state."""

import itertools
from pathlib import Path

import pytest
import torch

import shardmill
from stages.errors import ConfigError
from stages.loading.torchtitan import TitanBatch, titan_batch
from tests.stages.loading.test_dataset import EOS, write_dataset

ROWS = [[[10, 11, EOS], [13, 14, EOS]], [[15, EOS]], [[16, EOS], [18, EOS], [19, EOS]]]


def opened(folder: Path) -> shardmill.TorchtitanLoader:
    """Return the loader of a dataset of three rows."""
    rows = shardmill.open_dataset(write_dataset(folder, (ROWS,)))
    return shardmill.TorchtitanLoader(shardmill.Loader(shardmill.Batches(rows, 1)))


def as_lists(batch: TitanBatch) -> tuple[list[list[int]], ...]:
    inputs, labels = batch
    return inputs["input"].tolist(), inputs["positions"].tolist(), labels.tolist()


def test_labels_are_the_next_token_of_the_same_document(tmp_path: Path) -> None:
    seen = 0
    for inputs, labels in itertools.islice(opened(tmp_path), 3):
        ids, positions = inputs["input"][0].tolist(), inputs["positions"][0].tolist()
        for at, label in enumerate(labels[0].tolist()):
            if at + 1 < len(ids) and positions[at + 1] == positions[at] + 1:
                assert label == ids[at + 1]
                seen += 1
            else:
                assert label == -100
        assert {inputs["input"].dtype, inputs["positions"].dtype, labels.dtype} == {torch.int64}
    assert seen == sum(len(document) - 1 for row in ROWS for document in row)


def test_it_goes_on_from_its_state_in_later_epochs_too(tmp_path: Path) -> None:
    whole = [as_lists(batch) for batch in itertools.islice(opened(tmp_path), 8)]
    assert len({str(batch) for batch in whole}) == 3
    for taken in range(8):
        first = opened(tmp_path / str(taken))
        for _ in itertools.islice(first, taken):
            pass
        later = opened(tmp_path / f"{taken}-later")
        later.load_state_dict(first.state_dict())
        assert [as_lists(batch) for batch in itertools.islice(later, 8 - taken)] == whole[taken:]


def test_an_empty_state_changes_nothing(tmp_path: Path) -> None:
    loader = opened(tmp_path)
    before = loader.state_dict()
    loader.load_state_dict({})
    assert loader.state_dict() == before


def test_validation_gives_every_row_once_and_ends(tmp_path: Path) -> None:
    rows = shardmill.open_dataset(write_dataset(tmp_path, (ROWS,)))
    loader = shardmill.TorchtitanLoader(shardmill.validation_loader(rows, 2))
    first, second = ([as_lists(batch) for batch in loader] for _ in range(2))
    assert first == second
    given = [row for inputs, _, _ in first for row in inputs]
    assert sorted(given)[-3:] == sorted(rows[number]["input_ids"].tolist() for number in range(3))
    assert len(given) == 4  # the last batch is filled up
    assert set(first[-1][2][-1]) == {-100}


def test_it_may_be_closed(tmp_path: Path) -> None:
    whole = [as_lists(batch) for batch in itertools.islice(opened(tmp_path / "whole"), 3)]
    loader = opened(tmp_path)
    first = as_lists(next(iter(loader)))
    loader.close()
    assert [first, *(as_lists(batch) for batch in itertools.islice(loader, 2))] == whole


def test_rows_of_an_encoder_are_refused() -> None:
    with pytest.raises(ConfigError, match="no position_ids"):
        titan_batch({name: torch.zeros(1, 2) for name in ("input_ids", "labels")})


def test_stages_that_are_over_are_told(tmp_path: Path) -> None:
    rows = shardmill.open_dataset(write_dataset(tmp_path, (ROWS,)))
    sequence = shardmill.Sequence([shardmill.Stage(rows, 1, epochs=2, name="general")])
    loader = shardmill.TorchtitanLoader(shardmill.Loader(sequence))
    batches = iter(loader)
    assert len(list(itertools.islice(batches, 6))) == 6
    with pytest.raises(ConfigError, match=r"stages general: all 6 batches were given, .* max_steps"):
        next(batches)
