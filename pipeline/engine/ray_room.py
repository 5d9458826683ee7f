"""What Ray needs of this machine before it starts: a folder for its sockets and logs, and ports.

Whoever lacks one would wait for Ray in vain, and again with each new try. So both are tried first.

The path of a socket has at most 107 bytes on Linux (unix(7)). Ray makes its sockets some 70 bytes below
TMPDIR, and schedulers give their jobs long folders. Then Ray gets a short folder of its own.
"""

import errno
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stages.errors import ConfigError

MAX_SOCKET_BYTES = 107
"""Of the path of a socket; macOS has 103."""
_SOCKET = "session_2026-12-31_23-59-59_999999_{}/sockets/plasma_store"
"""The longest path that Ray makes below its folder, with the id of this process."""
_SHORT = Path("/tmp")  # noqa: S108  # mkdtemp makes a private folder there
_REFUSED = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.ENOENT,
    errno.EEXIST,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.EOPNOTSUPP,
}
"""What a folder answers that would answer the same tomorrow; a full disk is none of them."""
_NO_PORT = {
    errno.EACCES,
    errno.EPERM,
    errno.EADDRNOTAVAIL,
    errno.EAFNOSUPPORT,
    errno.ENETDOWN,
    errno.ENETUNREACH,
}
"""What a machine answers whose network is not for this process; likewise."""
_WITHOUT = "or run with --workers 0, which needs no Ray"


@contextmanager
def ray_folder() -> Iterator[Path]:
    """Yield the folder where a Ray that starts here makes its sessions.

    It is Ray's usual one, or else a short private one, which goes at the end with the logs in it.

    Raises:
        ConfigError: neither can be used.
    """
    usual = Path(os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or _SHORT, "ray").absolute()
    fault = _fault_of(usual)
    if fault is None:
        yield usual
        return
    try:
        short = Path(tempfile.mkdtemp(prefix="shardmill-", dir=_SHORT))
    except OSError as error:
        if error.errno not in _REFUSED:
            raise
        most = MAX_SOCKET_BYTES - len(f"/ray/{_socket()}")
        raise ConfigError(
            f"Ray has no folder for its sockets: {fault}; {_SHORT}: {error.strerror}; set RAY_TMPDIR to"
            f" a folder that this user can write, whose path has at most {most} bytes, {_WITHOUT}"
        ) from error
    try:
        yield short / "ray"  # Ray opens its folder to all users; the one above it stays private
    finally:
        _remove(short)


def _fault_of(folder: Path) -> str | None:
    """Return why Ray's sockets cannot lie in a folder; None if they can."""
    longest = folder / _socket()
    size = len(os.fsencode(longest))
    if size > MAX_SOCKET_BYTES:
        return f"{longest} has {size} bytes, and the path of a socket at most {MAX_SOCKET_BYTES}"
    own = folder / f"shardmill-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(os.fspath(own))
    except OSError as error:
        if error.errno not in _REFUSED:
            raise
        return f"{folder}: {error.strerror}"
    finally:
        with suppress(OSError):
            own.unlink()
    return None


def _socket() -> str:
    return _SOCKET.format(os.getpid())


def _remove(folder: Path) -> None:
    """Remove a folder in which processes that are about to end may still write."""
    for _ in range(10):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return


def require_ports() -> None:
    """Refuse to start Ray where its processes could not speak with each other.

    Raises:
        ConfigError: 127.0.0.1 has no ports for this process.
    """
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname(), timeout=5.0),
        ):
            return
    except OSError as error:
        if error.errno not in _NO_PORT:
            raise
        raise ConfigError(
            f"Ray's processes cannot speak through ports of 127.0.0.1: {error.strerror}; let this"
            f" process use the loopback network (ip link set lo up), {_WITHOUT}"
        ) from error


def sessions_in(folder: Path) -> set[Path]:
    """Return the folders of the sessions of Ray that this process began."""
    if not folder.is_dir():
        return set()
    own = f"_{os.getpid()}"
    return {
        path
        for path in folder.iterdir()
        if path.name.startswith("session_2") and path.name.endswith(own)
    }
