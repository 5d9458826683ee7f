"""What law 3 promises: whatever kills a run, and whenever, running again gives the same bytes.

A campaign asks for ten kills of the whole process group, with two workers at work, instead of one.
"""

import shutil
from pathlib import Path

import pytest

from pipeline.state.commits import Commits
from pipeline.state.journal import read_log
from pipeline.state.publishing import Outcome
from pipeline.state.storage import LocalStorage
from stages.errors import DataError
from stages.store.digests import digest_file
from tests.campaign import some_of
from tests.conftest import digests, run_small, small_run
from tests.laws.killed_runs import kill_again_and_again, require_each_done_once


class _PowerCutError(Exception):
    """Stands for the end of the process."""


class _CutStorage(LocalStorage):
    """Storage that ends the process before or after its n-th change."""

    def __init__(self, root: Path, cut_at: int) -> None:
        super().__init__(root)
        self.changes = 0
        self.cut_at = cut_at

    def _count(self) -> None:
        self.changes += 1
        if self.changes == self.cut_at:
            raise _PowerCutError

    def publish(self, temporary: Path, key: str) -> None:
        self._count()
        super().publish(temporary, key)
        self._count()

    def put_new(self, key: str, data: bytes) -> bool:
        self._count()
        made = super().put_new(key, data)
        self._count()
        return made


def _commit_two_units(storage: LocalStorage, folder: Path) -> None:
    """Do what a driver does for two units of two files each, skipping those that are committed."""
    commits = Commits(storage)
    for unit in ("a", "b"):
        if commits.get("step", unit, "f") is not None:
            continue
        files = {}
        for name in ("x", "y"):
            place = folder / "data" / f"{unit}-{name}"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(unit + name)
            files[f"data/{unit}-{name}"] = digest_file(place)
        commits.put("step", unit, "f", Outcome(folder, files, {"unit": unit}))


def test_a_cut_at_every_point_of_the_protocol_leaves_units_whole_or_absent(tmp_path: Path) -> None:
    whole = LocalStorage(tmp_path / "whole")
    _commit_two_units(whole, tmp_path / "scratch")
    expected = digests(tmp_path / "whole", "data", "commits")
    points = 0
    for cut_at in range(1, 100):
        root = tmp_path / f"cut-{cut_at}"
        storage = _CutStorage(root, cut_at)
        try:
            _commit_two_units(storage, tmp_path / "scratch")
        except _PowerCutError:
            points += 1
        else:
            break
        for _, commit in Commits(LocalStorage(root)).all("step"):
            assert all((root / key).exists() for key in commit.files)
        _commit_two_units(LocalStorage(root), tmp_path / "scratch")
        assert digests(root, "data", "commits") == expected
    assert points == 2 * (2 * 2 + 2)


def test_a_second_commit_of_a_unit_is_refused(tmp_path: Path) -> None:
    commits = Commits(LocalStorage(tmp_path))
    commits.put("step", "u", "f", Outcome(tmp_path, {}))
    with pytest.raises(DataError, match="another process committed step/u"):
        commits.put("step", "u", "f", Outcome(tmp_path, {}))


@pytest.fixture
def copied(reference: Path, tmp_path: Path) -> Path:
    """A finished run that a test may change."""
    return Path(shutil.copytree(reference, tmp_path / "run"))


def test_a_committed_file_that_was_cut_is_named_instead_of_used(
    small_corpus: Path, copied: Path
) -> None:
    victim = next((copied / "ingest").rglob("documents.parquet"))
    victim.write_bytes(victim.read_bytes()[:-10])
    (copied / "commits" / "ingest" / "_step.json").unlink()
    with pytest.raises(DataError, match=r"documents\.parquet: committed with .* --replace"):
        run_small(small_corpus, copied, until="ingest")


def test_running_again_does_nothing_and_keeps_every_byte(small_corpus: Path, copied: Path) -> None:
    before = digests(copied)
    count = sum(event["event"] == "dispatch" for event in read_log(copied))
    run_small(small_corpus, copied)
    assert digests(copied) == before
    assert sum(event["event"] == "dispatch" for event in read_log(copied)) == count > 0


def test_kill_9_of_the_process_group_and_a_stop_after_a_step_change_no_byte(
    small_corpus: Path, reference: Path, tmp_path: Path
) -> None:
    """Workers are killed at a random moment; a plain loop goes on, stopped after some of the steps."""
    output, total = tmp_path / "killed", sum(1 for _ in read_log(reference))
    kill_again_and_again(small_run(), small_corpus, output, until="shard", events=total)
    steps = ("ingest", "dedup", "tokenizer", "split", "tokenize")
    for step in (*some_of(steps, 2), "shard"):
        run_small(small_corpus, output, until=step)
    assert not list((output / "tmp").iterdir())
    assert digests(output) == digests(reference)
    require_each_done_once(list(read_log(output)), least=30)
