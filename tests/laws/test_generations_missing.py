"""Generations that are taken away: every folder from which one is missing before the last is refused.

What a generation removed as a copy may stand in an earlier one alone. A folder without its last
generations is the run before it grew, and is accepted. All but the last one are of an earlier version
of the program: they stay done.
"""

import json
import shutil
import subprocess
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest

import shardmill
from stages.errors import FormatError
from tests.called import called
from tests.campaign import FULL, some_of
from tests.unpacked_runs import generation_of as place
from tests.unpacked_runs import unpack_run

NUMBERS = (1, 2, 3)
SUBSETS = [set(some) for size in (1, 2, 3) for some in combinations(NUMBERS, size)]
TAILS = [{2, 3}, {1, 2, 3}, {3}]
COMMANDS: dict[str, tuple[str, ...]] = {
    "plan": ("plan", "run.toml", "--output", "out", "--json"),
    "run": ("run", "run.toml", "--output", "out", "--workers", "0"),
    "verify": ("verify", "out", "--workers", "0", "--json"),
    "status": ("status", "out"),
    "inspect": ("inspect", "out", "--dataset", "clm"),
    "export": ("export", "out", "--dataset", "clm", "--format", "hf-parquet", "--to", "export"),
}


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three generations that 97f2755 made, and a fourth by this version."""
    folder = unpack_run("grown", tmp_path_factory.mktemp("grown"))
    shutil.copy(folder / "later" / "d3.jsonl", folder / "in")
    assert called(*COMMANDS["run"], cwd=folder).returncode == 0
    return folder


def answers(folder: Path) -> dict[str, subprocess.CompletedProcess[str]]:
    """Return what each command says of a folder."""
    return {name: called(*command, cwd=folder) for name, command in COMMANDS.items()}


def states(planned: subprocess.CompletedProcess[str]) -> set[str]:
    """Return the states of all steps that `plan` says, but for the index of the inputs."""
    return {one["state"] for one in json.loads(planned.stdout) if "scan" not in one["step"]}


def rows_of(folder: Path) -> dict[Path, bytes]:
    """Return the rows of a run and of all its generations."""
    found = {path: path.read_bytes() for path in (folder / "out").rglob("datasets/**/*.npy")}
    assert found
    return found


def assert_refused(folder: Path, number: int, *, loader: bool = True) -> None:
    """Hold every command and the loader to refusing a folder, naming a generation and the ways out."""
    for name, done in answers(folder).items():
        assert done.returncode == 2, (name, done.stdout, done.stderr)
        assert f"generation {number:04d} " in done.stderr, name
        assert "Put the folder back" in done.stderr
        assert "--replace" in done.stderr
    if loader:
        with pytest.raises(FormatError, match=f"generation {number:04d} "):
            shardmill.open_dataset(folder / "out" / "datasets" / "clm")


@pytest.mark.parametrize("gone", [some for some in SUBSETS if some not in TAILS], ids=str)
def test_a_folder_with_a_gap_is_refused_by_number(gone: set[int], copied: Path) -> None:
    for number in gone:
        shutil.rmtree(place(copied, number))
    assert_refused(copied, min(gone))


@pytest.mark.parametrize("gone", TAILS if FULL else TAILS[:2], ids=str)
def test_a_folder_without_its_last_generations_is_the_run_before_it_grew(
    gone: set[int], copied: Path
) -> None:
    for number in gone:
        shutil.rmtree(place(copied, number))
        (copied / "in" / f"d{number}.jsonl").unlink()
    before = rows_of(copied)
    said = answers(copied)
    for name, done in said.items():
        assert done.returncode == 0, (name, done.stderr)
    assert states(said["plan"]) == {"done"}, "what an earlier version made stays done"
    assert json.loads(said["verify"].stdout)["audit"]["missed"] == []
    assert rows_of(copied) == before
    path = copied / "out" / "datasets" / "clm"
    rows = shardmill.open_dataset(path)
    assert len(rows) == len(shardmill.open_dataset(path, generations=4 - len(gone)))


def swap(folder: Path, one: int, other: int) -> None:
    """Give two generations each other's number."""
    aside = folder / "aside"
    place(folder, one).rename(aside)
    place(folder, other).rename(place(folder, one))
    aside.rename(place(folder, other))


def repeat(folder: Path, one: int, other: int) -> None:
    """Put a copy of a generation in the place of another."""
    shutil.rmtree(place(folder, other))
    shutil.copytree(place(folder, one), place(folder, other))


def a_file(folder: Path, _: int, other: int) -> None:
    """Put a file in the place of a generation."""
    shutil.rmtree(place(folder, other))
    place(folder, other).write_text("not here\n", encoding="utf-8")


def an_empty_folder(folder: Path, _: int, other: int) -> None:
    """Put an empty folder in the place of a generation."""
    shutil.rmtree(place(folder, other))
    place(folder, other).mkdir()


CHANGES: list[tuple[Callable[[Path, int, int], None], int, int, int]] = [
    (swap, 1, 2, 1),
    (swap, 2, 3, 2),
    (swap, 1, 3, 1),
    *((repeat, one, other, other) for one in NUMBERS for other in NUMBERS if one != other),
    (a_file, 0, 1, 1),
    (a_file, 0, 2, 2),
    (an_empty_folder, 0, 1, 1),
    (an_empty_folder, 0, 2, 2),
]


@pytest.mark.parametrize(("change", "one", "other", "named"), some_of(CHANGES, 6))
def test_a_generation_in_the_place_of_another_is_refused_by_number(
    change: Callable[[Path, int, int], None], one: int, other: int, named: int, copied: Path
) -> None:
    change(copied, one, other)
    assert_refused(copied, named, loader=change in (a_file, an_empty_folder))


def test_a_generation_of_another_run_is_refused(copied: Path, tmp_path: Path) -> None:
    other = unpack_run("small_month", tmp_path)
    shutil.rmtree(place(copied, 1))
    shutil.copytree(place(other, 1), place(copied, 1))
    assert_refused(copied, 1, loader=False)


def test_replace_makes_one_run_of_a_folder_with_a_gap(copied: Path) -> None:
    shutil.rmtree(place(copied, 1))
    assert called(*COMMANDS["run"], "--replace", cwd=copied).returncode == 0
    assert not (copied / "out" / "generations").exists()
    assert states(called(*COMMANDS["plan"], cwd=copied)) == {"done"}, "all of it is in its place"
    assert len(shardmill.open_dataset(copied / "out" / "datasets" / "clm")) > 0


def test_one_generation_and_the_first_ones_open_without_the_others(copied: Path) -> None:
    shutil.rmtree(place(copied, 2))
    path = copied / "out" / "datasets" / "clm"
    assert len(shardmill.open_dataset(place(copied, 3) / "datasets" / "clm")) > 0
    first, two = (len(shardmill.open_dataset(path, generations=number)) for number in (1, 2))
    assert 0 < first < two
    with pytest.raises(FormatError, match="generation 0002 is missing"):
        shardmill.open_dataset(path, generations=3)
