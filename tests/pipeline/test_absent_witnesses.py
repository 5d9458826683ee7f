"""A finished run stays valid without an earlier run that it names; `verify` counts what it misses."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.session.witnesses import absent_witnesses
from pipeline.steps.kept_plan import KeptPlan, KeptStep
from tests.called import called
from tests.campaign import some_of
from tests.unpacked_runs import unpack_run

RUN = ("run", "run.toml", "--output", "out", "--workers", "0")
VERIFY = ("verify", "out", "--workers", "0")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run against a grown run, of all of its documents and others."""
    folder = unpack_run("grown", tmp_path_factory.mktemp("witnesses"))
    (folder / "out").rename(folder / "old")
    shutil.copy(folder / "later" / "d3.jsonl", folder / "in")
    run = folder / "run.toml"
    run.write_text(
        run.read_text("utf-8") + '[dedup]\nagainst = ["old"]\nmax_removed_fraction = 1.0\n', "utf-8"
    )
    done = called(*RUN, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def said(folder: Path) -> list[str]:
    """Return the lines of `verify` about documents that no check can look at."""
    done = called(*VERIFY, cwd=folder)
    assert done.returncode == 0, done.stderr
    text = done.stdout + done.stderr
    return [line for line in text.splitlines() if "name a kept document of the earlier run" in line]


def test_nothing_is_said_while_the_earlier_run_is_there(made: Path) -> None:
    assert said(made) == []


@pytest.mark.parametrize("how", some_of(["moved", "deleted", "a generation of it"], 1))
def test_each_run_that_is_not_there_is_counted(how: str, made: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(made, tmp_path / "copy"))
    record = folder / "out" / "run.json"
    record.write_text(record.read_text("utf-8").replace(str(made), str(folder)), "utf-8")
    assert said(folder) == []
    if how == "moved":
        (folder / "old").rename(folder / "elsewhere")
    elif how == "deleted":
        shutil.rmtree(folder / "old")
    else:
        shutil.rmtree(folder / "old" / "generations" / "0002")
    lines = said(folder)
    assert len(lines) == (1 if how == "a generation of it" else 3)
    counts = [int(line.split(" removed documents")[0].rpartition(" ")[2]) for line in lines]
    assert min(counts) > 0
    done = called(*RUN, cwd=folder)
    assert done.returncode == 0, done.stderr


def test_an_earlier_run_with_a_gap_is_refused(made: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(made, tmp_path / "copy"))
    shutil.rmtree(folder / "old" / "generations" / "0001")
    shutil.rmtree(folder / "out")
    refused = called(*RUN, cwd=folder)
    assert refused.returncode == 2
    assert "generation 0001 is missing" in refused.stderr


def write_run(folder: Path, dedup: str) -> None:
    """Write the run.json of a run whose deduplication has some fingerprint."""
    folder.mkdir(parents=True, exist_ok=True)
    steps = {"dedup": {"fingerprint": dedup, "inputs": [], "config": {}}}
    (folder / "run.json").write_text(json.dumps({"run": {}, "steps": steps}), encoding="utf-8")


def grown_against(*named: Path) -> KeptPlan:
    """Return what generation 2 of a folder keeps that was made against other runs: old0, old1, ..."""
    runs = [*(f"old{n}" for n in range(len(named))), "own0", "own1"]
    config = {"against": [{"ingest": f"{run}i", "dedup": run, "split": None} for run in runs]}
    step = KeptStep(fingerprint="own2", inputs=(), config=config)
    return KeptPlan(run={}, steps={"dedup": step}, against=tuple(map(str, named)), generation=2)


def test_earlier_runs_that_are_gone_or_made_anew_are_counted_and_own_generations_are_not(
    tmp_path: Path,
) -> None:
    """Own generations are there: a folder without one is refused."""
    own = tmp_path / "run/generations/0002"
    (own / "dedup").mkdir(parents=True)
    named = [None, "old0", "old1", "old1", "own0", "own1"]
    pq.write_table(pa.table({"kept_run": named}), own / "dedup/removed.parquet")
    old = [tmp_path / f"old{n}" for n in range(2)]
    for number, folder in enumerate(old):
        write_run(folder, f"old{number}")
    assert list(absent_witnesses(own, grown_against(), generation=2)) == []
    assert list(absent_witnesses(own, grown_against(*old), generation=2)) == []
    write_run(old[1], "made anew")
    (said,) = absent_witnesses(own, grown_against(*old), generation=2)
    assert "2 removed documents name a kept document of the earlier run old1 (kept_run)" in said
    assert f"which is not at {old[1]} any more" in said
    (old[0] / "run.json").unlink()
    gone = list(absent_witnesses(own, grown_against(*old), generation=2))
    assert gone[1:] == [said]
    assert "1 removed documents name a kept document of the earlier run old0" in gone[0]
