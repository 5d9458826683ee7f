"""What the formats of rows promise.

Their bytes are those of the tables in their modules; whatever columns an objective has, of whatever
dtype and shape, a plain reader finds all of them again, in order, of the epoch that was asked for;
what a format cannot hold is refused.
"""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stages.errors import ConfigError
from stages.export import litdata, mds
from stages.export import source as sources
from stages.export.format import FormatContents
from stages.export.table import FORMATS
from tests.campaign import examples
from tests.stages.export.rows_on_disk import READERS, Rows, build_rows, read_mds, write_export

ROW_FORMATS = sorted(name for name, known in FORMATS.items() if known.holds is FormatContents.ROWS)
DTYPES = ("|b1", "|u1", "<u2", "<i2", "<i4", "<i8")
SHAPES = st.one_of(
    st.just(()), st.tuples(st.integers(1, 9)), st.tuples(st.integers(1, 3), st.integers(1, 5))
)
TWO_ROWS: Rows = {
    "input_ids": np.array([[10, 11, 2], [12, 2, 3]], "<u2"),
    "input_length": np.array([3, 2], "<i4"),
}


def values(dtype: str, shape: tuple[int, ...], seed: int) -> NDArray[np.integer]:
    """Return values over all of a dtype's range."""
    raw = np.frombuffer(np.random.default_rng(seed).bytes(int(np.prod(shape)) * 8), "<i8")
    return (raw >> 7 if dtype == "<i8" else raw).astype(dtype).reshape(shape)


def sample_shards(rows: list[int]) -> list[Rows]:
    """Return shards of so many rows with a column of each dtype, one of them of two axes."""
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(DTYPES, ())
    shapes |= {"|b1": (5,), "<u2": (2, 7), "<i2": (2,), "<i4": (3,)}
    return [
        {f"column_{dtype[1:]}": values(dtype, (n, *shapes[dtype]), 31 * at + n) for dtype in DTYPES}
        | {"input_ids": values("<u2", (n, 6), at)}
        for at, n in enumerate(rows)
    ]


def joined(shards: list[Rows]) -> dict[str, NDArray[np.integer]]:
    return {name: np.concatenate([shard[name] for shard in shards]) for name in shards[0]}


def require_same(found: Rows, wanted: Rows) -> None:
    assert found.keys() == wanted.keys()
    for name, column in wanted.items():
        np.testing.assert_array_equal(found[name], column, err_msg=name)


def test_every_format_of_rows_has_a_plain_reader_here() -> None:
    assert list(READERS) == ROW_FORMATS


@pytest.mark.parametrize("name", ROW_FORMATS)
@given(
    columns=st.lists(st.tuples(st.sampled_from(DTYPES), SHAPES), min_size=1, max_size=5),
    rows=st.lists(st.integers(0, 7), min_size=1, max_size=3).filter(any),
)
@settings(max_examples=examples(25), deadline=None)
def test_columns_of_any_dtype_and_shape_come_back(
    name: str, columns: list[tuple[str, tuple[int, ...]]], rows: list[int]
) -> None:
    shards: list[Rows] = [
        {f"c{k}": values(dtype, (n, *shape), 7 * at + k) for k, (dtype, shape) in enumerate(columns)}
        | {"input_ids": values("<u2", (n, 4), at)}
        for at, n in enumerate(rows)
    ]
    with tempfile.TemporaryDirectory() as folder:
        source = build_rows(Path(folder), shards)
        write_export(FORMATS[name], source, Path(folder) / "out")
        require_same(READERS[name](Path(folder) / "out" / "train"), joined(shards))


@pytest.mark.parametrize("name", ROW_FORMATS)
def test_rows_of_many_blocks_are_those_of_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = sample_shards([40, 0, 17])
    source = build_rows(tmp_path, shards)
    monkeypatch.setattr(sources, "BLOCK_TOKENS", 100)
    assert len(list(source.rows(0))) > 5
    write_export(FORMATS[name], source, tmp_path / "out")
    require_same(READERS[name](tmp_path / "out" / "train"), joined(shards))


@pytest.mark.parametrize("name", ROW_FORMATS)
def test_the_epoch_that_is_asked_for_is_written(name: str, tmp_path: Path) -> None:
    shards = sample_shards([9, 4])
    source = build_rows(tmp_path, shards, epoch=2)
    first = source.reader.read(0, np.arange(1), 0)["column_i4"]
    assert first.tolist() != shards[0]["column_i4"][:1].tolist()
    write_export(FORMATS[name], source, tmp_path / "out")
    require_same(READERS[name](tmp_path / "out" / "train"), joined(shards))


@pytest.mark.parametrize("name", ROW_FORMATS)
def test_a_split_without_a_row_is_refused(name: str, tmp_path: Path) -> None:
    source = build_rows(tmp_path, sample_shards([0]))
    with pytest.raises(ConfigError, match="the split train of tiny has no row"):
        FORMATS[name].refuse(source)


@pytest.mark.parametrize("name", ROW_FORMATS)
def test_the_lines_to_read_name_the_folder_and_compile(name: str, tmp_path: Path) -> None:
    source = build_rows(tmp_path, sample_shards([3]))
    lines = FORMATS[name].read([source], "/data/out")
    compile(lines, name, "exec")
    assert ("/data/out" if name == "hf" else "/data/out/train") in lines
    notes = " ".join(FORMATS[name].notes([source]))
    assert "epoch 0" in notes
    assert "encoder_decoder" in notes


def test_the_lines_to_read_safetensors_ask_for_a_column_that_is_there(tmp_path: Path) -> None:
    rows: list[Rows] = [{"labels": np.zeros((3, 4), "<i2")}]
    source = build_rows(tmp_path, rows)
    lines = FORMATS["safetensors"].read([source], str(tmp_path / "out"))
    write_export(FORMATS["safetensors"], source, tmp_path / "out")
    names = READERS["safetensors"](tmp_path / "out" / "train").keys()
    asked = lines.partition("get_slice(")[2].partition(")")[0].strip("'\"")
    assert asked in names


def test_the_folder_of_arrow_files_names_its_splits(tmp_path: Path) -> None:
    write_export(FORMATS["hf"], build_rows(tmp_path, sample_shards([3])), tmp_path / "out")
    assert json.loads((tmp_path / "out" / "dataset_dict.json").read_bytes()) == {"splits": ["train"]}


def test_the_bytes_of_an_mds_file(tmp_path: Path) -> None:
    write_export(mds.MDS, build_rows(tmp_path, [TWO_ROWS]), tmp_path / "out")
    config = (
        b'{"column_encodings": ["ndarray:uint8:3", "ndarray:uint16:3", "int32"], "column_names":'
        b' ["attention_mask", "input_ids", "input_length"], "column_sizes": [3, 6, 4], "compression":'
        b' null, "format": "mds", "hashes": [], "size_limit": 67108864, "version": 2}'
    )
    begin = 4 * 4 + len(config)
    expected = (
        bytes.fromhex("02000000")
        + np.array([begin, begin + 13, begin + 26], "<u4").tobytes()
        + config
        + bytes.fromhex("010101 0a000b000200 03000000")
        + bytes.fromhex("010100 0c0002000300 02000000")
    )
    assert (tmp_path / "out" / "train" / "shard.00000.mds").read_bytes() == expected
    index = json.loads((tmp_path / "out" / "train" / "index.json").read_bytes())
    assert index["version"] == 2
    assert index["shards"] == [
        json.loads(config)
        | {
            "raw_data": {"basename": "shard.00000.mds", "bytes": len(expected), "hashes": {}},
            "samples": 2,
            "zip_data": None,
        }
    ]


def test_the_bytes_of_a_safetensors_file(tmp_path: Path) -> None:
    source = build_rows(tmp_path, [TWO_ROWS])
    write_export(FORMATS["safetensors"], source, tmp_path / "out")
    found = (tmp_path / "out" / "train" / "00000.safetensors").read_bytes()
    size = int.from_bytes(found[:8], "little")
    assert json.loads(found[8 : 8 + size]) == {
        "__metadata__": {
            "dataset": "tiny",
            "epoch": "0",
            "fingerprint": source.manifest.fingerprint,
            "split": "train",
        },
        "input_length": {"dtype": "I32", "shape": [2], "data_offsets": [0, 8]},
        "input_ids": {"dtype": "U16", "shape": [2, 3], "data_offsets": [8, 20]},
        "attention_mask": {"dtype": "U8", "shape": [2, 3], "data_offsets": [20, 26]},
    }
    assert found[8 + size :].hex() == "0300000002000000" + "0a000b0002000c0002000300" + "010101010100"


def test_the_header_of_a_litdata_chunk() -> None:
    found = litdata.chunk_header(np.array([5, 6, 7]), 2)
    assert found.hex() == "03000000" + "14000000" + "1e000000" + "2a000000" + "38000000"


@given(rows=st.integers(0, 5_000), row_bytes=st.integers(1, 1 << 27), config=st.integers(0, 9_999))
def test_mds_files_hold_every_row_once_and_keep_the_limit(
    rows: int, row_bytes: int, config: int
) -> None:
    ranges = mds.file_ranges(rows, row_bytes=row_bytes, header_bytes=config)
    assert [row for first, last in ranges for row in range(first, last)] == list(range(rows))
    for first, last in ranges:
        size = 4 * (last - first + 2) + config + (last - first) * row_bytes
        assert size <= mds.SIZE_LIMIT or last - first == 1


@pytest.mark.parametrize(("config", "most"), [(12, 4), (13, 3), (16, 3), (32, 3), (33, 2), (999, 1)])
def test_an_mds_file_holds_as_many_rows_as_its_limit_lets_it(
    config: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mds, "SIZE_LIMIT", 100)  # 8 bytes, the config, 4 + 16 bytes a row
    ranges = mds.file_ranges(9, row_bytes=16, header_bytes=config)
    assert [last - first for first, last in ranges[:2]] == [most, most]


def test_a_shard_beyond_the_limit_is_several_mds_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mds, "SIZE_LIMIT", 1_000)
    shards = sample_shards([40, 0, 17])
    write_export(mds.MDS, build_rows(tmp_path, shards), tmp_path / "out")
    files = sorted((tmp_path / "out" / "train").glob("*.mds"))
    assert len(files) > 4
    assert all(path.stat().st_size <= 1_000 for path in files)
    require_same(read_mds(tmp_path / "out" / "train"), joined(shards))


def test_what_32_bit_offsets_cannot_reach_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = build_rows(tmp_path, sample_shards([3]))
    mds.MDS.refuse(source)
    monkeypatch.setattr(mds, "MAX_OFFSET", 50)
    with pytest.raises(ConfigError, match=r"a row of tiny has .* bytes, but offsets end at 50"):
        mds.MDS.refuse(source)
