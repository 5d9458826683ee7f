"""Places: where an input file is, a local path or a URL that fsspec reads.

Local paths do not go through fsspec. Credentials come from the environment alone, where each of
fsspec's drivers looks for them; a URL that holds one is refused, and the refusal does not repeat it.
"""

import glob
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pipeline.inputs.listing import (
    ANY_DEPTH,
    is_folder,
    is_pattern,
    local_matches,
    remote_matches,
)
from pipeline.inputs.place_faults import touching
from pipeline.system.regular_files import kind_of
from stages.errors import ConfigError
from stages.reading.table import is_named_like_file

Place = Path | str
"""A local path, or a URL."""

IsData = Callable[[Place], bool]
"""Says whether a folder stands for the files in it."""

EXTRAS = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "hf": "hf",
    "http": "http",
    "https": "http",
}
"""Protocols whose driver is one of our extras."""
MARKS = (
    "ETag",
    "etag",
    "Content-MD5",
    "blob_id",
    "mtime",
    "LastModified",
    "last_modified",
    "Last-Modified",
    "updated",
    "created",
)
"""What a file system may say that changes when a file does; the first it has is taken."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(:|//)")


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


def check_url(url: str, *, key: str) -> None:
    """Refuse a URL that could hold a secret, or more than one URL.

    Raises:
        ConfigError: the URL has a user name, a password or a query, or is a chain of URLs.
    """
    if "::" in url:
        raise ConfigError(f"{key}: URLs joined by `::` are not supported; give one plain URL")
    parts = urlsplit(url)
    port = parts.netloc.rpartition("@")[2].partition(":")[2]
    cut = bool(port) and not port.isdecimal() and "@" in url  # a password with a slash
    shown = f"{parts.scheme}://{'' if cut else parts.netloc.rpartition('@')[2] + '/'}..."
    if "@" in parts.netloc or cut:
        raise ConfigError(
            f"{key}: {shown} names a user or password; leave it out and set the credentials in the"
            " environment, where its driver looks for them"
        )
    if parts.scheme in ("http", "https") and (parts.query or parts.fragment):
        raise ConfigError(f"{key}: {shown} has a query, which may hold a secret; name a URL without one")


def place_status(place: Place, *, key: str, anew: bool = False) -> PlaceStatus:
    """Return size and stamp of a file.

    Args:
        place: the file.
        key: what messages begin with, such as "sources.web".
        anew: ask the server again, even if it said it a moment ago.

    Raises:
        ConfigError: there is no such file, or it is no regular file.
        Stopped: its server cannot be reached.
    """
    if isinstance(place, Path):
        with touching(place, key=key):
            status = place.stat()
            real = place.resolve()
        require_regular(place, kind_of(status.st_mode), key=key)
        stamp = f"{real}|{status.st_size}|{status.st_mtime_ns}|{status.st_ctime_ns}"
        return PlaceStatus(status.st_size, stamp, lasting=True, seekable=True)
    system, path = file_system(place, key=key)
    with touching(place, key=key):
        if anew:
            system.invalidate_cache(path)
        info = system.info(path)
    size = info.get("size")
    mark = next((info[name] for name in MARKS if info.get(name)), None)
    if mark is None and not place.startswith("http"):  # there, ukey is a digest of the URL alone
        mark = system.ukey(path)
    seekable = size is not None and info.get("partial", True)
    return PlaceStatus(size, f"{place}|{size}|{mark}", lasting=mark is not None, seekable=seekable)


def _named_like_file(folder: Place) -> bool:
    return is_named_like_file(str(folder))


def local_places(
    pattern: str, base: Path, *, key: str, is_data: IsData = _named_like_file
) -> list[Path]:
    """Return the files that a pattern names, in order; of a folder of data, those in it.

    Args:
        pattern: a path or a glob.
        base: what it is relative to.
        key: what messages begin with, such as "sources.web".
        is_data: says whether a folder stands for the files in it.

    Raises:
        ConfigError: there is nothing, or it is another folder.
    """
    places = _glob(pattern, base, key) if is_pattern(pattern) else [base / pattern]
    folders = [place for place in places if is_folder(place, key=key)]
    files = {*places}.difference(folders)
    for folder in map(Path, _unread(folders, files, pattern, is_data, key=key)):
        hidden = is_named_like_file(str(folder))
        found = _glob(ANY_DEPTH, folder, key, hidden=hidden)
        files.update(place for place in found if not is_folder(place, key=key))
    if not files:
        raise ConfigError(f"{key}: {pattern!r} matches no file in {base.resolve()}")
    return sorted(files)


def require_file(place: Path, *, key: str) -> None:
    """Refuse what is no regular file.

    Raises:
        ConfigError: there is none, or something else stands there.
    """
    with touching(place, key=key):
        kind = kind_of(place.stat().st_mode)
    require_regular(place, kind, key=key)


def require_one_path(place: Path, seen: dict[Path, Path], *, key: str) -> None:
    """Refuse a file that was found under another path already, through a link.

    Raises:
        ConfigError: its documents would be read twice.
    """
    real = Path(os.path.realpath(place))  # Path.resolve raises where links go in a circle
    other = seen.setdefault(real, place)
    if other != place:
        raise ConfigError(
            f"{key}: {other} and {place} are one file, through a link, and would be read twice; remove"
            " the link, or name the files so that only one of the two matches"
        )


def require_regular(path: Path, kind: str | None, *, key: str) -> None:
    """Refuse what is no file and would be read for ever, or never.

    Args:
        path: where it stands.
        kind: what it is instead of a regular file, or None.
        key: what the message begins with.

    Raises:
        ConfigError: a folder, a FIFO, a socket or a device stands there.
    """
    if kind is None:
        return
    to = f", a link to {path.resolve()}," if path.is_symlink() else ""
    raise ConfigError(
        f"{key}: {path}{to} is {kind}, and only files are read: copy its content to a regular file, or"
        " remove it from `paths`"
    )


def remote_places(pattern: str, *, key: str, is_data: IsData = _named_like_file) -> list[str]:
    """Return the URLs that a pattern names, in order; of a folder of data, those in it.

    Args:
        pattern: a URL, or a glob of URLs.
        key: what messages begin with, such as "sources.web".
        is_data: says whether a folder stands for the files in it.

    Raises:
        ConfigError: there is none, it is another folder, or its driver is missing or fails.
    """
    check_url(pattern, key=key)
    system, path = file_system(pattern, key=key)
    with touching(pattern, key=key):
        if not is_pattern(pattern):
            kinds = {path: system.info(path)["type"]}
        else:
            kinds = remote_matches(system, path, key=key)
            if not kinds and _is_remote_file(system, path):
                kinds = {path: "file"}
        urls = {system.unstrip_protocol(name).rstrip("/"): kind for name, kind in kinds.items()}
        files = {url for url, kind in urls.items() if kind == "file"}
        for folder in _unread(sorted(urls.keys() - files), files, pattern, is_data, key=key):
            inside = f"{glob.escape(system._strip_protocol(str(folder)))}/{ANY_DEPTH}"  # noqa: SLF001  # fsspec's own name for it
            found = remote_matches(system, inside, key=key)
            files.update(system.unstrip_protocol(n) for n, kind in found.items() if kind == "file")
        if not files:
            raise ConfigError(f"{key}: {pattern!r} matches no file")
        return sorted(files)


def root_of(base: Path, pattern: str) -> Place:
    """Return the folder of a pattern before any wildcard: "a/b*/c" -> a, "s3://b/x/*" -> s3://b/x."""
    if not is_url(pattern):
        parts = Path(pattern).parts
        fixed = next((n for n, part in enumerate(parts) if is_pattern(part)), len(parts) - 1)
        return base.joinpath(*parts[:fixed])
    scheme, _, rest = pattern.partition("://")
    parts = tuple(rest.split("/"))
    fixed = next((n for n, part in enumerate(parts) if is_pattern(part)), len(parts) - 1)
    return root_url(f"{scheme}://{'/'.join(parts[:fixed])}")


def root_url(url: str) -> str:
    """Return the folder's URL in the spelling of the files below it."""
    system, path = file_system(url, key=url)
    return str(system.unstrip_protocol(path)).rstrip("/")


def relative(place: Place, root: Place) -> str | None:
    """Return a file's POSIX path relative to a root, or None if it is outside."""
    if isinstance(place, Path) and isinstance(root, Path):
        return place.relative_to(root).as_posix() if place.is_relative_to(root) else None
    prefix = f"{root}/"
    inside = isinstance(place, str) and place.startswith(prefix)
    return str(place).removeprefix(prefix) if inside else None


def _glob(pattern: str, base: Path, key: str, *, hidden: bool = False) -> list[Path]:
    """Return what a pattern matches, in order, or the file of that name if it matches nothing.

    A loop of links ends at the first file that is found again.
    """
    found, seen = set(), dict[Path, Path]()
    for place in local_matches(pattern, base, key=key, hidden=hidden):
        if not is_folder(place, key=key):
            require_one_path(place, seen, key=key)
        found.add(place)
    literal = base / pattern
    if literal in found or not os.path.lexists(literal):
        return sorted(found)
    if found:
        raise ConfigError(
            f"{key}: {pattern!r} is the name of a file, and also a pattern that matches {min(found)};"
            f" write {glob.escape(pattern)!r} for the file of that name, or rename it"
        )
    return [literal]


def _is_remote_file(system: Any, path: str) -> bool:
    """Say whether a file has a name that looks like a pattern."""
    try:
        return bool(system.info(path)["type"] == "file")
    except FileNotFoundError:
        return False


def _unread(
    folders: Iterable[Place], files: Iterable[Place], pattern: str, is_data: IsData, *, key: str
) -> list[Place]:
    """Return the folders of data of which the pattern matches no file in them.

    Raises:
        ConfigError: the pattern is a folder of another kind.
    """
    names = list(map(str, files))
    empty = [one for one in folders if not any(name.startswith(f"{one}/") for name in names)]
    found = [folder for folder in empty if is_data(folder)]
    if empty and not found and not is_pattern(pattern):
        raise _folder(str(empty[0]), pattern, key)
    return found


def _folder(place: str, pattern: str, key: str) -> ConfigError:
    inside = pattern.rstrip("/")
    return ConfigError(
        f"{key}: {place} is a folder; write {inside}/{ANY_DEPTH} and skip_unknown = true to read every"
        f" file in it that a reader knows (exclude leaves out more), or {inside}/*.jsonl for one ending"
    )


def file_system(url: str, *, key: str) -> tuple[Any, str]:
    """Return the file system of a URL and the path in it."""
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
