"""What is promised of things in a run's folders that are none of its files: named, never removed."""

import shutil
from pathlib import Path

import pytest

from pipeline.session.damage import links, no_commits, stray_files
from pipeline.session.session import known_steps
from pipeline.state.commits import Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.run_folder import RunFolder
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


def test_data_that_no_commit_names_is_named_and_left(own: Path, small_corpus: Path) -> None:
    found = list(stray_files(own, Commits(LocalStorage(own))))
    assert found
    assert all("00077" in key.split("/") for key in found)
    before = digests(own)
    run_small(small_corpus, own, replace=True)
    assert digests(own) == before


def test_nothing_is_called_a_stray_while_a_commit_is_missing(own: Path) -> None:
    next((own / "commits" / "tokenize").glob("[!_]*.json")).unlink()
    assert list(stray_files(own, Commits(LocalStorage(own)))) == []


def test_links_are_named_wherever_they_lead(own: Path, tmp_path: Path) -> None:
    assert list(links(own)) == []
    (own / "tokens" / "more").symlink_to(own / "split")
    (own / "split" / "s.npy").symlink_to("/etc/hostname")
    (own / "ingest" / "z.parquet").symlink_to(tmp_path / "nothing")
    (own / "work").rename(tmp_path / "work")
    (own / "work").symlink_to(tmp_path / "work")
    assert list(links(own)) == ["work", "ingest/z.parquet", "split/s.npy", "tokens/more"]


def test_what_lies_among_the_commits_and_is_none_is_named_and_stops_nothing(
    own: Path, small_corpus: Path
) -> None:
    commits = own / "commits"
    shutil.copytree(commits / "ingest", commits / "ingest (copy)")
    (commits / "my notes.txt").write_text("mine")
    for copy in ("_step.json~", "_step.json.bak", "_step.bak.json"):
        shutil.copy(commits / "ingest" / "_step.json", commits / "ingest" / copy)
    before = digests(own)
    run_small(small_corpus, own)
    assert digests(own) == before
    assert set(no_commits(own, Commits(LocalStorage(own)))) == {
        "commits/ingest (copy)",
        "commits/my notes.txt",
        "commits/ingest/_step.json.bak",
        "commits/ingest/_step.json~",
        "commits/ingest/_step.bak.json",
    }


def test_the_steps_of_a_run_are_known_from_its_first_scan_on(
    reference: Path, small_corpus: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="holds no run"):
        known_steps(tmp_path)
    run_small(small_corpus, tmp_path, until="scan")
    (tmp_path / "run.json").unlink()  # a kill before it was written
    assert known_steps(tmp_path) == ["scan"]
    assert known_steps(reference) == list(RunFolder(reference).plan.steps)


def test_a_damaged_commit_is_refused_with_one_way_out(own: Path, small_corpus: Path) -> None:
    (own / "commits" / "split" / "_step.json").write_text("{")
    with pytest.raises(DataError) as caught:
        run_small(small_corpus, own)
    assert str(caught.value).count("run again with --replace") == 1
    assert str(caught.value).startswith(f"{own}/commits/split/_step.json: is not whole JSON")
