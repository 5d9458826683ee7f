"""Places: where an input file is, a local path or a URL that fsspec reads.

Local paths do not go through fsspec. Credentials come from the environment alone, where each of
fsspec's drivers looks for them; a URL that holds one is refused, and the refusal does not repeat it.
"""

import glob
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

from stages.errors import ConfigError

Place = Path | str
"""A local path, or a URL."""

EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}
"""Protocols whose driver is one of our extras."""
MARKS = (
    "ETag",
    "etag",
    "Content-MD5",
    "mtime",
    "LastModified",
    "last_modified",
    "Last-Modified",
    "updated",
    "created",
)
"""What a file system may say that changes when a file does; the first it has is taken."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(:|//)")
_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class PlaceStatus:
    """What is known of a file without reading it."""

    size: int | None
    stamp: str
    """Its place with what changes when the file does."""
    lasting: bool
    """Whether the stamp will change with the file; not if its server says nothing that would."""
    seekable: bool
    """Whether a part of it can be read without what stands before."""


def is_url(text: str) -> bool:
    """Say whether a path is a URL: "s3://bucket/a.jsonl" is, "a.jsonl" and "/a.jsonl" are not."""
    return bool(_URL.match(text))


def is_pattern(text: str) -> bool:
    """Say whether a path has wildcards."""
    return bool(_WILD.search(text))


def check_url(url: str, *, key: str) -> None:
    """Refuse a URL that could hold a secret, or more than one URL.

    Raises:
        ConfigError: the URL has a user name, a password or a query, or is a chain of URLs.
    """
    if "::" in url:
        raise ConfigError(f"{key}: a chain of URLs (::) is not read; name the file's own URL")
    parts = urlsplit(url)
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/..."
    if "@" in parts.netloc:
        raise ConfigError(
            f"{key}: {shown} names a user or password; leave it out and set the credentials in the"
            " environment, where its driver looks for them"
        )
    if parts.scheme in ("http", "https") and (parts.query or parts.fragment):
        raise ConfigError(f"{key}: {shown} has a query, which may hold a secret; name a URL without one")


def open_place(place: Place) -> BinaryIO:
    """Open a file for reading bytes."""
    if isinstance(place, Path):
        return place.open("rb")
    system, path = _system(place, key=place)
    return cast("BinaryIO", system.open(path, "rb"))


def place_status(place: Place) -> PlaceStatus:
    """Give size and stamp of a file."""
    if isinstance(place, Path):
        status = place.stat()
        stamp = f"{place.resolve()}|{status.st_size}|{status.st_mtime_ns}"
        return PlaceStatus(status.st_size, stamp, lasting=True, seekable=True)
    system, path = _system(place, key=place)
    info = system.info(path)
    size = info.get("size")
    mark = next((info[name] for name in MARKS if info.get(name)), None)
    if mark is None and not place.startswith("http"):  # there, ukey is a digest of the URL alone
        mark = system.ukey(path)
    seekable = size is not None and info.get("partial", True)
    return PlaceStatus(size, f"{place}|{size}|{mark}", lasting=mark is not None, seekable=seekable)


def local_files(pattern: str, base: Path, *, key: str) -> list[Path]:
    """Give the local files that a pattern names, in order.

    Raises:
        ConfigError: there is none, or what is there is no file.
    """
    wild = is_pattern(pattern)
    places = (
        [base / match for match in sorted(glob.glob(pattern, root_dir=base, recursive=True))]  # noqa: PTH207  # Path.glob takes no absolute pattern
        if wild
        else [base / pattern]
    )
    places = [place for place in places if not (wild and place.is_dir())]
    if not places:
        raise ConfigError(f"{key}: {pattern!r} matches no file in {base.resolve()}")
    for place in places:
        if not place.exists():
            raise ConfigError(f"{key}: {place}: no such file")
        if place.is_dir():
            raise _folder(str(place), pattern, key)
    return places


def remote_files(pattern: str, *, key: str) -> list[str]:
    """Give the URLs that a pattern names, in order.

    Raises:
        ConfigError: there is none, it is no file, or its driver is missing or fails.
    """
    check_url(pattern, key=key)
    system, path = _system(pattern, key=key)
    with _asking(pattern, key):
        if is_pattern(pattern):
            found = system.glob(path, detail=True)
            urls = sorted(
                system.unstrip_protocol(name) for name, i in found.items() if i["type"] == "file"
            )
            if not urls:
                raise ConfigError(f"{key}: {pattern!r} matches no file")
            return urls
        if system.info(path)["type"] == "directory":
            raise _folder(pattern, pattern, key)
        return [system.unstrip_protocol(path)]


def root_of(base: Path, pattern: str) -> Place:
    """Give the folder of a pattern before any wildcard: "a/b*/c" -> a, "s3://b/x/*" -> s3://b/x."""
    if not is_url(pattern):
        parts = Path(pattern).parts
        fixed = next((n for n, part in enumerate(parts) if is_pattern(part)), len(parts) - 1)
        return base.joinpath(*parts[:fixed])
    scheme, _, rest = pattern.partition("://")
    parts = tuple(rest.split("/"))
    fixed = next((n for n, part in enumerate(parts) if is_pattern(part)), len(parts) - 1)
    return root_url(f"{scheme}://{'/'.join(parts[:fixed])}")


def root_url(url: str) -> str:
    """Give the folder's URL in the spelling of the files below it."""
    system, path = _system(url, key=url)
    return str(system.unstrip_protocol(path)).rstrip("/")


def relative(place: Place, root: Place) -> str | None:
    """Give a file's POSIX path relative to a root, or None if it is outside."""
    if isinstance(place, Path) and isinstance(root, Path):
        return place.relative_to(root).as_posix() if place.is_relative_to(root) else None
    prefix = f"{root}/"
    inside = isinstance(place, str) and place.startswith(prefix)
    return str(place).removeprefix(prefix) if inside else None


def _folder(place: str, pattern: str, key: str) -> ConfigError:
    return ConfigError(
        f"{key}: {place} is a folder; write {pattern.rstrip('/')}/*.jsonl.zst, or the ending that"
        " its files have"
    )


def _system(url: str, *, key: str) -> tuple[Any, str]:
    """Give the file system of a URL and the path in it."""
    from fsspec.core import url_to_fs  # noqa: PLC0415  # imported only where a URL is read

    scheme = url.partition("://")[0]
    try:
        system, path = url_to_fs(url)
    except ImportError as error:
        extra = EXTRAS.get(scheme)
        way = f"pip install 'shardmill[{extra}]'" if extra else str(error)
        raise ConfigError(f"{key}: {scheme}:// needs a driver that is not installed: {way}") from error
    except ValueError as error:
        raise ConfigError(f"{key}: {scheme}:// is no protocol that fsspec knows ({error})") from error
    return system, path


@contextmanager
def _asking(url: str, key: str) -> Iterator[None]:
    """Say which URL a file system's refusal is about."""
    try:
        yield
    except FileNotFoundError as error:
        raise ConfigError(f"{key}: {url}: no such file") from error
    except OSError as error:
        raise ConfigError(f"{key}: {url}: {error.strerror or error}") from error
