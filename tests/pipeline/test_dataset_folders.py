"""What dataset folders promise: of what save_to_disk writes, the data is read and nothing else."""

import json
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest

from pipeline.inputs.files import FoundInputs, find_inputs
from pipeline.run_file.config import RunFile
from stages.errors import ConfigError
from tests.conftest import run_small


def write_dataset(folder: Path, texts: list[str], *, shards: int = 2, split: str | None = None) -> None:
    """Write a folder as save_to_disk does: streams of record batches, and notes."""
    folder.mkdir(parents=True)
    names = [f"data-{n:05d}-of-{shards:05d}.arrow" for n in range(shards)]
    for n, name in enumerate(names):
        table = pa.table({"text": texts[n::shards]})
        with pa.ipc.new_stream(folder / name, table.schema) as writer:
            writer.write_table(table, max_chunksize=3)
    state: dict[str, Any] = {
        "_data_files": [{"filename": name} for name in names],
        "_fingerprint": "0" * 16,
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": split,
    }
    (folder / "state.json").write_text(json.dumps(state, indent=2))
    (folder / "dataset_info.json").write_text(json.dumps({"features": {}}))
    table = pa.table({"text": ["what another program left there"]})
    with pa.ipc.new_stream(folder / "cache-0123.arrow", table.schema) as writer:
        writer.write_table(table)


def write_splits(folder: Path, *splits: str) -> None:
    """Write a folder of several splits as save_to_disk does."""
    for split in splits:
        write_dataset(folder / split, [f"{split} {n}" for n in range(7)], split=split)
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": [*splits]}))


def find(base: Path, *paths: str) -> FoundInputs:
    """Return what a run over one source reads."""
    sources: list[dict[str, Any]] = [{"name": "s", "paths": paths}]
    run = RunFile.model_validate({"sources": sources, "datasets": [{"name": "clm"}]})
    return find_inputs(run, base)


def refusal(base: Path, *paths: str) -> str:
    """Return the message with which paths are refused."""
    with pytest.raises(ConfigError) as caught:
        find(base, *paths)
    return str(caught.value)


@pytest.mark.parametrize("pattern", ["ds", "ds/*", "d*", "**", "ds/*.arrow"])
def test_the_files_that_a_dataset_names_are_read_and_no_others(pattern: str, tmp_path: Path) -> None:
    write_dataset(tmp_path / "ds", ["a", "b", "c"])
    found = find(tmp_path, pattern)
    names = [file.path.rpartition("/")[2] for file in found.files]
    assert names == ["data-00000-of-00002.arrow", "data-00001-of-00002.arrow"]
    (skipped,) = found.skipped
    assert skipped.by == {"beside": 1 if pattern == "ds/*.arrow" else 3}


def test_a_folder_of_several_splits_is_refused_with_the_ways_out(tmp_path: Path) -> None:
    write_splits(tmp_path / "dd", "train", "test")
    for pattern in ("dd", "*"):
        assert refusal(tmp_path, pattern) == (
            f"sources.s.paths: {tmp_path}/dd is a dataset of the splits train, test; name one, as"
            f" {tmp_path}/dd/train, or {tmp_path}/dd/* for all of them"
        )
    assert [file.path[:10] for file in find(tmp_path, "dd/train").files] == ["train/data"] * 2
    for pattern in ("dd/*", "dd/**"):
        found = find(tmp_path, pattern)
        assert len(found.files) == 4
        (skipped,) = found.skipped
        assert skipped.by == {"beside": 7}


def test_a_folder_of_one_split_is_read(tmp_path: Path) -> None:
    write_splits(tmp_path / "dd", "train")
    assert [file.path[:13] for file in find(tmp_path, "dd").files] == ["dd/train/data"] * 2


def test_a_dataset_that_lacks_a_file_or_is_damaged_is_refused(tmp_path: Path) -> None:
    write_dataset(tmp_path / "ds", ["a", "b", "c"])
    (tmp_path / "ds/data-00001-of-00002.arrow").unlink()
    assert "/ds/state.json names data-00001-of-00002.arrow, which is not there" in refusal(
        tmp_path, "ds"
    )
    for damaged in ("{", '{"_data_files": [7]}'):
        (tmp_path / "ds/state.json").write_text(damaged)
        assert "/ds/state.json is damaged; fetch or write the dataset again" in refusal(tmp_path, "ds/*")
    chosen = {"_data_files": [], "_indices_data_files": [{"filename": "indices.arrow"}]}
    (tmp_path / "ds/state.json").write_text(json.dumps(chosen))
    assert "flatten_indices()" in refusal(tmp_path, "ds")


def test_a_file_that_is_called_state_is_read_where_there_is_no_dataset(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('[{"text": "of the art"}]')
    (tmp_path / "dataset_info.json").write_text('[{"text": "more"}]')
    assert len(find(tmp_path, "*.json").files) == 2


def test_a_dataset_behind_a_url_is_read(tmp_path: Path) -> None:
    write_dataset(tmp_path / "ds", ["a", "b", "c"])
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path / "ds"), "/hub/ds", recursive=True)
    for pattern in ("memory://hub/ds", "memory://hub/d*", "memory://hub/ds/*"):
        assert len(find(tmp_path, pattern).files) == 2, pattern
    memory.rm("/hub", recursive=True)


@pytest.mark.slow
def test_the_documents_of_a_dataset_are_its_rows(tmp_path: Path) -> None:
    texts = [f"the text with the number {n}" for n in range(50)]
    write_dataset(tmp_path / "ds", texts)
    sources = [{"name": "s", "paths": ["ds"]}]
    settings = {"unit_size": "1KiB", "min_chars": 1}
    options: dict[str, Any] = {"sources": sources, "ingest": settings, "until": "ingest"}
    report = run_small(tmp_path, tmp_path / "run", **options)
    assert report["documents"]["read"] == 50
    assert report["skipped"] == {"s": {"beside": 3}}
    assert len(list((tmp_path / "run/ingest/s").iterdir())) > 2
