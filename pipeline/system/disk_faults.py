"""Disk faults: what the system, a network library or Ray refuses, as one line with the way out.

    it passes, or ends without a change of the command   Stopped, 75      ENOSPC EIO EROFS ESTALE ...
    the command or the folder must change                ConfigError, 2   EACCES ENOTDIR EISDIR ...

The system names the file only where it opens or renames one; `named` gives a write or a sync the name of
the folder in which it failed.

Faults of drivers: what network libraries and Ray raise that is no OSError, as one line.

Known by the library that defines the exception, since none of them is imported here.
"""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.system.limits import limit_of
from pipeline.system.printable import show_bytes
from stages.errors import ConfigError, DataError, ShardmillError, Stopped, lacks_temporary_folder
from stages.stores.mounts import mounted_at

_AGAIN = "run again to resume"
PASSING = {
    errno.ENOSPC: f"free space and {_AGAIN}",
    errno.EDQUOT: f"free space and {_AGAIN}",
    errno.EIO: f"the disk or its server failed (see dmesg); once it works, {_AGAIN}",
    errno.EROFS: f"mount it for writing and {_AGAIN}",
    errno.ESTALE: f"its server lost it; mount it again and {_AGAIN}",
    errno.EMFILE: f"raise the limit (ulimit -n) and {_AGAIN}",
    errno.ENFILE: f"the system has too many files open; end other programs and {_AGAIN}",
    errno.ENOMEM: f"free memory and {_AGAIN}",
    errno.EAGAIN: _AGAIN,
    errno.EBUSY: _AGAIN,
    errno.ENOLCK: f"its file system gives no locks; mount it with locks and {_AGAIN}",
    errno.ENOENT: f"another program removed it or its folder; {_AGAIN}",
    errno.EREMOTEIO: f"its server failed; once it works, {_AGAIN}",
    errno.ENXIO: f"its device is gone; attach it again and {_AGAIN}",
    errno.ENODEV: f"its device is gone; attach it again and {_AGAIN}",
    errno.ENOTCONN: f"its mount is gone; mount it again and {_AGAIN}",
    errno.ETIMEDOUT: f"its server does not answer; once it does, {_AGAIN}",
    errno.EHOSTDOWN: f"its server does not answer; once it does, {_AGAIN}",
    errno.EHOSTUNREACH: f"its server does not answer; once it does, {_AGAIN}",
    errno.ECONNREFUSED: f"its server does not answer; once it does, {_AGAIN}",
    errno.ECONNRESET: f"its server ended the connection; {_AGAIN}",
}
"""Faults after which the same command goes on, and what must happen first."""
LASTING = {
    errno.EACCES: "give this user the right to it, or choose another folder",
    errno.EPERM: "give this user the right to it, or choose another folder",
    errno.ENOTDIR: "a file stands where a folder belongs; move it away and run again",
    errno.EISDIR: "a folder stands where a file belongs; move it away and run again",
    errno.ENOTEMPTY: "a folder stands where a file belongs; move it away and run again",
    errno.EEXIST: "something else stands there; move it away and run again",
    errno.ENAMETOOLONG: "choose a folder with a shorter path",
    errno.ELOOP: "its links lead to each other; name the folder itself",
    errno.EFBIG: "the file system takes no file of this size; choose a folder on another one",
    errno.EXDEV: "the folder spans two file systems; name one that lies on one",
    errno.EOPNOTSUPP: "the file system cannot do this; choose a folder on another one",
    errno.ENOSYS: "the file system cannot do this; choose a folder on another one",
    errno.EINVAL: "the file system cannot do this; choose a folder on another one",
}
"""Faults that stay until the command or the folder changes."""
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)
_OTHER_TEMPORARY = f"free space or set TMPDIR to another folder, and {_AGAIN}"


@contextmanager
def disk_faults(folder: Path) -> Iterator[None]:
    """Turn what the system refuses, here or at a worker, into a line that names the file.

    Args:
        folder: that the command writes into, named where the system names no file.

    Raises:
        Stopped: the same command can go on once the fault is gone.
        ConfigError: it cannot.
        DataError: a library could not read a file and does not say why.
    """
    try:
        yield
    except OSError as error:
        raise explained(error, folder) from error


@contextmanager
def making(folder: Path, option: str) -> Iterator[None]:
    """Turn what the system refuses while a folder is made into a line that names the option.

    Raises:
        ConfigError: no folder can be there.
        Stopped: one can, once the fault is gone.
    """
    try:
        yield
    except OSError as error:
        fault = explained(error, folder)
        if isinstance(fault, ConfigError):
            place = _place(error)
            where = "" if place is None or place == folder else f"{place}: "
            fault = ConfigError(f"{option} {folder}: cannot be made: {where}{error.strerror}")
        raise fault from error


@contextmanager
def named(place: Path) -> Iterator[None]:
    """Yield a fault the name of the place where it happened, if the system gave it none."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(place)
        raise


def explained(error: OSError, folder: Path | None = None) -> ShardmillError:
    """Return the error that says in one line what the system refused.

    Args:
        error: as the system raised it.
        folder: that the command writes into, if it is known.
    """
    number, place = error.errno, _place(error)
    temporary = _fuller_temporary(folder) if number == errno.ENOSPC and place is None else None
    place = place or temporary or folder
    mounted = None if place is None else mounted_at(place.absolute())
    what = "" if place is None else f"{place}: "
    if number is None:
        return _of_a_library(error, what)
    if lacks_temporary_folder(error):
        return ConfigError(
            "no folder for temporary files can be written; set TMPDIR to one that this user can write"
        )
    if number == errno.ENOENT and not _is_within(place, folder):
        return ConfigError(f"{what}{os.strerror(number)}; put it back, or name another file")
    limit = limit_of(number)
    if limit is not None:
        return Stopped(f"{what}{os.strerror(number)}: {limit}; raise the limit and {_AGAIN}")
    if mounted is not None and number in _OF_THE_DISK:  # what lies in a tree is on that of the cache
        place = mounted[1].stored.cache.folder
        what = f"{place}, the cache of {mounted[1].place}: "
    if number in PASSING:
        way = PASSING[number] if temporary is None else _OTHER_TEMPORARY
        return Stopped(f"{what}{_said(number, place)}; {way}")
    return ConfigError(f"{what}{os.strerror(number)}; {LASTING.get(number, 'mend that and run again')}")


def _of_a_library(error: OSError, what: str) -> ShardmillError:
    """Return what a library says that has no number of the system's."""
    said = str(error) or type(error).__name__
    if isinstance(error, ConnectionError | TimeoutError):
        return Stopped(f"{what}{said}; {_AGAIN}")
    limit = limit_of(errno.ENOMEM)
    if limit is not None:  # a library that cannot map a file blames the file
        return Stopped(f"{what}{said}; {limit}: raise the limit and {_AGAIN}")
    return DataError(f"{what}{said}; a file there is damaged: `shardmill verify` names it")


def _place(error: OSError) -> Path | None:
    """Return the file of a fault; of two, the one that was to be made."""
    name = error.filename2 or error.filename
    return Path(os.fsdecode(name)) if isinstance(name, str | bytes | os.PathLike) else None


def _fuller_temporary(folder: Path | None) -> Path | None:
    """Return the folder for temporary files if its disk has less space than that of another one."""
    temporary = Path(tempfile.tempdir or os.environ.get("TMPDIR") or "/tmp")  # noqa: S108  # Python's own
    left, other = _free(temporary), _free(folder or Path())
    return temporary if left is not None and other is not None and left < other else None


def _is_within(place: Path | None, folder: Path | None) -> bool:
    if place is None or folder is None:
        return False
    return place.absolute().is_relative_to(folder.absolute())


def _said(number: int, place: Path | None) -> str:
    """Return the fault in words, with the space that is left if it is that."""
    if number == errno.EDQUOT:
        return "the disk quota is used up"
    if number != errno.ENOSPC or (place is not None and place.is_char_device()):  # /dev/full
        return os.strerror(number)
    free = _free(place or Path())
    return "the disk is full" + ("" if free is None else f" ({show_bytes(free)} are left)")


def _free(place: Path) -> int | None:
    """Return the free bytes of the file system of a path, or None if nothing of the path is there."""
    for folder in (place, *place.parents):
        try:
            return shutil.disk_usage(folder).free
        except OSError:
            continue
    return None


NETWORK = frozenset(
    {
        "adlfs",
        "aiobotocore",
        "aiohttp",
        "azure",
        "botocore",
        "gcsfs",
        "google",
        "httpcore",
        "httpx",
        "huggingface_hub",
        "paramiko",
        "requests",
        "s3fs",
        "urllib3",
    }
)
"""Libraries that fsspec's drivers are made of."""
_REFUSED = ("Credential", "Auth", "Token", "AccessDenied", "Forbidden", "ParamValidation", "InvalidURL")
"""Parts of names of exceptions after which the same call fails again."""


def fault_of_driver(error: BaseException) -> ShardmillError | None:
    """Return what a library's exception means, or None if it is of no driver.

    botocore's EndpointConnectionError -> Stopped; its NoCredentialsError -> ConfigError
    """
    kinds = type(error).__mro__
    libraries = {kind.__module__.partition(".")[0] for kind in kinds}
    said = f"{type(error).__name__}: {str(error).strip() or 'no reason given'}"
    if libraries & NETWORK:
        if any(part in kind.__name__ for kind in kinds for part in _REFUSED):
            return ConfigError(
                f"{said}; set the credentials in the environment, where the driver looks for them"
            )
        return Stopped(f"{said}; the network or the server failed: run again once it works")
    if "ray" in libraries:
        last = said.splitlines()[-1].strip()  # what comes before is where it was raised
        return Stopped(f"Ray failed: {last}; run again to resume")
    return None
