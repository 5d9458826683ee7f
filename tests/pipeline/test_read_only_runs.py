"""What `verify` promises of a run that can only be read: the same verdict, and nothing written there."""

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pipeline import cli
from pipeline.session.verifying import verify_session
from pipeline.state.read_only import can_write, own_folder
from stages.errors import ConfigError, ShardmillError, Stopped
from tests.campaign import some_of
from tests.conftest import run_small
from tests.pipeline.few_texts import FEW


@pytest.fixture(scope="module")
def written(few_texts: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A finished run, and the verdict on it where it can be written to."""
    output = tmp_path_factory.mktemp("made") / "run"
    run_small(few_texts, output, **FEW)
    return output, verify_session(output, workers=0, address=None, stream=None)


@pytest.fixture(scope="module")
def made(written: tuple[Path, Any]) -> Path:
    """A finished and verified run."""
    return written[0]


@pytest.fixture
def read_only(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of it that the system says cannot be written to, and in which nothing may change."""
    output = tmp_path / "run"
    shutil.copytree(made, output)
    access = os.access
    monkeypatch.setattr(
        os,
        "access",
        lambda path, mode, **more: Path(path) != output and access(path, mode, **more),
    )
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield output
    assert not list(tmp_path.glob("shardmill-verify-*")), "the session's folder goes"


def content_of(output: Path) -> dict[str, tuple[int, int, int]]:
    """Return what would show that anything was written: inode, time and size of each file and folder."""
    return {
        str(path): (found.st_ino, found.st_mtime_ns, found.st_size)
        for path in (output, *output.rglob("*"))
        for found in (path.stat(),)
    }


def without_times(report: Any) -> Any:
    """Return what a verdict is of."""
    return {
        name: report[name] for name in ("passed", "audit", "ledger", "datasets", "verify", "evidence")
    }


@pytest.mark.slow
@pytest.mark.parametrize("workers", some_of([2, 0], 1))
def test_the_verdict_is_that_of_a_folder_that_can_be_written(
    read_only: Path, written: tuple[Path, Any], workers: int, request: pytest.FixtureRequest
) -> None:
    if workers:
        request.getfixturevalue("ray_session")
    before = content_of(read_only)
    with (read_only / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)  # another one that verifies
        report: Any = verify_session(read_only, workers=workers, address=None, stream=None)
    assert report["passed"] is True
    assert report["written"] is False
    assert content_of(read_only) == before
    assert without_times(report) == without_times(written[1])
    assert "written" not in written[1]


def test_damage_is_found_and_the_old_verdict_stays(read_only: Path) -> None:
    ids = next((read_only / "datasets").rglob("input_ids.npy"))
    data = bytearray(ids.read_bytes())
    data[-1] ^= 1
    ids.write_bytes(data)
    (read_only / "commits" / "decode").rename(read_only.parent / "decode")
    (read_only / "commits" / "decode").symlink_to(read_only.parent / "decode")
    (read_only / "lock").unlink()
    before = content_of(read_only)
    report: Any = verify_session(read_only, workers=0, address=None, stream=None)
    assert report["passed"] is False
    assert {finding["check"] for finding in report["verify"]["clm"]["findings"]} & {
        "tokens",
        "digest",
        "files",
    }
    linked = [one["file"] for one in report["audit"]["findings"]]
    assert "commits/decode" in linked
    assert content_of(read_only) == before


def test_an_error_on_the_way_leaves_the_folder_as_it_was(read_only: Path) -> None:
    record = read_only / "commits" / "tokenize" / "_step.json"
    record.unlink()
    before = content_of(read_only)
    with pytest.raises(ShardmillError):
        verify_session(read_only, workers=0, address=None, stream=None)
    assert content_of(read_only) == before


def test_a_run_at_work_in_the_folder_is_told(read_only: Path) -> None:
    with (read_only / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Stopped, match="in use by process"):
            verify_session(read_only, workers=0, address=None, stream=None)


def test_a_run_is_told_that_somebody_verifies(made: Path) -> None:
    with (made / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        with pytest.raises(Stopped, match="shardmill verify reads it in another process"):
            verify_session(made, workers=0, address=None, stream=None)


@pytest.mark.parametrize("name", ["lock", "log.jsonl", "commits", "commits/decode", "report"])
def test_one_place_that_cannot_be_written_is_enough(
    made: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert can_write(made)
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != made / name and access(path, mode))
    assert not can_write(made)
    with own_folder(made) as own:
        assert own is not None, "a session writes there"


def test_nodes_that_could_not_write_are_refused(read_only: Path) -> None:
    with pytest.raises(ConfigError, match="can only be read, and the nodes of --address"):
        verify_session(read_only, workers=2, address="auto", stream=None)


@contextmanager
def mounted_read_only(folder: Path, place: Path) -> Iterator[None]:
    """Show a folder at another place, where nobody can write; skip the test if this user may not."""
    place.mkdir()
    mount = "/bin/mount"
    if subprocess.run([mount, "--bind", folder, place], capture_output=True, check=False).returncode:
        pytest.skip("this user may mount nothing")
    try:
        again = [mount, "-o", "remount,ro,bind", str(place)]
        if subprocess.run(again, capture_output=True, check=False).returncode:
            pytest.skip("this user may not mount for reading alone")
        yield
    finally:
        # Lazily, since files that commands have mapped are let go when Python collects them.
        subprocess.run(["/bin/umount", "--lazy", str(place)], check=True)


def test_the_command_gives_the_verdict_on_a_file_system_that_is_mounted_read_only(
    made: Path, tmp_path: Path
) -> None:
    place, to = tmp_path / "mounted", tmp_path / "exported"
    before = content_of(made)
    with mounted_read_only(made, place):
        with pytest.raises(OSError, match="Read-only file system"):
            (place / "new").touch()
        done = CliRunner().invoke(cli.app, ["verify", str(place), "--workers", "0"])
        assert done.exit_code == 0, done.output
        assert "verify clm: PASS" in done.output
        assert f"{place} can only be read: not kept" in done.output
        for command in (["status"], ["inspect", "--clusters"], ["inspect", "--dataset", "clm"]):
            done = CliRunner().invoke(cli.app, [command[0], str(place), *command[1:], "--json"])
            assert done.exit_code == 0, done.output
            assert json.loads(done.stdout)
        done = CliRunner().invoke(
            cli.app, ["export", str(place), "--dataset", "clm", "--format", "nanogpt", "--to", str(to)]
        )
        assert done.exit_code == 0, done.output
    assert content_of(made) == before
