"""What the boundary promises: one line and the right exit code, whatever a command raises."""

import errno
import os
import sys
import tempfile
import types
from pathlib import Path

import pytest

from pipeline.commands.boundary import exit_code_of
from pipeline.system.disk_faults import LASTING, PASSING, disk_faults, explained, making, named
from pipeline.system.stopping import Signals
from stages.errors import (
    ChangedInputError,
    ConfigError,
    DataError,
    FormatError,
    Interrupted,
    NoRightError,
    ShardmillError,
    Stopped,
    TooFewLabelsError,
    VerificationError,
    VocabularySizeError,
    is_of_the_system,
)


def of_library(name: str, kind: str, *bases: type[Exception]) -> type[Exception]:
    """Return an exception as a library would define it that is not imported here."""
    return types.new_class(
        kind, bases or (Exception,), exec_body=lambda body: body.update(__module__=name)
    )


CLIENT_ERROR = of_library("aiohttp.client_exceptions", "ClientError")
ENDED: dict[str, tuple[BaseException, int, str]] = {
    "config": (ConfigError("seed = -1: too small"), 2, "seed = -1: too small"),
    "vocabulary": (VocabularySizeError("at most 700", 700), 2, "at most 700"),
    "data": (DataError("a.jsonl: broken"), 2, "a.jsonl: broken"),
    "changed": (ChangedInputError("a.jsonl: changed"), 2, "a.jsonl: changed"),
    "format": (FormatError("x.npy: cut"), 2, "x.npy: cut"),
    "labels": (TooFewLabelsError("3 labels"), 2, "3 labels"),
    "right": (NoRightError("s3://bucket/run: 403"), 2, "s3://bucket/run: 403"),
    "check": (VerificationError("verify: FAIL: clm"), 3, "verify: FAIL: clm"),
    "stop": (Stopped("locked"), 75, "locked"),
    "Ctrl-C": (Interrupted("Ctrl-C: stopped"), 130, "Ctrl-C: stopped"),
    "many lines": (ConfigError("a\nb\x1b[31m"), 2, r"a\nb\x1b[31m"),
    "memory": (MemoryError(), 75, "out of memory"),
    "not installed": (
        ModuleNotFoundError("No module named 'typer'", name="typer"),
        2,
        "the module 'typer' is not installed; the command line needs all of the pipeline: pip install ",
    ),
    "endpoint": (
        of_library("botocore.exceptions", "EndpointConnectionError")("Could not connect to s3"),
        75,
        "EndpointConnectionError: Could not connect to s3; the network or the server failed",
    ),
    "payload": (
        of_library("aiohttp.client_exceptions", "ClientPayloadError", CLIENT_ERROR)("not completed"),
        75,
        "ClientPayloadError: not completed; the network or the server failed",
    ),
    "a driver's own class": (
        of_library("somewhere", "Odd", CLIENT_ERROR)(""),
        75,
        "Odd: no reason given; the network or the server failed",
    ),
    "credentials": (
        of_library("botocore.exceptions", "NoCredentialsError")("Unable to locate credentials"),
        2,
        "NoCredentialsError: Unable to locate credentials; set the credentials in the environment",
    ),
    "a file that is gone": (
        FileNotFoundError(errno.ENOENT, "no", "a.jsonl"),
        2,
        "a.jsonl: No such file or directory; put it back",
    ),
    "a driver's error that is the system's too": (
        of_library("somewhere", "OddFile", CLIENT_ERROR, FileNotFoundError)(errno.ENOENT, "gone", "a.b"),
        75,
        "OddFile: ",
    ),
    "ray": (
        of_library("ray.exceptions", "ActorDiedError")("It died.\n\tclass_name: A\n\tit ended"),
        75,
        "Ray failed: it ended; run again to resume",
    ),
}


@pytest.mark.parametrize("name", ENDED)
def test_every_error_is_one_line_with_its_exit_code(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    error, code, said = ENDED[name]
    assert exit_code_of(lambda: (_ for _ in ()).throw(error), Signals()) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"shardmill: {said}")


def test_every_kind_of_our_errors_is_among_those_tried() -> None:
    pending, kinds = [ShardmillError], set()
    while pending:
        kind = pending.pop()
        pending += kind.__subclasses__()
        kinds |= {kind} - {ShardmillError}
    ours = {kind for kind in kinds if kind.__module__ == "stages.errors"}
    assert len(ours) == 10
    assert ours == {type(error) for error, _, _ in ENDED.values()} & ours


def test_an_unexpected_error_is_one_line_and_leaves_its_traceback_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert exit_code_of(lambda: {"y": 1}["x\x1b"], Signals()) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        r"shardmill: unexpected error: KeyError: 'x\x1b'; this is a bug: please report"
    )
    (file,) = tmp_path.iterdir()
    assert str(file) in line
    assert "Traceback" in file.read_text(encoding="utf-8")
    assert "KeyError" in file.read_text(encoding="utf-8")


def test_an_unexpected_error_of_many_lines_shows_its_first_and_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    error = RuntimeError("unit-7: a task failed\n" + "  File x\n" * 1000 + "KeyError: 3")
    assert exit_code_of(lambda: (_ for _ in ()).throw(error), Signals()) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "RuntimeError: unit-7: a task failed ... KeyError: 3; this is a bug" in line


def test_a_traceback_is_shown_to_who_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHARDMILL_DEBUG", "1")
    assert exit_code_of(lambda: (_ for _ in ()).throw(ConfigError("seed")), Signals()) == 2
    error = capsys.readouterr().err
    assert "Traceback" in error
    assert error.endswith("shardmill: seed\n")


def test_a_terminal_that_is_gone_changes_no_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as gone:
        monkeypatch.setattr(sys, "stderr", gone)
        assert exit_code_of(lambda: (_ for _ in ()).throw(Stopped("hung up")), Signals()) == 75
        monkeypatch.undo()
        with pytest.raises(BrokenPipeError):
            gone.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), write)


@pytest.mark.parametrize("number", sorted({*PASSING, *LASTING, errno.EDOM}))
def test_every_fault_of_a_disk_is_a_line_with_the_file_the_fault_and_the_way_out(
    number: int, tmp_path: Path
) -> None:
    place = tmp_path / "commits" / "x.json"
    with pytest.raises((Stopped, ConfigError)) as caught, disk_faults(tmp_path):
        raise OSError(number, os.strerror(number), str(place))
    assert isinstance(caught.value, Stopped) == (number in PASSING)
    message = str(caught.value)
    assert message.startswith(f"{place}: ")
    assert "; " in message
    assert ("run again" in message) >= (number in PASSING)


def test_a_fault_without_a_file_is_named_after_the_folder_and_one_of_two_files_after_the_new_one(
    tmp_path: Path,
) -> None:
    assert str(explained(OSError(errno.EIO, "x"), tmp_path)).startswith(
        f"{tmp_path}: Input/output error"
    )
    both = OSError(errno.EACCES, "x", "old", None, "new")
    assert str(explained(both, tmp_path)).startswith("new: Permission denied; ")
    with pytest.raises(OSError, match="x") as caught, named(tmp_path / "unit"):
        raise OSError(errno.EIO, "x")
    assert caught.value.filename == str(tmp_path / "unit")


def test_an_input_that_is_gone_is_no_fault_of_the_output(tmp_path: Path) -> None:
    inside = FileNotFoundError(errno.ENOENT, "x", str(tmp_path / "a"))
    outside = FileNotFoundError(errno.ENOENT, "x", str(tmp_path.parent / "a"))
    assert isinstance(explained(inside, tmp_path), Stopped)
    assert isinstance(explained(outside, tmp_path), ConfigError)


@pytest.mark.parametrize("fuller", [True, False])
def test_a_disk_that_fills_without_a_name_may_be_that_of_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, fuller: bool
) -> None:
    left = {"/mnt/t": 4096 if fuller else 1 << 40}
    usage = lambda path: types.SimpleNamespace(free=left.get(str(path), 1 << 30))  # noqa: E731
    monkeypatch.setattr("shutil.disk_usage", usage)
    monkeypatch.setattr("tempfile.tempdir", "/mnt/t")
    said = str(explained(OSError(errno.ENOSPC, "No space left on device"), tmp_path))
    wanted = "/mnt/t: the disk is full (4 KiB are left); free space or set TMPDIR to another folder,"
    assert said.startswith(wanted) == fuller
    assert said.startswith(f"{tmp_path}: the disk is full (1 GiB are left); free space and") != fuller
    file = OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "file"))
    assert str(explained(file, tmp_path)).startswith(f"{tmp_path / 'file'}: the disk is full (1 GiB")


def test_where_no_temporary_file_can_be_written_the_variable_that_names_a_place_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("tempfile._candidate_tempdir_list", lambda: ["/proc/none"])
    with pytest.raises(ConfigError, match="set TMPDIR to"), disk_faults(tmp_path):
        tempfile.mkdtemp()


def test_what_a_library_says_without_a_number_is_damage_and_a_broken_connection_is_none() -> None:
    damaged = explained(OSError("Couldn't deserialize thrift"), Path("DIR"))
    assert isinstance(damaged, DataError)
    assert "verify" in str(damaged)
    assert isinstance(explained(TimeoutError("timed out")), Stopped)


def test_a_full_disk_says_how_much_is_left_even_where_nothing_is_there_yet(tmp_path: Path) -> None:
    error = explained(OSError(errno.ENOSPC, "x"), tmp_path / "not" / "yet")
    assert "the disk is full (" in str(error)
    assert isinstance(error, Stopped)


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOTDIR, ConfigError), (errno.EIO, Stopped)])
def test_a_folder_that_cannot_be_made_is_named_with_its_option(
    number: int, kind: type[Exception], tmp_path: Path
) -> None:
    with pytest.raises(kind, match=str(tmp_path)), making(tmp_path, "--output"):
        raise OSError(number, os.strerror(number))


def test_what_the_system_refuses_says_nothing_of_a_file() -> None:
    told = {number: is_of_the_system(OSError(number, "x")) for number in (*PASSING, *LASTING)}
    of_files = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EINVAL}
    assert {number for number, of_system in told.items() if not of_system} == of_files
    assert not is_of_the_system(OSError("not a Parquet file"))
    assert not is_of_the_system(ValueError())
