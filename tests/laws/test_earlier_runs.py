"""Finished runs of earlier versions: what no mended rule touches stays done, and can be grown."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import shardmill
from tests.called import called
from tests.unpacked_runs import unpack_run

PLAIN = ("formats", "grown")
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
