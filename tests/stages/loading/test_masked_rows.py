"""What an opened dataset of masked rows promises.

The mask of a row is a function of the dataset's seed, the epoch and the row: batch size, order,
process and numba change no bit of it; another epoch or split has other masks; the clean row is always
there to be had.
"""

import hashlib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from stages.errors import ConfigError, FormatError
from stages.loading.dataset import ShardDataset, open_dataset
from stages.objectives.rows import IGNORED
from stages.store.manifest import MANIFEST_NAME, read_manifest, write_manifest
from tests.stages.loading.test_dataset import EOS, PAD, ROW_LENGTH, write_dataset

ROOT = Path(__file__).resolve().parents[3]
MASK = 6
SPECIAL_IDS = {"unk": 0, "bos": 1, "eos": EOS, "pad": PAD, "cls": 4, "sep": 5, "mask": MASK}
SHARDS = tuple(
    [[[10 + (7 * shard + 3 * row + place) % 280 for place in range(4)] + [EOS]] for row in range(40)]
    for shard in range(3)
)


def write_masked(
    root: Path, *, split: str = "train", changes: Mapping[str, object] | None = None
) -> Path:
    """Write one split of a dataset of masked rows; give the dataset's folder."""
    path = write_dataset(root, SHARDS, split=split)
    place = path / split / MANIFEST_NAME
    manifest = read_manifest(path / split)
    objective = {"kind": "mlm", "form": "row", "mask_probability": 0.3}
    update = {
        "objective": objective,
        "attention": "bidirectional_within_document",
        "label_convention": "masked",
        "special_ids": SPECIAL_IDS,
        **(changes or {}),
    }
    place.unlink()
    write_manifest(place, manifest.model_copy(update=update).signed())
    return path


def stored(dataset: ShardDataset) -> NDArray[np.int64]:
    """Return the ids on disk in stored order."""
    shards = [dataset.folder / shard.path / "input_ids.npy" for shard in dataset.manifest.shards]
    return np.concatenate([np.load(path) for path in shards]).astype(np.int64)


def everything(dataset: ShardDataset) -> dict[str, NDArray[np.int64]]:
    return dataset.batch(np.arange(len(dataset)))


def test_masked_rows_restore_to_what_is_stored(tmp_path: Path) -> None:
    dataset = open_dataset(write_masked(tmp_path), shuffle=False)
    batch, ids = everything(dataset), stored(dataset)
    selected = batch["labels"] != IGNORED
    assert np.array_equal(np.where(selected, batch["labels"], batch["input_ids"]), ids)
    assert not np.array_equal(batch["input_ids"], ids)
    assert (batch["input_ids"] == MASK).any()
    assert not np.isin(ids[selected], list(SPECIAL_IDS.values())).any()
    assert {column.dtype for column in batch.values()} == {np.dtype(np.int64)}
    assert batch["position_ids"][0].tolist() == [0, 1, 2, 3, 4, 0]
    assert batch["segment_ids"][0].tolist() == [0, 0, 0, 0, 0, -1]


def test_no_position_gives_no_row_of_every_column(tmp_path: Path) -> None:
    dataset = open_dataset(write_masked(tmp_path))
    nothing, one = dataset.batch([]), dataset.batch([0])
    assert {name: (column.shape[1:], column.dtype) for name, column in nothing.items()} == {
        name: (column.shape[1:], column.dtype) for name, column in one.items()
    }
    assert {len(column) for column in nothing.values()} == {0}
    assert dataset.__getitems__([]) == []


def test_batches_order_and_shuffling_change_no_mask(tmp_path: Path) -> None:
    path = write_masked(tmp_path)
    shuffled, plain = open_dataset(path, epoch=3), open_dataset(path, epoch=3, shuffle=False)
    whole = everything(shuffled)
    one_by_one = [shuffled[position] for position in range(len(shuffled))]
    backwards = shuffled.batch(np.arange(len(shuffled))[::-1])
    for name, column in whole.items():
        assert np.array_equal(np.stack([row[name] for row in one_by_one]), column)
        assert np.array_equal(backwards[name][::-1], column)
        rows = {tuple(row) for row in column.tolist()}
        assert rows == {tuple(row) for row in everything(plain)[name].tolist()}


def test_another_epoch_has_another_mask_and_the_first_comes_back(tmp_path: Path) -> None:
    dataset = open_dataset(write_masked(tmp_path), shuffle=False)
    first = everything(dataset)["labels"]
    dataset.set_epoch(1)
    second = everything(dataset)["labels"]
    assert not np.array_equal(first, second)
    dataset.set_epoch(0)
    assert np.array_equal(everything(dataset)["labels"], first)


def test_no_two_shards_of_either_split_share_a_mask(tmp_path: Path) -> None:
    path = write_masked(tmp_path)
    write_masked(tmp_path, split="validation")
    masks = [
        (everything(open_dataset(path, split=split, shuffle=False))["labels"] != IGNORED)[part]
        for split in ("train", "validation")
        for part in (slice(0, 40), slice(40, 80), slice(80, 120))
    ]
    assert len({mask.tobytes() for mask in masks}) == 6


def test_another_process_without_numba_gives_the_same_bits(tmp_path: Path) -> None:
    path = write_masked(tmp_path)
    program = (
        "import hashlib, sys; sys.modules['numba'] = None\n"
        "import numpy as np\n"
        "from stages.loading.dataset import open_dataset\n"
        f"d = open_dataset({str(path)!r}, epoch=2)\n"
        "b = d.batch(np.arange(len(d)))\n"
        "print(hashlib.sha256(b['input_ids'].tobytes() + b['labels'].tobytes()).hexdigest())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    batch = everything(open_dataset(path, epoch=2))
    here = hashlib.sha256(batch["input_ids"].tobytes() + batch["labels"].tobytes()).hexdigest()
    assert done.stdout.strip() == here


def test_a_shard_is_the_same_whatever_other_shards_the_batch_touches(tmp_path: Path) -> None:
    dataset = open_dataset(write_masked(tmp_path), shuffle=False)
    alone = dataset.batch(np.array([45, 46]))
    among = dataset.batch(np.array([0, 45, 100, 46]))
    assert np.array_equal(alone["input_ids"], among["input_ids"][[1, 3]])
    assert alone["input_ids"].shape == (2, ROW_LENGTH)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objective": {"kind": "rtd"}}, "this reader knows the kinds bart, clm, "),
        ({"objective": {"kind": "mlm", "colour": 1}}, r"objective\.mlm\.colour"),
        ({"objective": {"kind": "mlm", "mask_probability": 2.0}}, r"objective\.mlm\.mask_probability"),
        ({"label_convention": "unshifted"}, "label_convention 'unshifted', but the labels of mlm"),
        ({"special_ids": {"mask": 300}}, r"special_ids\.mask = 300"),
    ],
)
def test_what_the_reader_cannot_do_is_refused_on_opening(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    path = write_masked(tmp_path, changes=changes)
    with pytest.raises(FormatError, match=message):
        open_dataset(path)


@pytest.mark.parametrize("epoch", [-1, 1 << 32])
def test_an_epoch_that_has_no_draws_is_refused(tmp_path: Path, epoch: int) -> None:
    path = write_masked(tmp_path)
    with pytest.raises(ConfigError, match=f"epoch = {epoch}"):
        open_dataset(path, epoch=epoch)
    dataset = open_dataset(path)
    with pytest.raises(ConfigError, match=f"epoch = {epoch}"):
        dataset.set_epoch(epoch)
