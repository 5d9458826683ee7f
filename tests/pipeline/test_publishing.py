"""What publishing promises: files get their keys without replacing any, and what was in vain goes."""

import os
from pathlib import Path

import pytest

from pipeline.engine.tasks import Task, Worker, Workspace
from pipeline.state.attempts import sweep, withdraw
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.publishing import Outcome
from pipeline.state.storage import LocalStorage
from pipeline.state.worker_place import FolderPlace
from stages.config import Config

ATTEMPT = "0123456789ab"
KEY = "data/u.bin"


class Written(Config):
    """What a unit reports."""

    size: int


def write_bytes(work: Workspace, payload: bytes) -> Written:
    """Write a file."""
    work.create(KEY).write_bytes(payload)
    return Written(size=len(payload))


def do(root: Path, name: str, payload: bytes = b"new") -> Outcome:
    """Have a worker make the unit."""
    worker = Worker(FolderPlace(root, root / "tmp" / ATTEMPT), name)
    return worker.run(Task("step", "u", write_bytes, payload, "f"))


def test_a_worker_leaves_its_file_under_its_key_and_the_commit_names_it(tmp_path: Path) -> None:
    outcome = do(tmp_path, "a")
    assert (tmp_path / KEY).read_bytes() == b"new"
    commits = Commits(LocalStorage(tmp_path))
    made = commits.put("step", "u", "f", outcome)
    assert Commits(LocalStorage(tmp_path)).get("step", "u", "f") == made


def test_a_committed_file_is_no_other_workers_so_that_a_sweep_leaves_it(tmp_path: Path) -> None:
    late = Worker(FolderPlace(tmp_path, tmp_path / "tmp" / "ba9876543210"), "late")
    late.run(Task("step", "of an earlier plan", write_bytes, b"new", "f"))
    outcome = do(tmp_path, "b")
    assert outcome.published.taken == (KEY,)
    Commits(LocalStorage(tmp_path)).put("step", "u", "f", outcome)
    sweep(tmp_path)
    assert (tmp_path / KEY).read_bytes() == b"new"


@pytest.mark.parametrize("kind", ["others", "link", "same size", "same"])
def test_what_else_lies_there_is_replaced_by_the_driver_alone(kind: str, tmp_path: Path) -> None:
    place = tmp_path / KEY
    place.parent.mkdir()
    if kind == "link":
        (tmp_path / "mine").write_bytes(b"new")
        place.symlink_to(tmp_path / "mine")
    else:
        place.write_bytes({"others": b"of an earlier plan", "same size": b"old", "same": b"new"}[kind])
    before = place.read_bytes()
    outcome = do(tmp_path, "a")
    assert outcome.published.taken == (KEY,)
    assert place.read_bytes() == before
    Commits(LocalStorage(tmp_path)).put("step", "u", "f", outcome)
    assert place.read_bytes() == b"new"
    assert not place.is_symlink()


def test_a_link_that_its_server_made_twice_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def asked_twice(written: str, target: str) -> None:
        link(written, target)
        link(written, target)

    monkeypatch.setattr(os, "link", asked_twice)
    outcome = do(tmp_path, "a")
    assert outcome.published.taken == ()
    commits = Commits(LocalStorage(tmp_path))
    made = commits.put("step", "u", "f", outcome)
    commits.put("step", STEP_COMMIT, "f", Outcome(tmp_path, {}))
    assert Commits(LocalStorage(tmp_path)).get("step", "u", "f") == made


def test_a_file_where_the_commits_belong_is_named(tmp_path: Path) -> None:
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "step").write_bytes(b"mine")
    with pytest.raises(FileExistsError, match="commits/step"):
        Commits(LocalStorage(tmp_path)).put("step", "u", "f", do(tmp_path, "a"))


def test_a_worker_out_of_reach_touches_nothing_of_the_one_that_does_its_task_again(
    tmp_path: Path,
) -> None:
    lost = do(tmp_path, "lost")
    withdraw(tmp_path, [tmp_path / "tmp" / ATTEMPT / "lost"])
    assert not (tmp_path / KEY).exists()
    outcome = do(tmp_path, "b")
    lost.folder.mkdir(parents=True)  # it wakes, and goes on with its unit
    (lost.folder / "half").write_bytes(b"half")
    Commits(LocalStorage(tmp_path)).put("step", "u", "f", outcome)
    sweep(tmp_path)
    assert (tmp_path / KEY).read_bytes() == b"new"
    assert list((tmp_path / "tmp").iterdir()) == []


def test_what_a_killed_session_published_in_vain_goes_and_nothing_else(tmp_path: Path) -> None:
    Commits(LocalStorage(tmp_path)).put("step", "u", "f", do(tmp_path, "a"))
    worker = Worker(FolderPlace(tmp_path, tmp_path / "tmp" / ATTEMPT), "b")
    worker.run(Task("step", "v", write_other, None, "f"))
    (tmp_path / "data" / "mine.bin").write_bytes(b"mine")
    assert (tmp_path / "data" / "v.bin").exists()
    sweep(tmp_path)
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["mine.bin", "u.bin"]
    assert list((tmp_path / "tmp").iterdir()) == []


def write_other(work: Workspace, payload: None) -> Written:
    """Write a file of another name."""
    del payload
    work.create("data/v.bin").write_bytes(b"other")
    return Written(size=5)


def test_a_worker_removes_the_folders_of_units_that_were_committed_even_if_they_were_released(
    tmp_path: Path,
) -> None:
    worker = Worker(FolderPlace(tmp_path, tmp_path / "tmp" / ATTEMPT), "a")
    commits = Commits(LocalStorage(tmp_path))
    released = worker.run(Task("step", "u", write_bytes, b"new", "f"))
    commits.put("step", "u", "f", released)
    commits.release("step", ("u",))
    committed = worker.run(Task("step", "v", write_other, None, "f"))
    commits.put("step", "v", "f", committed)
    uncommitted = worker.run(Task("step", "w", write_bytes, b"new", "f"))
    worker.tidy([("step", "u"), ("step", "v")])
    assert not released.folder.exists()
    assert not committed.folder.exists()
    assert uncommitted.folder.exists()
