"""Place faults: what a disk or a server refuses, as a line that names the file and says what to do.

A driver of fsspec may raise anything: aiohttp's ClientPayloadError and botocore's
EndpointConnectionError are no OSErrors. So everything that a call of it raises is taken as its failure.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stages.errors import ConfigError, ShardmillError, Stopped

_GONE = (FileNotFoundError, NotADirectoryError)
_REFUSED = (PermissionError, IsADirectoryError)
_BAD_NAMES = (errno.ELOOP, errno.ENAMETOOLONG)
_NOT_THERE = (404, 410)
"""HTTP statuses of a file that is gone."""
_FIRST_REFUSAL, _AFTER_REFUSALS = 400, 500
_PASSING = (408, 425, 429)
"""HTTP statuses below 500 that are worth another try."""


@contextmanager
def touching(place: Path | str, *, key: str) -> Iterator[None]:
    """Turn what a disk or a server raises into an error that names the file.

    Args:
        place: a local path, or a URL.
        key: what messages begin with, such as "sources.web".

    Raises:
        ConfigError: there is no such file, or it may not be read.
        Stopped: it cannot be read now: a connection that broke, a server that is down, a bad disk.
    """
    try:
        yield
    except ShardmillError:
        raise
    except OSError as error:
        raise _fault(place, key, error) from error
    except Exception as error:
        if isinstance(place, Path):
            raise  # only a bug of ours raises it
        raise _fault(place, key, error) from error


def _fault(place: Path | str, key: str, error: Exception) -> ShardmillError:
    if isinstance(error, _GONE) and isinstance(error.__cause__, Exception) and isinstance(place, str):
        error = error.__cause__  # fsspec's http says "not found" of any failure to ask
    if isinstance(error, _GONE) or _status_of(error) in _NOT_THERE:
        return ConfigError(f"{key}: {place}: no such file")
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    reason = " ".join(str(reason).split())
    if type(error).__name__ not in reason and not isinstance(error, OSError):
        reason = f"{type(error).__name__}: {reason}"
    if isinstance(error, _REFUSED) or getattr(error, "errno", None) in _BAD_NAMES or _is_refusal(error):
        return ConfigError(f"{key}: {place}: {reason}")
    return Stopped(f"{key}: {place}: cannot be read now ({reason}); run again to resume")


def _is_refusal(error: Exception) -> bool:
    """Say whether a server will not change its mind: by HTTP status, or without credentials."""
    status = _status_of(error)
    refused = status is not None and _FIRST_REFUSAL <= status < _AFTER_REFUSALS
    return (refused and status not in _PASSING) or "Credentials" in type(error).__name__


def _status_of(error: Exception) -> int | None:
    """Return the HTTP status that an error is about; some drivers keep the whole response."""
    status = getattr(error, "status", getattr(getattr(error, "response", None), "status_code", None))
    return status if isinstance(status, int) else None
