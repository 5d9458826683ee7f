"""What a split of 0 rows promises: it opens, and what needs rows says which split has none."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from pipeline.report.inspection import inspect
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from stages.errors import ConfigError
from stages.export.table import FORMATS
from stages.loading.hub_rows import read_rows
from tests.conftest import bundled_lines
from tests.laws.tiny_run import tiny_run
from tests.pipeline.exporting import export

SAID = "'validation' has 0 rows; raise validation.fraction"
WITHOUT = {"megatron-sentences": "sentences"}
"""Formats that a dataset of documents cannot be exported to, whatever its splits."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 14 documents that may hold some out, and held none out."""
    folder = tmp_path_factory.mktemp("empty")
    (folder / "a.jsonl").write_bytes(b"\n".join([*bundled_lines("text/*", 14)[:14], b""]))
    file = tiny_run(
        validation={"fraction": 1e-6}, datasets=[{"name": "tiny", "objective": {"kind": "clm"}}]
    )
    report = run_session(RunRequest(file, folder, folder / "out", 0), stream=None)
    assert report["passed"]
    assert any("the validation split has 0 rows; raise it" in line for line in report["warnings"])
    return folder / "out"


def opened(run: Path) -> tuple[shardmill.ShardDataset, shardmill.ShardDataset]:
    """Return the validation split and the training split."""
    folder = run / "datasets" / "tiny"
    return shardmill.open_dataset(folder, split="validation"), shardmill.open_dataset(folder)


def test_it_opens_with_the_columns_of_the_other_split(run: Path) -> None:
    held, train = opened(run)
    assert len(held) == 0
    assert list(held) == []
    none, one = held.batch([]), train.batch([0])
    assert {name: column.shape[1:] for name, column in none.items()} == {
        name: column.shape[1:] for name, column in one.items()
    }
    assert all(column.dtype == np.int64 and not len(column) for column in none.values())
    assert list(read_rows(held, ("input_ids", "attention_mask"), 0, 2)) == []
    with pytest.raises(IndexError):
        held[0]
    with pytest.raises(ConfigError, match="must be a list of some of input_ids"):
        shardmill.open_dataset(run / "datasets/tiny", split="validation", columns=["nothing"])


def test_what_walks_over_rows_refuses_it(run: Path) -> None:
    held, train = opened(run)
    for last in ("drop", "pad", "carry"):
        with pytest.raises(ConfigError, match=SAID):
            shardmill.Batches(held, 2, last=last)
    for datasets in ([held], [train, held], [held, train]):
        with pytest.raises(ConfigError, match=SAID):
            shardmill.Blend(datasets, [1] * len(datasets))
    lengths: tuple[dict[str, Any], ...] = ({"epochs": 1}, {"steps": 3}, {"tokens": 64})
    for length in lengths:
        stages = [shardmill.Stage(train, 2), shardmill.Stage(held, 2, **length, name="held")]
        with pytest.raises(ConfigError, match=SAID):
            shardmill.Sequence(stages)


@pytest.mark.parametrize("name", [one for one in FORMATS if one not in WITHOUT])
def test_an_export_has_the_training_split_and_says_that_the_other_has_none(
    run: Path, name: str, tmp_path: Path
) -> None:
    done: Any = export(run, tmp_path / "all", name)
    assert list(done["splits"]) == ["train"]
    assert "validation: 0 rows, so there is no file of it" in done["contents"]
    with pytest.raises(ConfigError, match=f"nothing to export: .*{SAID}"):
        export(run, tmp_path / "held", name, split="validation")
    assert not (tmp_path / "held").exists()


def test_inspect_names_the_split(run: Path) -> None:
    with pytest.raises(ConfigError, match=SAID):
        inspect(run, "tiny", split="validation", row=0, epoch=0)


def test_a_run_that_may_hold_nothing_out_has_no_such_split(run: Path, tmp_path: Path) -> None:
    shutil.copy(run.parent / "a.jsonl", tmp_path)
    file = tiny_run(
        validation={"fraction": 0}, datasets=[{"name": "tiny", "objective": {"kind": "clm"}}]
    )
    run_session(RunRequest(file, tmp_path, tmp_path / "out", 0), stream=None)
    with pytest.raises(ConfigError, match="no split 'validation'; splits here: train"):
        shardmill.open_dataset(tmp_path / "out" / "datasets" / "tiny", split="validation")
