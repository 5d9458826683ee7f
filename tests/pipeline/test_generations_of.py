"""Which generations a folder holds, and of which files, also where one of them is not finished."""

import json
from pathlib import Path

import pytest

from pipeline.planning.generations import generations_of
from stages.errors import ConfigError


def write_plan(folder: Path, files: str) -> None:
    """Write the run.json of a run over some files of source s that has committed nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"files": {f"s/{name}": "0" for name in files}}
    steps = {"ingest": {"fingerprint": "f", "inputs": [], "config": config}}
    (folder / "run.json").write_text(json.dumps({"run": {}, "steps": steps}))


def found(output: Path, files: str) -> dict[str, str]:
    """Return the files of each generation by its folder."""
    every = {f"s/{name}" for name in files}
    return {
        one.folder.name: "".join(sorted(key.removeprefix("s/") for key in one.files))
        for one in generations_of(output, every)
    }


def test_a_run_that_is_not_finished_is_of_all_files(tmp_path: Path) -> None:
    write_plan(tmp_path / "run", "a")
    assert found(tmp_path / "run", "ab") == {"run": "ab"}


def test_a_first_run_that_is_made_again_leaves_later_ones_their_files(tmp_path: Path) -> None:
    write_plan(tmp_path / "run", "a")
    write_plan(tmp_path / "run/generations/0001", "b")
    assert found(tmp_path / "run", "ab") == {"run": "a", "0001": "b"}
    (tmp_path / "run/run.json").unlink()
    assert found(tmp_path / "run", "ab") == {"run": "a", "0001": "b"}


def test_a_last_generation_that_read_nothing_takes_the_files_that_are_there(tmp_path: Path) -> None:
    write_plan(tmp_path / "run", "a")
    write_plan(tmp_path / "run/generations/0001", "b")
    assert found(tmp_path / "run", "abc") == {"run": "a", "0001": "b", "0002": "c"}
    assert found(tmp_path / "run", "ac") == {"run": "a", "0001": "c"}
    with pytest.raises(ConfigError, match=r"files are gone \(s/b\).*delete this folder"):
        found(tmp_path / "run", "a")


def test_what_is_no_generation_is_none(tmp_path: Path) -> None:
    write_plan(tmp_path / "run", "a")
    write_plan(tmp_path / "run/generations/copy", "b")
    assert found(tmp_path / "run", "ab") == {"run": "ab"}
