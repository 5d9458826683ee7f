"""What an opened dataset promises.

Every row once an epoch, with labels, positions and segments of its documents, as int64; a dataset
that is not whole, was changed or says what the reader cannot do is refused by name.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import shardmill
from stages.errors import ConfigError, FormatError
from stages.loading import dataset as dataset_module
from stages.loading import split_reader
from stages.loading.dataset import ShardDataset, open_dataset
from stages.store.arrays import write_array
from stages.store.digests import digest_file
from stages.store.manifest import (
    FORMAT_VERSION,
    MANIFEST_NAME,
    SEGMENT_COLUMNS,
    Column,
    Manifest,
    Shard,
    TokenizerFile,
    sum_totals,
    write_manifest,
)

EOS, PAD = 2, 3
ROW_LENGTH = 6
SHARDS = (
    [[[10, 11, EOS], [12, EOS]], [[13, 14, 15, 16, 17, EOS]]],
    [[[18, EOS], [19, EOS], [EOS]], [[20, 21, EOS]], [[22, 23, 24, 25]]],
)
"""Documents of rows of shards, written out."""
ROWS = [
    {
        "input_ids": [10, 11, EOS, 12, EOS, PAD],
        "labels": [10, 11, EOS, 12, EOS, -100],
        "position_ids": [0, 1, 2, 0, 1, 0],
        "segment_ids": [0, 0, 0, 1, 1, -1],
    },
    {
        "input_ids": [13, 14, 15, 16, 17, EOS],
        "labels": [13, 14, 15, 16, 17, EOS],
        "position_ids": [0, 1, 2, 3, 4, 5],
        "segment_ids": [0, 0, 0, 0, 0, 0],
    },
    {
        "input_ids": [18, EOS, 19, EOS, EOS, PAD],
        "labels": [18, EOS, 19, EOS, EOS, -100],
        "position_ids": [0, 1, 0, 1, 0, 0],
        "segment_ids": [0, 0, 1, 1, 2, -1],
    },
    {
        "input_ids": [20, 21, EOS, PAD, PAD, PAD],
        "labels": [20, 21, EOS, -100, -100, -100],
        "position_ids": [0, 1, 2, 0, 0, 0],
        "segment_ids": [0, 0, 0, -1, -1, -1],
    },
    {
        "input_ids": [22, 23, 24, 25, PAD, PAD],
        "labels": [22, 23, 24, 25, -100, -100],
        "position_ids": [0, 1, 2, 3, 0, 0],
        "segment_ids": [0, 0, 0, 0, -1, -1],
    },
]
SHARD = "train/epoch-0000/00001"


def write_shard(folder: Path, number: int, rows: list[list[list[int]]]) -> Shard:
    """Write one shard of documents written out row by row."""
    path = f"epoch-0000/{number:05d}"
    input_ids = np.full((len(rows), ROW_LENGTH), PAD, "<u2")
    columns: dict[str, list[int]] = {name: [] for name in SEGMENT_COLUMNS}
    columns["row_ptr"] = [0]
    for row, documents in enumerate(rows):
        for document in documents:
            start = sum(columns["length"][columns["row_ptr"][-1] :])
            input_ids[row, start : start + len(document)] = document
            columns["doc"].append(len(columns["doc"]))
            columns["start"].append(start)
            columns["length"].append(len(document))
            columns["doc_offset"].append(0)
        columns["row_ptr"].append(len(columns["doc"]))
    write_array(folder / path / "input_ids.npy", input_ids)
    for name, dtype in SEGMENT_COLUMNS.items():
        write_array(folder / path / "segments" / f"{name}.npy", np.array(columns[name]).astype(dtype))
    files = sorted((folder / path).rglob("*.npy"))
    return Shard(
        path=path,
        rows=len(rows),
        segments=len(columns["doc"]),
        documents=len(columns["doc"]),
        tokens=sum(columns["length"]),
        tokens_cut=0,
        files={file.relative_to(folder / path).as_posix(): digest_file(file) for file in files},
    )


def write_dataset(
    root: Path,
    shards: tuple[list[list[list[int]]], ...] = SHARDS,
    *,
    split: str = "train",
    label_convention: str = "unshifted",
    mask_first_token: bool = False,
) -> Path:
    """Write one split of a dataset; give the dataset's folder."""
    folder = root / "clm" / split
    written = tuple(write_shard(folder, number, rows) for number, rows in enumerate(shards))
    manifest = Manifest(
        format_version=FORMAT_VERSION,
        name="clm",
        split=split,
        objective={"kind": "clm", "mask_first_token": mask_first_token, "form": "row"},
        seed=7,
        epochs=1,
        attention="causal_within_document",
        label_convention=label_convention,
        seq_len=ROW_LENGTH,
        packing="best_fit",
        vocab_size=300,
        special_ids={"eos": EOS, "pad": PAD},
        tokenizer=TokenizerFile(file="tokenizer.model", sha256="00"),
        tables={},
        columns={"input_ids": Column(dtype="<u2", shape=(ROW_LENGTH,), meaning="token ids")},
        shards=written,
        totals=sum_totals(written),
    ).signed()
    folder.mkdir(parents=True, exist_ok=True)
    write_manifest(folder / MANIFEST_NAME, manifest)
    return root / "clm"


def plain(row: dict[str, np.ndarray]) -> dict[str, list[int]]:
    """Return a row as lists."""
    return {name: column.tolist() for name, column in row.items()}


def stored_numbers(dataset: ShardDataset) -> list[int]:
    """Return the number of the stored row at each position of the epoch."""
    return [ROWS.index(plain(dataset[position])) for position in range(len(dataset))]


def test_rows_are_as_written_out(tmp_path: Path) -> None:
    dataset = open_dataset(write_dataset(tmp_path), shuffle=False)
    assert [plain(row) for row in dataset] == ROWS
    assert len(dataset) == 5
    assert {column.dtype for row in dataset for column in row.values()} == {np.dtype(np.int64)}


def test_the_first_token_of_a_segment_can_go_without_loss(tmp_path: Path) -> None:
    dataset = open_dataset(write_dataset(tmp_path, mask_first_token=True), shuffle=False)
    assert dataset[0]["labels"].tolist() == [-100, 11, EOS, -100, EOS, -100]
    assert dataset[2]["labels"].tolist() == [-100, EOS, -100, EOS, -100, -100]


def test_an_epoch_holds_every_row_once_and_another_has_another_order(tmp_path: Path) -> None:
    path = write_dataset(tmp_path)
    orders = [stored_numbers(open_dataset(path, epoch=epoch)) for epoch in range(6)]
    assert all(sorted(order) == [0, 1, 2, 3, 4] for order in orders)
    assert len({tuple(order) for order in orders}) > 2
    dataset = open_dataset(path)
    assert stored_numbers(dataset) == orders[0]
    dataset.set_epoch(1)
    assert stored_numbers(dataset) == orders[1]


def test_a_batch_holds_the_rows_of_its_positions(tmp_path: Path) -> None:
    dataset = open_dataset(write_dataset(tmp_path), epoch=1)
    positions = [4, 0, 3, 3, 1]
    batch = dataset.batch(np.array(positions))
    for place, position in enumerate(positions):
        assert {name: column[place].tolist() for name, column in batch.items()} == plain(
            dataset[position]
        )
    assert all(column.shape == (0, ROW_LENGTH) for column in dataset.batch(np.array([], int)).values())


@pytest.mark.parametrize("shuffle", [False, True])
def test_positions_count_from_the_end_too_and_end_there(tmp_path: Path, shuffle: bool) -> None:  # noqa: FBT001
    dataset = open_dataset(write_dataset(tmp_path), shuffle=shuffle)
    assert plain(dataset[-1]) == plain(dataset[4])
    assert plain(dataset[-5]) == plain(dataset[0])
    assert [plain(row) for row in dataset.__getitems__([-1, 0])] == [
        plain(dataset[4]),
        plain(dataset[0]),
    ]
    assert plain(dataset[np.uint8(4)]) == plain(dataset[4])  # type: ignore[index]  # an integer too
    for position in (5, -6, 100):
        for ask in (dataset.__getitem__, lambda position: dataset.__getitems__([position])):
            with pytest.raises(IndexError, match=f"row {position} of 5"):
                ask(position)


def test_positions_that_are_no_whole_numbers_are_refused(tmp_path: Path) -> None:
    dataset = open_dataset(write_dataset(tmp_path))
    with pytest.raises(TypeError, match="'float' object cannot be interpreted as an integer"):
        dataset[1.5]  # type: ignore[index]  # what it refuses
    for positions in ([0.7, 1.9], [True, False], ["1"]):
        for ask in (dataset.batch, dataset.__getitems__):
            with pytest.raises(IndexError, match="must be whole numbers"):
                ask(positions)  # type: ignore[arg-type]  # likewise
    for epoch in (1.5, True, "1"):
        with pytest.raises(ConfigError, match=f"epoch = {epoch!r}: must be a whole number"):
            dataset.set_epoch(epoch)  # type: ignore[arg-type]  # likewise


@pytest.mark.parametrize(
    ("shuffle", "position"), [(False, 5), (False, 6), (False, -1), (False, -3), (True, 5), (True, 7)]
)
def test_a_batch_refuses_positions_that_are_none(
    tmp_path: Path,
    shuffle: bool,  # noqa: FBT001
    position: int,
) -> None:
    dataset = open_dataset(write_dataset(tmp_path), shuffle=shuffle)
    with pytest.raises(IndexError):
        dataset.batch(np.array([0, position]))


def test_a_dataset_without_rows_is_empty(tmp_path: Path) -> None:
    dataset = open_dataset(write_dataset(tmp_path, ([], [])))
    assert len(dataset) == 0
    assert list(dataset) == []
    with pytest.raises(IndexError):
        dataset[0]


def test_more_shards_than_may_be_open_read_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = tuple([[[100 + number, EOS]]] for number in range(9))
    path = write_dataset(tmp_path, shards)
    expected = [row["input_ids"].tolist() for row in open_dataset(path)]
    assert len({tuple(row) for row in expected}) == 9
    monkeypatch.setattr(split_reader, "MAX_OPEN_SHARDS", 2)
    dataset = open_dataset(path)
    for _ in range(2):
        assert [row["input_ids"].tolist() for row in dataset] == expected
        assert len(dataset.reader._mapped) == 2  # noqa: SLF001  # the bound itself
    assert dataset.batch(np.arange(9))["input_ids"].tolist() == expected


def test_it_feeds_torch(tmp_path: Path) -> None:
    dataset = open_dataset(write_dataset(tmp_path), epoch=1)
    loader: DataLoader[dict[str, torch.Tensor]] = DataLoader(dataset, batch_size=2)  # type: ignore[arg-type]
    batches = list(loader)
    assert [len(batch["input_ids"]) for batch in batches] == [2, 2, 1]
    for name in ROWS[0]:
        column = torch.cat([batch[name] for batch in batches])
        assert column.dtype == torch.int64
        assert column.tolist() == dataset.batch(np.arange(5))[name].tolist()


def test_the_public_face_opens_it(tmp_path: Path) -> None:
    dataset = shardmill.open_dataset(str(write_dataset(tmp_path)), split="train", shuffle=False)
    assert plain(dataset[3]) == ROWS[3]


def test_a_missing_split_is_refused_with_those_there_are(tmp_path: Path) -> None:
    path = write_dataset(tmp_path)
    write_dataset(tmp_path, split="validation")
    with pytest.raises(ConfigError, match=r"no split 'test'; splits here: train, validation"):
        open_dataset(path, split="test")
    with pytest.raises(ConfigError, match="no dataset here"):
        open_dataset(tmp_path / "nowhere")


def test_a_false_label_convention_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"label_convention 'shifted'.*'unshifted'"):
        open_dataset(write_dataset(tmp_path, label_convention="shifted"))


def test_an_unfinished_split_is_refused(tmp_path: Path) -> None:
    path = write_dataset(tmp_path)
    (path / "train" / MANIFEST_NAME).unlink()
    with pytest.raises(FormatError, match="no dataset"):
        open_dataset(path)


@pytest.mark.parametrize("mask_first_token", [False, True])
def test_compiled_and_plain_code_fill_in_the_same_rows(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mask_first_token: bool,  # noqa: FBT001
) -> None:
    path = write_dataset(tmp_path, mask_first_token=mask_first_token)
    positions = np.array([4, 0, 2, 1, 3, 0])
    compiled = open_dataset(path).batch(positions)
    monkeypatch.setattr(dataset_module, "row_kernels", lambda: None)
    plainly = open_dataset(path).batch(positions)
    assert set(compiled) == set(plainly) == set(ROWS[0])
    for name, column in compiled.items():
        assert column.dtype == plainly[name].dtype == np.int64
        assert column.tolist() == plainly[name].tolist()


def test_only_the_columns_asked_for_are_given(tmp_path: Path) -> None:
    path = write_dataset(tmp_path)
    for names in (["input_ids"], ["labels", "position_ids"], ["segment_ids"]):
        row = open_dataset(path, shuffle=False, columns=names)[2]
        assert plain(row) == {name: ROWS[2][name] for name in names}


@pytest.mark.parametrize("columns", ["input_ids", ["input_id"], ["labels", "label"], []])
def test_columns_that_are_not_there_are_refused_with_those_that_are(
    tmp_path: Path, columns: str | list[str]
) -> None:
    message = r"columns = .*: must be a list of some of input_ids, labels, position_ids, segment_ids"
    with pytest.raises(ConfigError, match=message):
        open_dataset(write_dataset(tmp_path), columns=columns)


def test_a_check_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='check = \'XXH3\': must be one of "xxh3", "size"'):
        open_dataset(write_dataset(tmp_path), check="XXH3")  # type: ignore[arg-type]  # what it refuses


def test_what_stands_beside_the_rows_comes_with_them(tmp_path: Path) -> None:
    """Objectives ask for it row by row: a component, a prompt's length, room to borrow, a loss mask."""
    path = write_dataset(tmp_path)
    place, numbers = path / "train" / MANIFEST_NAME, np.arange(len(ROWS))
    content = json.loads(place.read_text(encoding="utf-8"))
    columns = {
        "objective_id": ("|u1", numbers),
        "prompt": ("<i4", 10 + numbers),
        "room": ("<i4", 20 + numbers),
        "loss_mask": ("|u1", numbers[:, None] + [0, 100]),
    }
    first = 0
    for shard in content["shards"]:
        for name, (dtype, values) in columns.items():
            file = path / "train" / shard["path"] / f"{name}.npy"
            write_array(file, values[first : first + shard["rows"]].astype(dtype))
            shard["files"][file.name] = digest_file(file).model_dump(mode="json")
        first += shard["rows"]
    for name, (dtype, values) in columns.items():
        shape = list(values.shape[1:])
        content["columns"][name] = {"dtype": dtype, "shape": shape, "meaning": "of a row"}
    place.unlink()
    write_manifest(place, Manifest.model_validate(content).signed())
    stored = open_dataset(path).reader.stored(1, np.array([2, 0]), 0)
    given = {
        "objective_id": stored.components,
        "prompt": stored.prompt,
        "room": stored.room,
        "loss_mask": stored.loss_mask,
    }
    assert {name: None if column is None else column.tolist() for name, column in given.items()} == {
        "objective_id": [4, 2],
        "prompt": [14, 12],
        "room": [24, 22],
        "loss_mask": [[4, 104], [2, 102]],
    }


def test_numpy_alone_opens_any_column(tmp_path: Path) -> None:
    path = write_dataset(tmp_path)
    opened = {file: np.load(file, mmap_mode="r") for file in sorted(path.rglob("*.npy"))}
    assert len(opened) == len(SHARDS) * (1 + len(SEGMENT_COLUMNS))
    stored = np.concatenate([array for file, array in opened.items() if file.name == "input_ids.npy"])
    assert stored.tolist() == [row["input_ids"] for row in ROWS]


def test_the_kernel_writes_nothing_behind_a_row_whose_segments_are_too_long() -> None:
    kernels = pytest.importorskip("stages.loading.kernels")
    shard = (np.full((1, 4), 9, np.uint16), np.array([0, 2]), np.array([6, 1], np.int32))
    columns, first = np.zeros((4, 2, 4), np.int64), np.zeros(1, np.int64)
    kernels.fill_causal(shard, first, first, columns, True)  # noqa: FBT003  # a kernel takes no keywords
    assert columns[:, 0].tolist() == [[9, 9, 9, 9], [-100, 9, 9, 9], [0, 1, 2, 3], [0, 0, 0, 0]]
    assert not columns[:, 1].any()
