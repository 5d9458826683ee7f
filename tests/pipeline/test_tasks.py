"""What a worker promises of a task: its own files and no others, each with its digest."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from pipeline.engine.tasks import Task, Worker, Workspace
from pipeline.state.publishing import COMMIT_FILE
from pipeline.state.worker_place import FolderPlace
from stages.config import Config
from stages.store.digests import digest_file


class Given(Config):
    """What a task was given."""

    payload: int


def write_two(work: Workspace, payload: int) -> Given:
    """Write two files, and one that is gone before the task ends."""
    work.create("a/first").write_text(f"first of {payload}")
    work.create("second").write_text(f"second of {payload}")
    with work.scratch() as folder:
        (folder / "passing").write_text("not to be committed")
    return Given(payload=payload)


def test_a_task_leaves_the_files_that_it_wrote_with_their_digests(tmp_path: Path) -> None:
    outcome = Worker(FolderPlace(tmp_path, tmp_path / "tmp/attempt")).run(
        Task("s", "u", write_two, 7, "f")
    )
    assert outcome.folder == tmp_path / "tmp" / "attempt" / "driver" / "s" / "u"
    assert outcome.record == {"payload": 7}
    assert sorted(outcome.files) == ["a/first", "second"]
    for key, digest in outcome.files.items():
        assert digest_file(outcome.folder / key) == digest


def test_what_an_attempt_that_died_left_behind_is_no_part_of_the_next(tmp_path: Path) -> None:
    left = tmp_path / "tmp" / "attempt" / "driver" / "s" / "u" / ".scratch" / "half"
    left.parent.mkdir(parents=True)
    left.write_text("half")
    left.parent.with_name("stranger").write_text("of another payload")
    outcome = Worker(FolderPlace(tmp_path, tmp_path / "tmp/attempt")).run(
        Task("s", "u", write_two, 7, "f")
    )
    assert sorted(outcome.files) == ["a/first", "second"]
    held = {path.name for path in outcome.folder.rglob("*") if path.is_file()}
    assert held == {"first", "second", COMMIT_FILE}


def test_a_folder_of_its_own_that_cannot_be_listed_ends_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scandir = os.scandir

    def refused(path: Any) -> Any:
        if str(path).endswith("/a"):
            raise PermissionError(errno.EACCES, "refused", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(PermissionError):  # and not a commit without a/first
        Worker(FolderPlace(tmp_path, tmp_path / "tmp/attempt")).run(Task("s", "u", write_two, 7, "f"))


def test_scratch_files_are_gone_after_a_failure_too(tmp_path: Path) -> None:
    work = Workspace(tmp_path, tmp_path / "own")
    work.folder.mkdir()

    def fail() -> None:
        with work.scratch() as folder:
            (folder / "x").write_text("x")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert list(work.folder.iterdir()) == []
