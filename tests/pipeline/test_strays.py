"""What is promised of data that no commit names: a run with --replace removes it, and nothing else."""

import shutil
from pathlib import Path

import pytest

from pipeline.commits import Commits
from pipeline.session import known_steps, read_plan
from pipeline.storage import LocalStorage
from pipeline.strays import linked_folders, stray_files
from stages.errors import ConfigError, DataError
from tests.conftest import digests, run_small


@pytest.fixture
def own(reference: Path, tmp_path: Path) -> Path:
    """A copy of a run, with the data of a shard that no commit names and a reader's note."""
    run = Path(shutil.copytree(reference, tmp_path / "run"))
    shard = run / "datasets/clm/train/epoch-0000/00000"
    shutil.copytree(shard, shard.with_name("00077"))
    (shard / "NOTES.md").write_text("mine")
    return run


def test_a_run_with_replace_removes_what_no_commit_names(
    reference: Path, own: Path, small_corpus: Path
) -> None:
    found = list(stray_files(own, Commits(LocalStorage(own))))
    assert found
    assert all("00077" in key.split("/") for key in found)
    run_small(small_corpus, own)
    assert list(stray_files(own, Commits(LocalStorage(own)))) == found, "asked for by --replace alone"
    run_small(small_corpus, own, replace=True)
    assert list(stray_files(own, Commits(LocalStorage(own)))) == []
    notes = own / "datasets/clm/train/epoch-0000/00000/NOTES.md"
    assert notes.read_text() == "mine"
    notes.unlink()
    assert digests(own) == digests(reference)


def test_nothing_is_removed_while_a_commit_cannot_be_read(own: Path, small_corpus: Path) -> None:
    other = own / "commits" / "shard-other"
    other.mkdir()
    (other / "u.json").write_text("{")
    before = digests(own)
    run_small(small_corpus, own, replace=True)
    assert digests(own) == before


def test_links_to_folders_are_named(own: Path) -> None:
    assert list(linked_folders(own)) == []
    (own / "tokens" / "more").symlink_to(own / "split")
    assert list(linked_folders(own)) == ["tokens/more"]


def test_the_steps_of_a_run_are_known_from_its_first_scan_on(
    reference: Path, small_corpus: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="holds no run"):
        known_steps(tmp_path)
    run_small(small_corpus, tmp_path, until="scan")
    (tmp_path / "run.json").unlink()  # a kill before it was written
    assert known_steps(tmp_path) == ["scan"]
    assert known_steps(reference) == ["scan", *read_plan(reference)["steps"]]


def test_a_damaged_commit_is_refused_with_one_way_out(own: Path, small_corpus: Path) -> None:
    (own / "commits" / "split" / "_step.json").write_text("{")
    with pytest.raises(DataError) as caught:
        run_small(small_corpus, own)
    assert str(caught.value).count("run again with --replace") == 1
    assert str(caught.value).startswith(f"{own}/commits/split/_step.json: is not whole JSON")
