"""What is found where a task of a finished step is done again."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.engine.tasks import Workspace
from pipeline.steps.again.choice import chosen_tasks
from pipeline.steps.again.redo import RepeatedTask, redo
from pipeline.steps.dedup.step import DEDUP
from pipeline.steps.records import CheckRecord
from stages.errors import ConfigError, DataError
from stages.store.digests import FileDigest
from tests.material.file_damages import Undo
from tests.pipeline.test_made_again import followed, job_of

pytestmark = pytest.mark.slow


@pytest.fixture
def run(signed_run: Path) -> Path:
    """The run."""
    return signed_run


@pytest.fixture
def undo(run: Path) -> Any:
    """Take back what a test changes."""
    kept = Undo(run)
    yield kept
    kept.undo()


@pytest.fixture
def done(run: Path) -> RepeatedTask:
    """A task that hashed candidates, to be done again."""
    (dedup,) = followed(run, DEDUP)
    (one,) = [one for one in dedup.followed.tasks if one.task.unit.startswith("shingles-")]
    return RepeatedTask(one.task, one.commit.files, one.commit.record)


def raising(error: Exception) -> Any:
    """Return what a task does if it raises."""

    def function(*_: Any) -> Any:
        raise error

    return function


@pytest.mark.parametrize(
    ("error", "outside", "found"),
    [
        (DataError("it does not fit"), False, 1),
        (KeyError("x"), False, 1),
        (ConfigError("a limit"), False, 1),
        (DataError("it does not fit"), True, 0),
        (FileNotFoundError(2, "gone"), True, 0),
    ],
)
def test_a_task_that_cannot_be_done_again_is_a_finding_unless_it_reads_other_files(
    run: Path, done: RepeatedTask, tmp_path: Path, error: Exception, *, outside: bool, found: int
) -> None:
    task = replace(done.task, function=raising(error))
    again = redo(Workspace(run, tmp_path), replace(done, task=task, outside=outside))
    assert len(again.findings) == found
    assert all(one.file == done.place for one in again.findings)


def test_a_disk_that_fails_while_a_task_is_done_again_is_no_finding(
    run: Path, done: RepeatedTask, tmp_path: Path
) -> None:
    task = replace(done.task, function=raising(OSError(5, "Input/output error")))
    with pytest.raises(OSError, match="Input/output"):
        redo(Workspace(run, tmp_path), replace(done, task=task))


def test_files_that_are_more_or_fewer_than_made_again_are_findings(
    run: Path, done: RepeatedTask, tmp_path: Path
) -> None:
    first, *others = done.files
    fewer = {first: done.files[first]}
    (found,) = redo(Workspace(run, tmp_path), replace(done, files=fewer)).findings
    assert (found.file, "is not named by" in found.message) == (others[0], True)
    more = {**done.files, "dedup/shingles/00000/more.npy": done.files[first]}
    (found,) = redo(Workspace(run, tmp_path), replace(done, files=more)).findings
    assert found.file == "dedup/shingles/00000/more.npy"
    assert "does not make it" in found.message
    gone = FileDigest(bytes=1, xxh3="0" * 32, sha256="0" * 64)
    own = run.parent / "elsewhere"
    (own / "dedup/shingles/00000").mkdir(parents=True, exist_ok=True)
    (own / first).write_bytes(b"no array")
    again = redo_at(own, run, done, tmp_path, {**done.files, first: gone})
    assert [one.file for one in again.findings] == [first]


def redo_at(
    own: Path, run: Path, done: RepeatedTask, folder: Path, files: dict[str, FileDigest]
) -> CheckRecord:
    """Do a task again from a run, and compare with files that lie elsewhere."""
    function = done.task.function

    def work(workspace: Workspace, payload: Any) -> Any:
        return function(Workspace(run, workspace.folder, workspace.cache), payload)

    task = replace(done.task, function=work)
    return redo(Workspace(own, folder), replace(done, task=task, files=files))


def test_what_people_are_warned_of_may_hang_on_a_setting_of_today(
    run: Path, done: RepeatedTask, tmp_path: Path
) -> None:
    other = replace(done, record={**done.record, "warnings": ["a tolerance was passed"]})
    assert redo(Workspace(run, tmp_path), other).findings == ()


def test_a_number_of_keys_is_a_setting_of_the_run_that_began(run: Path) -> None:
    job = job_of(run)
    resources = job.file.resources.model_copy(update={"keys_per_partition": 1 << 20})
    file = job.file.model_copy(update={"resources": resources})
    (one,) = followed(run, DEDUP, file=file)
    assert one.followed.findings == ()
    functions = {done.task.function.__name__ for done in chosen_tasks(one, run, documents=82).tasks}
    assert "note_partitions" not in functions


def test_a_number_of_another_rule_is_left_out_of_the_records_of_that_time_alone(
    run: Path, done: RepeatedTask, tmp_path: Path
) -> None:
    record = {**done.record, "candidates": 1}
    now = replace(done, record=record, otherwise=frozenset(["candidates"]))
    assert len(redo(Workspace(run, tmp_path), now).findings) == 1
    record.pop("shingles")
    assert redo(Workspace(run, tmp_path), replace(now, record=record)).findings == ()
    assert (
        len(redo(Workspace(run, tmp_path), replace(now, record=record, otherwise=frozenset())).findings)
        == 1
    )
