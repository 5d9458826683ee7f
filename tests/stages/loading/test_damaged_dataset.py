"""What opening a damaged dataset promises: it is refused by name, when it is opened or first touched."""

import errno
import json
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from stages.errors import FormatError
from stages.loading.dataset import open_dataset
from stages.store.arrays import open_array, write_array
from stages.store.digests import digest_file
from stages.store.manifest import MANIFEST_NAME, SEGMENT_COLUMNS, WORD_STARTS, Manifest, write_manifest
from tests.stages.loading.test_dataset import ROWS, SHARD, plain, write_dataset

FILES = ["input_ids.npy", *(f"segments/{name}.npy" for name in SEGMENT_COLUMNS)]
OF_ROWS = ["input_ids.npy", "segments/row_ptr.npy", "segments/length.npy"]
BESIDE = [name for name in FILES if name not in OF_ROWS]
DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-1]),
    "grown": lambda file: file.write_bytes(file.read_bytes() + b"\0"),
    "gone": lambda file: file.unlink(),
}


@pytest.mark.parametrize("name", OF_ROWS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_of_rows_of_another_size_is_refused_on_opening(
    tmp_path: Path, damage: str, name: str
) -> None:
    path = write_dataset(tmp_path)
    DAMAGES[damage](path / SHARD / name)
    with pytest.raises(FormatError) as error:
        open_dataset(path, check="size")
    assert str(path / SHARD / name) in str(error.value)


@pytest.mark.parametrize("check", ["xxh3", "size"])
@pytest.mark.parametrize("name", BESIDE)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_beside_them_of_another_size_is_refused_when_its_shard_is_first_touched(
    tmp_path: Path, damage: str, name: str, check: Literal["xxh3", "size"]
) -> None:
    path = write_dataset(tmp_path)
    DAMAGES[damage](path / SHARD / name)
    dataset = open_dataset(path, shuffle=False, check=check)
    assert plain(dataset[0]) == ROWS[0]  # of the other shard
    for _ in range(2):
        with pytest.raises(FormatError) as error:
            dataset[2]
        assert str(path / SHARD / name) in str(error.value)


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_refused_when_its_shard_is_first_touched(tmp_path: Path, name: str) -> None:
    path = write_dataset(tmp_path)
    file = path / SHARD / name
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    dataset = open_dataset(path, shuffle=False)
    assert plain(dataset[0]) == ROWS[0]  # of the other shard
    for _ in range(2):
        with pytest.raises(FormatError, match="changed") as error:
            dataset[2]
        assert str(file) in str(error.value)


def test_a_shard_of_another_dtype_than_its_manifest_says_is_refused(tmp_path: Path) -> None:
    path = write_dataset(tmp_path)
    place = path / "train" / MANIFEST_NAME
    content = json.loads(place.read_text(encoding="utf-8"))
    content["columns"]["input_ids"]["dtype"] = "<i2"
    place.unlink()
    write_manifest(place, Manifest.model_validate(content).signed())
    with pytest.raises(FormatError, match=r"input_ids\.npy: dtype <u2"):
        open_dataset(path)[0]


@pytest.mark.parametrize("check", ["xxh3", "size"])
@pytest.mark.parametrize("damage", [*DAMAGES, "flipped"])
def test_a_damaged_table_of_the_tokenizer_is_refused_on_opening(
    tmp_path: Path, damage: str, check: Literal["xxh3", "size"]
) -> None:
    """Masks are made of it, and no shard is touched that would show it."""
    path = write_dataset(tmp_path)
    table, place = path / "train" / WORD_STARTS, path / "train" / MANIFEST_NAME
    write_array(table, np.arange(300) % 3 == 0)
    content = json.loads(place.read_text(encoding="utf-8"))
    content["tables"] = {WORD_STARTS: digest_file(table).model_dump(mode="json")}
    place.unlink()
    write_manifest(place, Manifest.model_validate(content).signed())
    starts = open_dataset(path, check=check).vocabulary.starts_word
    assert starts is not None
    assert starts.tolist() == [number % 3 == 0 for number in range(300)]
    if damage == "flipped":
        table.write_bytes(table.read_bytes()[:-1] + bytes([table.read_bytes()[-1] ^ 1]))
    else:
        DAMAGES[damage](table)
    with pytest.raises(FormatError) as error:
        open_dataset(path, check=check)
    assert str(table) in str(error.value)


def with_segments(root: Path, name: str, values: list[int]) -> Path:
    """Write a dataset whose first shard has other segments, signed anew; give its folder."""
    path = write_dataset(root, mask_first_token=True)
    folder = path / "train" / "epoch-0000" / "00000"
    write_array(folder / "segments" / f"{name}.npy", np.array(values).astype(SEGMENT_COLUMNS[name]))
    place = path / "train" / MANIFEST_NAME
    content = json.loads(place.read_text(encoding="utf-8"))
    digest = digest_file(folder / "segments" / f"{name}.npy").model_dump(mode="json")
    content["shards"][0]["files"][f"segments/{name}.npy"] = digest
    place.unlink()
    write_manifest(place, Manifest.model_validate(content).signed())
    return path


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("row_ptr", [0, 9, 3], "row_ptr must ascend from 0 to the 3 segments"),
        ("row_ptr", [1, 2, 3], "row_ptr must ascend from 0 to the 3 segments"),
        ("row_ptr", [0, 2, 2], "row_ptr must ascend from 0 to the 3 segments"),
        ("length", [1 << 30, 2, 6], "row 0 has segments of 1,073,741,826 tokens, but rows are of 6"),
        ("length", [3, 2, -6], "or a length is below 0"),
    ],
)
@pytest.mark.parametrize("check", ["xxh3", "size"])
def test_segments_that_leave_their_row_are_refused_before_they_are_read(
    tmp_path: Path, check: str, name: str, values: list[int], said: str
) -> None:
    dataset = open_dataset(with_segments(tmp_path, name, values), shuffle=False, check=check)  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(FormatError, match=said):
            dataset[0]
    assert plain(dataset[2])["input_ids"] == ROWS[2]["input_ids"]  # of the other shard


def test_a_process_without_file_descriptors_is_no_damage(tmp_path: Path) -> None:
    path = write_dataset(tmp_path) / SHARD / "input_ids.npy"
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        with pytest.raises(OSError, match="ulimit -n") as error:
            open_array(path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert error.value.errno == errno.EMFILE
    assert len(open_array(path)) == 3
