"""Finished runs of earlier versions: what no mended rule touches stays done, and can be grown."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import shardmill
from tests.called import called
from tests.unpacked_runs import unpack_run

PLAIN = ("formats", "grown", "small_month")
"""Runs that no later rule changes."""


@pytest.mark.parametrize("name", PLAIN)
def test_a_finished_run_stays_done_and_is_verified_without_a_new_warning(
    name: str, tmp_path: Path
) -> None:
    folder = unpack_run(name, tmp_path)
    run, output = str(folder / "run.toml"), str(folder / "out")
    before = {path: path.read_bytes() for path in (folder / "out" / "datasets").rglob("*.npy")}
    planned = called("plan", run, "--output", output, "--json", cwd=tmp_path)
    assert planned.returncode == 0
    states = {one["step"]: one["state"] for one in json.loads(planned.stdout)}
    assert {state for step, state in states.items() if step != "scan"} == {"done"}
    assert called("run", run, "--output", output, "--workers", "0", cwd=tmp_path).returncode == 0
    verified = called("verify", output, "--workers", "0", "--json", cwd=tmp_path)
    assert verified.returncode == 0
    assert json.loads(verified.stdout)["audit"]["missed"] == []
    assert before
    assert before == {path: path.read_bytes() for path in before}


def test_a_run_over_every_plain_format_grows_by_one_file_of_each(tmp_path: Path) -> None:
    folder = unpack_run("formats", tmp_path)
    added = [shutil.copy(path, folder / "in") for path in (folder / "later").iterdir()]
    output = str(folder / "out")
    run = str(folder / "run.toml")
    assert called("run", run, "--output", output, "--workers", "0", cwd=tmp_path).returncode == 0
    generation = folder / "out" / "generations" / "0001"
    read = [
        own
        for path in generation.glob("ingest/*/*/documents.parquet")
        for own in pq.read_table(path, columns=["path"]).column("path").to_pylist()
    ]
    assert len(added) == len(set(read)) == 5
    assert len(read) == 3 * 8 + 2
    first = json.loads((folder / "out" / "datasets" / "clm" / "train" / "dataset.json").read_text())
    rows = shardmill.open_dataset(folder / "out" / "datasets" / "clm")
    assert len(rows) > sum(shard["rows"] for shard in first["shards"])


def grow(folder: Path, texts: list[str]) -> None:
    """Add a file to the inputs of a run, and run it."""
    lines = [json.dumps({"text": text, "lang": "en"}) for text in texts]
    (folder / "in" / "added.jsonl").write_text("\n".join([*lines, ""]))
    grown = called(
        "run", str(folder / "run.toml"), "--output", str(folder / "out"), "--workers", "0", cwd=folder
    )
    assert grown.returncode == 0


def test_generations_without_a_validation_split_count_as_empty(tmp_path: Path) -> None:
    folder = unpack_run("small_month", tmp_path)
    later = sorted((folder / "out" / "generations").iterdir())
    made = [(one / "datasets/clm/validation").exists() for one in (folder / "out", *later)]
    assert made == [False, True, False, True]
    dataset = folder / "out" / "datasets" / "clm"
    lengths = [
        len(shardmill.open_dataset(dataset, split="validation", generations=count))
        for count in (1, 2, 3, 4)
    ]
    assert lengths[0] == 0 < lengths[1] == lengths[2] < lengths[3]
    grow(folder, ["a month of one text, which is long enough to be kept"])
    assert (folder / "out/generations/0004/datasets/clm/validation/dataset.json").exists()
    assert len(shardmill.open_dataset(dataset, split="validation")) == lengths[3]


def test_a_run_that_did_not_follow_clusters_keeps_its_rows_and_is_warned_of(tmp_path: Path) -> None:
    folder = unpack_run("held_out", tmp_path)
    run, output = str(folder / "run.toml"), str(folder / "out")
    planned = called("plan", run, "--output", output, "--json", cwd=tmp_path)
    states = {one["step"]: one["state"] for one in json.loads(planned.stdout)}
    assert {state for step, state in states.items() if step != "scan"} == {"done"}
    verified = called("verify", output, "--workers", "0", cwd=tmp_path)
    assert verified.returncode == 0
    (said,) = (line for line in verified.stdout.splitlines() if "held-out clusters" in line)
    assert "4 documents are in training though their cluster is held out" in said
    grow(folder, ["a month of one text, which is long enough to be kept"])
    assert called("verify", output, "--workers", "0", cwd=tmp_path).returncode == 0
