"""Limits of a process are named as such, with their value, and are no fault of the disk or of a file."""

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.commands.boundary import exit_code_of
from pipeline.engine.memory import WorkerResources
from pipeline.session.execution import open_execution
from pipeline.system import limits
from pipeline.system.disk_faults import explained
from pipeline.system.limits import limit_of
from pipeline.system.stopping import Signals
from stages.errors import ConfigError, DataError, Stopped


@contextmanager
def limited(kind: int, value: int) -> Iterator[None]:
    """Set a limit of this process."""
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (value, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


LIMITS = [
    (errno.EFBIG, resource.RLIMIT_FSIZE, 1 << 30, "1 GiB (ulimit -f)"),
    (errno.ENOMEM, resource.RLIMIT_AS, 1 << 45, "3.277e+04 GiB of address space (ulimit -v)"),
    (errno.EMFILE, resource.RLIMIT_NOFILE, 900, "900 files open (ulimit -n)"),
    (errno.EAGAIN, resource.RLIMIT_NPROC, 60_000, "60,000 processes and threads (ulimit -u)"),
]


@pytest.mark.parametrize(("number", "kind", "value", "said"), LIMITS)
def test_a_fault_of_a_limit_names_it_and_its_value(
    number: int, kind: int, value: int, said: str
) -> None:
    with limited(kind, value):
        error = explained(OSError(number, "x", "file"))
    assert isinstance(error, Stopped)
    assert said in str(error)
    assert str(error).endswith("raise the limit and run again to resume")


def test_a_file_system_that_takes_no_large_file_is_another_thing() -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    assert limit_of(errno.EFBIG) is None
    assert isinstance(explained(OSError(errno.EFBIG, "x", "file")), ConfigError)
    assert limit_of(errno.ENOSPC) is None
    assert limit_of(None) is None


def test_where_the_libraries_could_not_work_nothing_is_begun(tmp_path: Path) -> None:
    resources = WorkerResources(0, None, 1 << 30)
    with limited(resource.RLIMIT_AS, 3 << 30), pytest.raises(Stopped, match=r"3 GiB .* needs 4 GiB"):  # noqa: SIM117
        with open_execution(tmp_path / "out", resources, needs={}, stream=None):
            pass
    assert not (tmp_path / "out").exists()


def test_what_a_library_cannot_load_within_a_limit_is_no_damaged_file() -> None:
    with limited(resource.RLIMIT_AS, 1 << 45):
        assert isinstance(explained(OSError("cannot load libx.so")), Stopped)
    assert isinstance(explained(OSError("cannot load libx.so")), DataError)


@pytest.mark.parametrize(
    ("error", "kind", "value", "said"),
    [
        (RuntimeError("can't start new thread"), resource.RLIMIT_NPROC, 60_000, "60,000 processes"),
        (
            pa.ArrowException("Unknown error: Failed to launch worker thread: Resource temporarily"),
            resource.RLIMIT_NPROC,
            60_000,
            "no thread can be started: this user may have 60,000",
        ),
        (MemoryError(), resource.RLIMIT_AS, 1 << 45, "address space"),
    ],
)
def test_what_python_says_without_a_number_is_the_limit_too(
    error: Exception, kind: int, value: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    with limited(kind, value), Signals() as signals:
        assert exit_code_of(fail, signals) == 75
    assert said in capsys.readouterr().err


def test_without_a_limit_of_address_space_work_begins() -> None:
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
    limits.require_address_space()


@pytest.mark.parametrize(
    ("pids", "own", "said"),
    [
        ("max\n", resource.RLIM_INFINITY, None),
        ("max\n", 60_000, "this user may have 60,000 processes and threads (ulimit -u)"),
        ("4096\n", resource.RLIM_INFINITY, "this container may have 4,096 processes"),
        ("4096\n", 60_000, "(ulimit -u), and this container may have 4,096 processes"),
    ],
)
def test_processes_are_limited_for_a_user_and_for_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pids: str, own: int, said: str | None
) -> None:
    (tmp_path / "pids.max").write_text(pids)
    monkeypatch.setattr(limits, "_PIDS", tmp_path / "pids.max")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (own, own))
    found = limit_of(errno.EAGAIN)
    assert found == said if said is None else said in str(found)


def test_a_soft_limit_counts_and_not_the_hard_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (900, resource.RLIM_INFINITY))
    assert "900 files open" in str(limit_of(errno.EMFILE))
