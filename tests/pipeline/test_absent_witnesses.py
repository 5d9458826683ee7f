"""A finished run stays valid without an earlier run that it names; `verify` counts what it misses."""

import shutil
from pathlib import Path

import pytest

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
