"""What benchmarks/digests.py promises: equal artifacts, equal digests; every difference is named."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from digests import ARTIFACTS, combined, differences, file_digests, summary

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "digests.py"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A folder that looks like a run's."""
    for number, name in enumerate([*ARTIFACTS, "report"]):
        (tmp_path / "run" / name / "deep").mkdir(parents=True)
        (tmp_path / "run" / name / "deep" / "file").write_bytes(bytes([number]))
    return tmp_path / "run"


def compare(*runs: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, runs)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_copy_has_the_same_digests_and_a_report_counts_for_nothing(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "copy")
    (tmp_path / "copy" / "report" / "deep" / "file").write_bytes(b"other")
    assert summary(run)["sha256"] == summary(tmp_path / "copy")["sha256"]
    assert summary(run)["files"] == len(ARTIFACTS)
    done = compare(run, tmp_path / "copy")
    assert done.returncode == 0, done.stderr
    assert "5 and 5 files, 0 differ" in done.stdout


@pytest.mark.parametrize("folder", ARTIFACTS)
def test_a_changed_byte_changes_its_folder_and_the_total_alone(run: Path, folder: str) -> None:
    before = summary(run)
    (run / folder / "deep" / "file").write_bytes(b"other")
    after = summary(run)
    changed = [name for name in ARTIFACTS if before["folders"][name] != after["folders"][name]]
    assert changed == [folder]
    assert before["sha256"] != after["sha256"]


def test_a_renamed_file_changes_the_digest(run: Path) -> None:
    before = combined(file_digests(run))
    (run / "tokens" / "deep" / "file").rename(run / "tokens" / "deep" / "elif")
    assert combined(file_digests(run)) != before


def test_differences_are_named_from_both_sides(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(run, other)
    (run / "tokens" / "more").write_bytes(b"")
    (other / "dedup" / "more").write_bytes(b"")
    (other / "split" / "deep" / "file").write_bytes(b"other")
    names = ["dedup/more", "split/deep/file", "tokens/more"]
    assert differences(file_digests(run), file_digests(other)) == names
    done = compare(run, other)
    assert done.returncode == 1
    assert [line.split(":")[0] for line in done.stdout.splitlines()[:-1]] == names


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    done = compare(tmp_path)
    assert done.returncode == 2
    assert "holds no artifact" in done.stderr
