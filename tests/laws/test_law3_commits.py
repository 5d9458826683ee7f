"""What law 3 promises: whatever kills a run, and whenever, running again gives the same bytes.

SHARDMILL_CAMPAIGN=full asks for ten kills of the whole process group instead of two.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from pipeline.session.session import RunRequest, run_session
from pipeline.state.commits import Commits, Outcome
from pipeline.state.journal import read_log
from pipeline.state.storage import LocalStorage
from stages.errors import DataError
from stages.store.digests import digest_file
from tests.conftest import digests, run_small, small_run

KILLS = 10 if os.environ.get("SHARDMILL_CAMPAIGN") == "full" else 2
PATIENCE = 120.0


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


def test_a_committed_file_that_was_cut_is_named_instead_of_used(
    small_corpus: Path, tmp_path: Path
) -> None:
    run_small(small_corpus, tmp_path / "run", until="ingest")
    victim = next((tmp_path / "run" / "ingest").rglob("documents.parquet"))
    victim.write_bytes(victim.read_bytes()[:-10])
    (tmp_path / "run" / "commits" / "ingest" / "_step.json").unlink()
    with pytest.raises(DataError, match=r"documents\.parquet: committed with .* --replace"):
        run_small(small_corpus, tmp_path / "run", until="ingest")


def test_running_again_does_nothing_and_keeps_every_byte(small_corpus: Path, reference: Path) -> None:
    before = digests(reference)
    count = sum(event["event"] == "dispatch" for event in read_log(reference))
    run_small(small_corpus, reference)
    assert digests(reference) == before
    assert sum(event["event"] == "dispatch" for event in read_log(reference)) == count > 0


def test_stopping_after_each_step_and_going_on_gives_the_same_bytes(
    small_corpus: Path, reference: Path, tmp_path: Path
) -> None:
    steps = ("ingest", "dedup", "tokenizer", "split", "tokenize", "shard")
    for step in steps:
        run_small(small_corpus, tmp_path / "run", until=step)
    assert digests(tmp_path / "run") == digests(reference)


def _start(corpus: Path, output: Path, log: Path) -> subprocess.Popen[bytes]:
    run_file = corpus.parent / f"{output.name}.json"
    run_file.write_text(small_run().model_dump_json())
    with log.open("ab") as stream:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.laws.test_law3_commits", run_file, corpus, output],
            cwd=Path(__file__).parents[2],
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )


def _wait_for_events(process: subprocess.Popen[bytes], output: Path, wanted: int) -> None:
    """Wait until the run's log has so many lines, or the run ends."""
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        log = output / "log.jsonl"
        if log.exists() and log.read_bytes().count(b"\n") >= wanted:
            return
        time.sleep(0.01)


def test_kill_9_of_the_process_group_at_random_moments_changes_no_byte(
    small_corpus: Path, reference: Path, tmp_path: Path
) -> None:
    output, log = tmp_path / "killed", tmp_path / "stderr"
    total = sum(1 for _ in read_log(reference))
    moments = random.Random(KILLS)  # noqa: S311  # which moments, not what bytes
    seen = 0
    for _ in range(KILLS):
        process = _start(small_corpus, output, log)
        seen += moments.randrange(1, max(2, total // (KILLS + 1)))
        _wait_for_events(process, output, seen)
        time.sleep(moments.random() / 4)
        assert process.poll() is None, f"finished before it was killed: {log.read_text()}"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)
        seen = (output / "log.jsonl").read_bytes().count(b"\n")
    process = _start(small_corpus, output, log)
    assert process.wait(PATIENCE) == 0, log.read_text()
    assert digests(output) == digests(reference)
    assert not list((output / "tmp").iterdir())
    events = list(read_log(output))
    commits = Counter((e["step"], e["unit"]) for e in events if e["event"] == "commit")
    assert len(commits) > 30
    assert max(commits.values()) == 1
    done: set[tuple[str, str]] = set()
    for event in events:
        if event["event"] == "dispatch":
            assert (event["step"], event["unit"]) not in done
        elif event["event"] == "commit":
            done.add((event["step"], event["unit"]))


def _main() -> None:
    """Do a small run in a process of its own, on its own Ray with two workers."""
    from pipeline.run_file.config import RunFile  # noqa: PLC0415  # the subprocess only

    run_file, corpus, output = map(Path, sys.argv[1:])
    file = RunFile.model_validate_json(run_file.read_text())
    run_session(RunRequest(file, corpus, output, workers=2, until="shard"), stream=None)


if __name__ == "__main__":
    _main()
