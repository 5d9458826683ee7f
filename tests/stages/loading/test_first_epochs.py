"""What rows that are opened in a later epoch promise: everything built on them begins in that epoch.

A dataset, a grown dataset, a blend of either and stages of all of them give rows, order and masks of the
epochs that their datasets were opened in, as a loop over `dataset.at` gives them.
"""

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from stages.errors import ConfigError
from stages.loading.batches import Batches
from stages.loading.blend import Blend, blended
from stages.loading.dataset import Batch, ShardDataset
from stages.loading.grown import open_dataset
from stages.loading.sequence import Sequence
from stages.loading.stage import Stage
from tests.stages.loading.test_dataset import write_dataset
from tests.stages.loading.test_masked_rows import write_masked

EPOCHS = range(4)
WEIGHTS = (2, 1)
ROWS = 40
"""Rows that are compared of each, which are several epochs of the small datasets."""


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two datasets of masked rows, drawn anew in each epoch: one as it was made, one that grew."""
    root = tmp_path_factory.mktemp("epochs")
    masked = write_masked(root / "masked")
    grown = write_masked(root / "grown/datasets")
    write_masked(root / "grown/generations/0001/datasets")
    return {"dataset": masked, "grown": grown}


def stream(rows: ShardDataset, begin: int) -> Iterator[Batch]:
    """Yield the rows of a dataset one by one, epoch after epoch, as `ShardDataset.at` gives them."""
    for epoch in itertools.count(begin):
        batch = rows.at(epoch, np.arange(len(rows)))
        for number in range(len(rows)):
            yield {name: column[number] for name, column in batch.items()}


def by_contract(datasets: list[ShardDataset], epochs: tuple[int, ...]) -> list[Batch]:
    """Return the first rows of a blend: each dataset's own rows, from its own epoch on."""
    streams = [stream(rows, epoch) for rows, epoch in zip(datasets, epochs, strict=True)]
    owners, _ = blended(np.arange(ROWS), WEIGHTS[: len(datasets)])
    return [next(streams[owner]) for owner in owners.tolist()]


def one_by_one(batches: Iterable[Batch]) -> list[Batch]:
    """Return the rows of batches, as many as are compared."""
    rows = (
        {name: column[number] for name, column in batch.items()}
        for batch in batches
        for number in range(len(batch["input_ids"]))
    )
    return list(itertools.islice(rows, ROWS))


def same(found: list[Batch], wanted: list[Batch]) -> bool:
    """Say whether rows are equal in every column."""
    assert len(found) == len(wanted) == ROWS
    pairs = list(zip(found, wanted, strict=True))
    assert all(one.keys() == other.keys() for one, other in pairs)
    return all(np.array_equal(one[name], other[name]) for one, other in pairs for name in one)


def in_order(source: ShardDataset | Blend) -> Iterator[Batch]:
    """Yield batches of several epochs."""
    batches = Batches(source, 3, last="carry")
    for step in itertools.count():
        yield batches[step]


@pytest.mark.parametrize("kind", ["dataset", "grown"])
@pytest.mark.parametrize("epoch", EPOCHS)
def test_a_walk_over_rows_begins_in_their_epoch(paths: dict[str, Path], kind: str, epoch: int) -> None:
    rows = open_dataset(paths[kind], epoch=epoch)
    assert same(one_by_one(in_order(rows)), by_contract([rows], (epoch,)))
    staged = Sequence([Stage(rows, 3, tokens=rows.seq_len * ROWS)], last="carry")
    assert same(one_by_one(staged), by_contract([rows], (epoch,)))


@pytest.mark.parametrize(("first", "second"), list(itertools.product(EPOCHS, repeat=2)))
def test_a_blend_begins_in_the_epochs_of_its_datasets(
    paths: dict[str, Path], first: int, second: int
) -> None:
    datasets = [open_dataset(paths["dataset"], epoch=first), open_dataset(paths["grown"], epoch=second)]
    wanted = by_contract(datasets, (first, second))
    blend = Blend(datasets, WEIGHTS)
    for rows in datasets:
        rows.set_epoch(7)  # moves the dataset, and not the blend
    assert same(one_by_one(in_order(blend)), wanted)
    before = Stage(open_dataset(paths["dataset"]), 2, steps=3, name="before")
    staged = Sequence([before, Stage(blend, 3, steps=20, name="blend")])
    assert same(one_by_one(staged[step] for step in range(3, 23)), wanted)
    if first or second:
        earlier = Blend([open_dataset(paths[kind]) for kind in ("dataset", "grown")], WEIGHTS)
        assert not same(one_by_one(in_order(earlier)), wanted)


def test_a_later_stage_repeats_no_row_and_no_mask_of_the_first(paths: dict[str, Path]) -> None:
    path = paths["dataset"]
    rows = open_dataset(path)
    second = Blend([open_dataset(path, epoch=2)], [1])
    sequence = Sequence([Stage(rows, 1, epochs=2, name="one"), Stage(second, 1, name="two")])
    steps = [sequence[number] for number in range(3 * len(rows))]
    expected = list(itertools.islice(stream(rows, 0), 3 * len(rows)))
    assert [as_text(step) for step in steps] == [as_text(row) for row in expected]
    assert sequence.state_dict(2 * len(rows) + 1)["rows_1"].endswith("shuffled, from epoch 2")  # type: ignore[union-attr]


def as_text(row: Batch) -> str:
    """Return a row's ids and labels in words."""
    return json.dumps([row[name].ravel().tolist() for name in ("input_ids", "labels")])


def test_a_state_of_a_blend_is_of_the_epochs_it_began_in(paths: dict[str, Path]) -> None:
    def blend(first: int, second: int) -> Blend:
        opened = [(paths["dataset"], first), (paths["grown"], second)]
        return Blend([open_dataset(path, epoch=epoch) for path, epoch in opened], WEIGHTS)

    batches = Batches(blend(1, 0), 3, last="carry")
    state = json.loads(json.dumps(batches.state_dict(5)))
    again = Batches(blend(1, 0), 3, last="carry")
    again.load_state_dict(state)
    assert [as_text(again[step]) for step in range(5)] == [
        as_text(batches[step]) for step in range(5, 10)
    ]
    for epochs in ((0, 0), (0, 1), (1, 1)):
        with pytest.raises(ConfigError, match="open the dataset that the state was saved with"):
            Batches(blend(*epochs), 3, last="carry").load_state_dict(state)
    sequence = Sequence([Stage(blend(1, 0), 3, steps=9, name="blend")])
    said = sequence.state_dict(2)
    assert str(said["rows_0"]).endswith("shuffled, from epoch 1+0")
    with pytest.raises(
        ConfigError, match=r"has .*from epoch 1\+0, but 'blend' has .*from epoch 0; stages"
    ):
        Sequence([Stage(blend(0, 0), 3, steps=9, name="blend")]).load_state_dict(said)


def test_an_epoch_that_a_dataset_of_a_blend_cannot_give_is_refused(paths: dict[str, Path]) -> None:
    last = (1 << 32) - 1
    datasets = [open_dataset(paths["dataset"]), open_dataset(paths["dataset"], epoch=last)]
    assert Blend(datasets[:1], [1]).sound_epoch(3) == 3
    with pytest.raises(ConfigError, match=r"epoch = 42949672\d\d: must be at least 0 and below"):
        Blend(datasets, WEIGHTS).sound_epoch(3)


def test_states_of_blends_that_earlier_versions_saved_are_still_of_the_same_rows(tmp_path: Path) -> None:
    rows = [open_dataset(write_dataset(tmp_path / name)) for name in "ab"]
    parts = [(one.fingerprint, True) for one in rows]
    assert Blend(rows, WEIGHTS).fingerprint == hashlib.sha256(f"{WEIGHTS} {parts}".encode()).hexdigest()
