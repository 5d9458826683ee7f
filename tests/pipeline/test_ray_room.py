"""What is looked at before Ray starts: a folder that its sockets fit in, and ports; without them, 2."""

import os
import socket
import stat
from pathlib import Path
from typing import NoReturn

import pytest

from pipeline.engine import ray_room
from pipeline.engine.ray_room import MAX_SOCKET_BYTES, ray_folder, require_ports
from stages.errors import ConfigError


def below(folder: Path, size: int) -> Path:
    """Return a folder below which Ray's longest path of a socket has so many bytes."""
    room = size - len(f"/ray/{ray_room._socket()}") - len(str(folder)) - 1  # noqa: SLF001  # the length alone
    return folder / ("x" * room)


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a short path at which there is nothing, for folders of exact lengths."""
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    return Path(f"/tmp/{os.getpid()}")  # noqa: S108  # each test makes it and removes it


@pytest.mark.parametrize("name", ["TMPDIR", "RAY_TMPDIR"])
@pytest.mark.parametrize("more", [0, 1])
def test_the_longest_path_that_a_socket_can_have_is_used_and_one_byte_more_is_not(
    name: str, more: int, near: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = below(near, MAX_SOCKET_BYTES + more)
    monkeypatch.setenv(name, str(long))
    try:
        with ray_folder() as folder:
            assert (folder == long / "ray") is (more == 0)
            with socket.socket(socket.AF_UNIX) as one:
                path = folder / ray_room._socket()  # noqa: SLF001  # as Ray makes it
                path.parent.mkdir(parents=True)
                one.bind(str(path))
            assert more == 0 or stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
        assert folder.parent.exists() is (more == 0), "a private folder goes with what is in it"
    finally:
        ray_room._remove(near)  # noqa: SLF001  # ours


@pytest.mark.parametrize("usual", ["/proc/self", "/dev/null"])
def test_a_folder_that_takes_no_file_is_replaced_by_a_private_one(
    usual: str, near: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not near.exists()
    monkeypatch.setenv("TMPDIR", usual)
    with ray_folder() as folder:
        assert folder.parent.parent == Path("/tmp")  # noqa: S108  # a private folder there
        assert folder.parent.exists()
    assert not folder.parent.exists()


def test_without_any_folder_the_message_says_how_long_one_may_be(
    near: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(below(near, MAX_SOCKET_BYTES + 1)))
    monkeypatch.setattr(ray_room, "_SHORT", Path("/proc/self"))
    most = len(str(below(near, MAX_SOCKET_BYTES)))
    said = (
        f"/plasma_store has 108 bytes, and the path of a socket at most 107; /proc/self: .*; set"
        f" RAY_TMPDIR to a folder .* whose path has at most {most} bytes, or run with --workers 0"
    )
    with pytest.raises(ConfigError, match=said), ray_folder():
        pytest.fail("there is none")


def test_without_ports_ray_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> NoReturn:
        raise OSError(101, "Network is unreachable")  # as in a new network namespace

    require_ports()
    monkeypatch.setattr(socket, "create_connection", refused)
    with pytest.raises(
        ConfigError, match=r"127.0.0.1: Network is unreachable; .* or run with --workers 0"
    ):
        require_ports()


def test_a_fault_that_may_pass_is_no_fault_of_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> NoReturn:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(socket, "create_server", full)
    with pytest.raises(OSError, match="Too many open files"):
        require_ports()
