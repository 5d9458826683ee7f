"""Which generations a folder holds, and of which files, also where one of them is not finished."""

import json
import shutil
from pathlib import Path

import pytest

from pipeline.planning.generations import generations_of, number_of
from stages.errors import ConfigError, FormatError


def write_plan(folder: Path, files: str, **said: object) -> None:
    """Write the run.json of a run over some files of source s that has committed nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"files": {f"s/{name}": "0" for name in files}}
    steps = {"ingest": {"fingerprint": "f", "inputs": [], "config": config}}
    (folder / "run.json").write_text(json.dumps({"run": {}, "steps": steps, **said}))


def found(output: Path, files: str) -> dict[str, str]:
    """Return the files of each generation by its folder."""
    every = {f"s/{name}" for name in files}
    return {
        one.folder.name: "".join(sorted(key.removeprefix("s/") for key in one.files))
        for one in generations_of(output, every)
    }


@pytest.mark.parametrize(
    ("folder", "number"),
    [
        ("out/generations/0004", 4),
        ("out/generations/0012", 12),
        ("out/0004", 0),
        ("out/generations/newest", 0),
        ("generations", 0),
    ],
)
def test_a_generation_has_the_number_of_its_folder(folder: str, number: int) -> None:
    assert number_of(Path(folder)) == number


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


@pytest.mark.parametrize("name", ["copy", "1", "00001", "0000", "0001.old", "0002x"])
def test_what_is_no_generation_is_refused_by_name(name: str, tmp_path: Path) -> None:
    write_plan(tmp_path / "run", "a")
    write_plan(tmp_path / "run/generations" / name, "b")
    with pytest.raises(FormatError, match=rf"generations/{name}: is no generation"):
        found(tmp_path / "run", "ab")


@pytest.mark.parametrize("name", [".nfs01", ".DS_Store", "lost+found"])
def test_what_the_system_puts_there_is_passed_over(name: str, tmp_path: Path) -> None:
    write_plan(tmp_path / "run", "a")
    (tmp_path / "run/generations" / name).mkdir(parents=True)
    assert found(tmp_path / "run", "ab") == {"run": "ab"}


@pytest.mark.parametrize("missing", [1, 2])
def test_a_generation_that_is_missing_before_others_is_refused_by_number(
    missing: int, tmp_path: Path
) -> None:
    write_plan(tmp_path / "run", "a")
    for number in {1, 2, 3} - {missing}:
        write_plan(tmp_path / f"run/generations/{number:04d}", "bcd"[number - 1])
    with pytest.raises(
        FormatError, match=rf"generation 000{missing} is missing.*\(000{missing} to 0003 among"
    ):
        found(tmp_path / "run", "abcd")


@pytest.mark.parametrize("there", ["nothing", "a file", "a folder", "an attempt", "a scan"])
def test_only_a_last_generation_may_be_empty(there: str, tmp_path: Path) -> None:
    write_plan(tmp_path / "run", "a")
    write_plan(tmp_path / "run/generations/0002", "c")
    place = tmp_path / "run/generations/0001"
    if there == "a file":
        place.write_text("")
    elif there != "nothing":
        (place / {"an attempt": "tmp", "a scan": "commits/scan"}.get(there, "")).mkdir(parents=True)
    with pytest.raises(FormatError, match=r"generations/0001: generation 0001"):
        found(tmp_path / "run", "abc")
    shutil.rmtree(tmp_path / "run/generations/0002")
    if there == "a file":
        with pytest.raises(FormatError, match=r"0001 is no folder.*\(0001 among them\)"):
            found(tmp_path / "run", "abc")
    else:
        assert found(tmp_path / "run", "ab") == {"run": "ab"}


def test_a_last_generation_that_lost_what_it_kept_of_itself_is_no_empty_one(tmp_path: Path) -> None:
    """Its files would be read again, as those of a new generation in its folder."""
    write_plan(tmp_path / "run", "a")
    (tmp_path / "run/generations/0001/commits/scan").mkdir(parents=True)
    (tmp_path / "run/generations/0001/commits/ingest").mkdir()
    with pytest.raises(
        FormatError, match=r"generation 0001 holds no run \(no run.json\).*Put the folder"
    ):
        found(tmp_path / "run", "ab")


@pytest.mark.parametrize("number", [1, 3])
def test_a_generation_that_says_it_had_another_number_is_refused(number: int, tmp_path: Path) -> None:
    """Also where no deduplication and no digest says what it was decided against."""
    write_plan(tmp_path / "run", "a")
    write_plan(tmp_path / "run/generations/0001", "b", generation=1)
    write_plan(tmp_path / "run/generations/0002", "c", generation=number)
    with pytest.raises(FormatError, match="generation 0002 was made after other generations"):
        found(tmp_path / "run", "abc")
    write_plan(tmp_path / "run/generations/0002", "c", generation=2)
    assert found(tmp_path / "run", "abc") == {"run": "a", "0001": "b", "0002": "c"}
