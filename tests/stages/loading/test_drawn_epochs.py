"""What epochs that stand on disk promise.

They are read from their files, each row of its own epoch and shard, and later epochs are drawn. A file
that is not as its manifest says is refused: its size on opening, its bytes when it is first touched.
"""

from collections.abc import Mapping
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from stages.errors import ConfigError, FormatError
from stages.loading import drawn as drawn_module
from stages.loading.dataset import open_dataset
from stages.loading.drawn import DrawnEpochs
from stages.loading.split_reader import FileCheck
from stages.store.arrays import write_array
from stages.store.digests import digest_file
from stages.store.drawn import DRAWN_NAME, DrawnManifest, DrawnShard, read_drawn, write_drawn
from stages.store.manifest import FORMAT_VERSION, Column, read_manifest
from tests.stages.loading.test_dataset import ROW_LENGTH
from tests.stages.loading.test_masked_rows import SHARDS, write_masked

EPOCHS = 2
ROWS = [len(shard) for shard in SHARDS]


def label_on_disk(epoch: int, shard: int, row: int) -> int:
    """Return a label that says where it stands; no objective draws such."""
    return 10_000 * (epoch + 1) + 1_000 * shard + row


def with_epochs(root: Path, *, changes: Mapping[str, object] | None = None) -> Path:
    """Write masked rows of which two epochs stand on disk, and give the dataset's folder."""
    path = write_masked(root, changes=changes)
    split = path / "train"
    epochs: list[list[DrawnShard]] = [[] for _ in range(EPOCHS)]
    for epoch, number in product(range(EPOCHS), range(len(SHARDS))):
        place = f"drawn/epoch-{epoch:04d}/{number:05d}"
        labels = [[label_on_disk(epoch, number, row)] * ROW_LENGTH for row in range(ROWS[number])]
        for name in ("labels", "input_ids"):
            write_array(split / place / f"{name}.npy", np.array(labels, "<i4"))
        files = {file.name: digest_file(file) for file in sorted((split / place).glob("*.npy"))}
        counts = {"counted": label_on_disk(epoch, number, 0)}
        epochs[epoch].append(DrawnShard(path=place, files=files, counts=counts))
    column = Column(dtype="<i4", shape=(ROW_LENGTH,), meaning="made up")
    manifest = DrawnManifest(
        format_version=FORMAT_VERSION,
        dataset=read_manifest(split).fingerprint,
        epochs=EPOCHS,
        columns={"labels": column, "input_ids": column},
        shards=tuple(tuple(shards) for shards in epochs),
    )
    write_drawn(split / DRAWN_NAME, manifest.signed())
    return path


@pytest.mark.parametrize("bound", [1, 32])
def test_each_row_is_read_of_its_own_epoch_and_shard_and_later_epochs_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: int
) -> None:
    monkeypatch.setattr(drawn_module, "MAX_OPEN_FOLDERS", bound)
    path = with_epochs(tmp_path / "drawn")
    bare = open_dataset(write_masked(tmp_path / "bare"), epoch=EPOCHS, shuffle=False)
    dataset = open_dataset(path, shuffle=False)
    places = [(shard, row) for shard, rows in enumerate(ROWS) for row in range(rows)]
    for epoch in (0, 1, 0):
        dataset.set_epoch(epoch)
        wanted = [label_on_disk(epoch, *place) for place in places]
        assert dataset.batch(np.arange(sum(ROWS)))["labels"][:, 0].tolist() == wanted
        assert dataset.reader.read(1, np.array([3]), epoch)["labels"][0, 0] == label_on_disk(epoch, 1, 3)
    dataset.set_epoch(EPOCHS)
    assert dataset.batch(np.arange(sum(ROWS)))["labels"].tolist() == (
        bare.batch(np.arange(sum(ROWS)))["labels"].tolist()
    )
    assert dataset.reader.read(1, np.array([3]), EPOCHS)["labels"].tolist() == (
        bare.reader.read(1, np.array([3]), EPOCHS)["labels"].tolist()
    )


def test_an_epoch_that_neither_stands_on_disk_nor_can_be_drawn_is_refused(tmp_path: Path) -> None:
    changes: dict[str, object] = {
        "objective": {"kind": "bart", "form": "materialised", "permute_probability": 0.5},
        "attention": "encoder_decoder",
        "label_convention": "targets",
        "seq_len": ROW_LENGTH + 2,
    }
    dataset = open_dataset(with_epochs(tmp_path, changes=changes))
    assert len(dataset.at(1, np.arange(5))["labels"]) == 5
    for asked in (dataset.set_epoch, lambda epoch: dataset.at(epoch, np.arange(5))):
        with pytest.raises(ConfigError, match=r"epoch = 2: .* 2 epochs stand on disk"):
            asked(EPOCHS)
        with pytest.raises(ConfigError, match="epoch = -1: must be at least 0"):
            asked(-1)
    assert dataset.epoch == 0


def test_counts_are_those_of_their_epoch_and_shard(tmp_path: Path) -> None:
    split = with_epochs(tmp_path) / "train"
    manifest = read_drawn(split, dataset=read_manifest(split).fingerprint)
    assert manifest is not None
    epochs = DrawnEpochs(split, manifest, rows=ROWS, check=True)
    for epoch, shard in product(range(EPOCHS), range(len(SHARDS))):
        assert epochs.counts(epoch, shard) == {"counted": label_on_disk(epoch, shard, 0)}


@pytest.mark.parametrize("check", ["xxh3", "size"])
def test_a_drawn_file_of_another_size_is_refused_on_opening(tmp_path: Path, check: FileCheck) -> None:
    path = with_epochs(tmp_path)
    file = path / "train" / "drawn" / "epoch-0001" / "00002" / "labels.npy"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(FormatError) as error:
        open_dataset(path, check=check)
    assert str(file) in str(error.value)


def test_a_flipped_bit_of_a_drawn_file_is_refused_when_it_is_first_touched(tmp_path: Path) -> None:
    path = with_epochs(tmp_path)
    file = path / "train" / "drawn" / "epoch-0001" / "00002" / "labels.npy"
    file.write_bytes(file.read_bytes()[:-1] + bytes([file.read_bytes()[-1] ^ 1]))
    last = np.array([sum(ROWS) - 1])
    dataset = open_dataset(path, shuffle=False)
    assert dataset.at(0, last)["labels"][0, 0] == label_on_disk(0, 2, ROWS[2] - 1)
    for _ in range(2):
        with pytest.raises(FormatError, match="changed") as error:
            dataset.at(1, last)
        assert str(file) in str(error.value)
    trusting = open_dataset(path, shuffle=False, check="size")
    assert trusting.at(1, last)["labels"][0, 0] == label_on_disk(1, 2, ROWS[2] - 1)


def test_datasets_that_share_descriptors_map_fewer_drawn_folders(tmp_path: Path) -> None:
    dataset = open_dataset(with_epochs(tmp_path), shuffle=False)
    assert dataset.reader._drawn is not None  # noqa: SLF001  # what is mapped shows nowhere else
    mapped = dataset.reader._drawn._mapped  # noqa: SLF001  # likewise
    dataset.batch(np.arange(sum(ROWS)))
    assert len(mapped) == len(SHARDS)
    dataset.reader.share_descriptors(drawn_module.MAX_OPEN_FOLDERS // 2)
    dataset.batch(np.arange(sum(ROWS)))
    assert len(mapped) == 2


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("shape", [(2, 4), (4, 4), (3, 5)])
def test_columns_of_another_number_of_rows_or_width_are_refused(
    tmp_path: Path, shape: tuple[int, int], *, check: bool
) -> None:
    path = tmp_path / "drawn" / "epoch-0000" / "00000" / "labels.npy"
    write_array(path, np.zeros(shape, "<i4"))
    manifest = DrawnManifest(
        format_version=FORMAT_VERSION,
        dataset="of no importance",
        epochs=1,
        columns={"labels": Column(dtype="<i4", shape=(4,), meaning="labels")},
        shards=((DrawnShard(path="drawn/epoch-0000/00000", files={path.name: digest_file(path)}),),),
    )
    with pytest.raises(FormatError, match=r"labels\.npy: shape .*but the manifest says \(3, 4\)"):
        DrawnEpochs(tmp_path, manifest, rows=[3], check=check).read(0, 0, np.arange(1))
    write_array(path, np.ones((3, 4), "<i4"))
    got = DrawnEpochs(tmp_path, manifest, rows=[3], check=False).read(0, 0, np.arange(2))
    assert got["labels"].tolist() == [[1] * 4] * 2
