"""Finished runs of earlier versions: what no mended rule touches stays done, and can be grown.

The run `grown` is looked at in `test_generations_missing`.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import shardmill
from tests.called import called
from tests.unpacked_runs import unpack_run


def states(folder: Path) -> set[str]:
    """Return the states of all steps that `plan` says, but for the index of the inputs."""
    planned = called(
        "plan", str(folder / "run.toml"), "--output", str(folder / "out"), "--json", cwd=folder
    )
    assert planned.returncode == 0
    return {one["state"] for one in json.loads(planned.stdout) if one["step"] != "scan"}


def run(folder: Path) -> None:
    """Run an earlier run again, which passes."""
    output = str(folder / "out")
    done = called("run", str(folder / "run.toml"), "--output", output, "--workers", "0", cwd=folder)
    assert done.returncode == 0


def rows(folder: Path) -> dict[Path, bytes]:
    """Return the rows of a run and of all its generations."""
    found = {path: path.read_bytes() for path in (folder / "out").rglob("datasets/**/*.npy")}
    assert found
    return found


def require_verified_without_a_new_warning(folder: Path) -> None:
    """Verify a run, of which nothing is missed."""
    verified = called("verify", str(folder / "out"), "--workers", "0", "--json", cwd=folder)
    assert verified.returncode == 0
    report = json.loads(verified.stdout)
    assert report["audit"]["missed"] == []


def test_a_run_over_every_plain_format_stays_done_and_grows_by_one_file_of_each(tmp_path: Path) -> None:
    folder = unpack_run("formats", tmp_path)
    before = rows(folder)
    assert states(folder) == {"done"}
    added = [shutil.copy(path, folder / "in") for path in (folder / "later").iterdir()]
    run(folder)
    require_verified_without_a_new_warning(folder)
    assert before.items() <= rows(folder).items()
    generation = folder / "out" / "generations" / "0001"
    read = [
        own
        for path in generation.glob("ingest/*/*/documents.parquet")
        for own in pq.read_table(path, columns=["path"]).column("path").to_pylist()
    ]
    assert len(added) == len(set(read)) == 5
    assert len(read) == 3 * 8 + 2
    first = json.loads((folder / "out" / "datasets" / "clm" / "train" / "dataset.json").read_text())
    whole = shardmill.open_dataset(folder / "out" / "datasets" / "clm")
    assert len(whole) > sum(shard["rows"] for shard in first["shards"])


def grow(folder: Path, texts: list[str]) -> None:
    """Add a file to the inputs of a run, and run it."""
    lines = [json.dumps({"text": text, "lang": "en"}) for text in texts]
    (folder / "in" / "added.jsonl").write_text("\n".join([*lines, ""]))
    run(folder)


def test_generations_without_a_validation_split_stay_done_and_count_as_empty(tmp_path: Path) -> None:
    folder = unpack_run("small_month", tmp_path)
    before = rows(folder)
    assert states(folder) == {"done"}
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
    require_verified_without_a_new_warning(folder)
    assert before.items() <= rows(folder).items()


def test_a_run_that_did_not_follow_clusters_keeps_its_rows_and_is_warned_of(tmp_path: Path) -> None:
    folder = unpack_run("held_out", tmp_path)
    before = rows(folder)
    assert states(folder) == {"done"}
    grow(folder, ["a month of one text, which is long enough to be kept"])
    verified = called("verify", str(folder / "out"), "--workers", "0", cwd=folder)
    assert verified.returncode == 0
    (said,) = (line for line in verified.stdout.splitlines() if "held-out clusters" in line)
    assert "4 documents are in training though their cluster is held out" in said
    assert before.items() <= rows(folder).items()


def commits_of(root: Path, step: str) -> dict[str, dict[str, Any]]:
    """Return the commits of a step as they are written, by unit."""
    return {path.stem: json.loads(path.read_bytes()) for path in (root / "commits" / step).iterdir()}


def results_of_dedup(root: Path) -> dict[str, object]:
    """Return what the step decides, by key: its tables, its ledger and its masks; and its record."""
    tables = [*(root / "dedup").glob("*.parquet"), root / "ledger" / "dedup.parquet"]
    masks = list((root / "dedup" / "keep").rglob("*.npy"))
    assert masks
    found: dict[str, object] = {path.name: pq.read_table(path) for path in tables}
    found |= {path.relative_to(root).as_posix(): path.read_bytes() for path in masks}
    return found | {"record": commits_of(root, "dedup")["_step"]["record"]}


def stop_in_dedup(root: Path, kept: tuple[str, ...]) -> None:
    """Leave of a finished run what is there if it is killed within dedup.

    Args:
        root: of the run.
        kept: the last units of dedup that it had done, of `resolve` and `largest`.
    """
    for step in [path.name for path in (root / "commits").iterdir()]:
        for unit, commit in commits_of(root, step).items():
            late = step == "dedup" and unit in {"resolve", "largest", "_step"} - set(kept)
            if late or step not in ("scan", "ingest", "dedup"):
                (root / "commits" / step / f"{unit}.json").unlink()
                for key in commit["files"]:
                    (root / key).unlink()


MOMENTS: dict[str, tuple[str, ...]] = {
    "matched": (),
    "decided": ("resolve",),
    "described": ("resolve", "largest"),
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(("name", "place"), [("formats", ""), ("decided_by_one", "generations/0002")])
def test_a_run_that_was_killed_while_one_task_decided_ends_with_the_same_results(
    name: str, place: str, moment: str, tmp_path: Path
) -> None:
    folder = unpack_run(name, tmp_path)
    root = folder / "out" / place
    before, written = results_of_dedup(root), rows(folder)
    stop_in_dedup(root, MOMENTS[moment])
    run(folder)
    assert results_of_dedup(root) == before
    assert rows(folder) == written
    assert "decide" in commits_of(root, "dedup")
    assert "resolve" not in commits_of(root, "dedup")
    require_verified_without_a_new_warning(folder)


def test_a_run_whose_duplicates_one_task_decided_stays_as_it_is_and_is_followed_so_far(
    tmp_path: Path,
) -> None:
    folder = unpack_run("formats", tmp_path)
    makers = [path.parent for path in (folder / "out" / "commits").glob("*/_step.json")]
    commits = {path: path.read_bytes() for one in makers for path in one.iterdir()}
    assert "resolve" in commits_of(folder / "out", "dedup")
    run(folder)
    assert {path: path.read_bytes() for one in makers for path in one.iterdir()} == commits
    verified = called("verify", str(folder / "out"), "--workers", "0", "--json", cwd=folder)
    assert verified.returncode == 0
    evidence = json.loads(verified.stdout)["evidence"]
    assert "commits/dedup/decide.json" in evidence["lacking"]
    tasks = {
        one["what"]: (one["looked"], one["of"]) for one in evidence["looked"] if one["unit"] == "tasks"
    }
    assert tasks["dedup: verify near-duplicates"] == (1, 1)
