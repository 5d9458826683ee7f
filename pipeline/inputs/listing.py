"""Listing: the files that a pattern matches, of which no folder is passed over.

    d/**/*.jsonl  ->  d/a.jsonl  d/b/c.jsonl  d/b/c/d.jsonl

`glob` and fsspec's walk leave out a folder that they cannot list, and with it its documents, without a
word. Here a listing that fails is refused with the folder's name. What matches is what `glob.glob` and
fsspec's `glob` say: behind a URL `*` takes names that begin with a dot, too.
"""

import errno
import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from pipeline.inputs.place_faults import touching
from stages.errors import ConfigError

ANY_DEPTH = "**"
"""The part of a pattern that stands for any number of folders."""
_WILD = re.compile(r"[*?\[]")
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""No folder, or a link that leads to itself: nothing to list."""

Entry = tuple[str, bool]
"""A name in a folder, and whether it is a folder."""


class _Tree(Protocol):
    """Where names are looked up; "/" joins the parts of a path in it."""

    def entries(self, folder: str) -> Sequence[Entry]:
        """Return what is in a folder, in order; nothing if there is no such folder."""
        ...

    def exists(self, path: str) -> bool:
        """Say whether anything has this path."""
        ...

    def matches(self, name: str, part: str) -> bool:
        """Say whether a name matches one part of a pattern."""
        ...


def is_pattern(text: str) -> bool:
    """Say whether a path has wildcards."""
    return bool(_WILD.search(text))


def local_matches(pattern: str, base: Path, *, key: str, hidden: bool = False) -> Iterator[Path]:
    """Return the files and folders that a pattern matches.

    Args:
        pattern: has a wildcard; relative to `base`, or absolute.
        base: a folder.
        key: what messages begin with, such as "sources.web.paths".
        hidden: whether `*` and `**` take names that begin with a dot.

    Raises:
        ConfigError: a folder may not be listed.
        Stopped: a folder cannot be listed now.
    """
    for path in _below(_LocalTree(base, key=key, hidden=hidden), *_split(pattern)):
        place = base / path
        if not pattern.endswith("/") or is_folder(place, key=key):
            yield place


def is_folder(place: Path, *, key: str) -> bool:
    """Say whether a folder stands there.

    Raises:
        ConfigError: that may not be looked at.
    """
    with touching(place, key=key):
        return place.is_dir()


def remote_matches(system: Any, pattern: str, *, key: str) -> dict[str, str]:
    """Return the paths that a pattern matches in a file system of fsspec, each with its kind.

    Args:
        system: the file system.
        pattern: a path in it that has a wildcard.
        key: what messages begin with, such as "sources.web.paths".

    Raises:
        ConfigError: a folder may not be listed.
        Stopped: a folder cannot be listed now.
    """
    if ANY_DEPTH in pattern.split("/") and _lists_trees(system):
        found = system.glob(pattern, detail=True)
        return {path: info["type"] for path, info in found.items()}
    tree = _RemoteTree(system, key=key)
    return {path: tree.kinds[path] for path in _below(tree, *_split(pattern))}


class _LocalTree:
    """Local folders; paths are relative to a base, or absolute."""

    def __init__(self, base: Path, *, key: str, hidden: bool) -> None:
        self._base = base
        self._key = key
        self._hidden = hidden
        self._listed = cache(self._list)

    def entries(self, folder: str) -> Sequence[Entry]:
        """Return what is in a folder; a pattern with `**` asks twice."""
        return self._listed(folder)

    def exists(self, path: str) -> bool:
        """Say whether anything has this path, a link to nothing too."""
        place = self._base / path
        try:
            with touching(place, key=self._key):
                place.lstat()
        except ConfigError as error:
            if _is_not_there(error):
                return False
            raise
        return True

    def matches(self, name: str, part: str) -> bool:
        """Say whether a name matches; only a dot matches the dot of a hidden one, unless all count."""
        seen = self._hidden or part.startswith(".") or not name.startswith(".")
        return seen and fnmatchcase(name, part)

    def _list(self, folder: str) -> Sequence[Entry]:
        place = self._base / folder
        try:
            with touching(place, key=self._key), os.scandir(place) as found:
                return sorted((entry.name, _may_be_folder(entry)) for entry in found)
        except ConfigError as error:
            if _is_not_there(error):
                return ()
            raise _not_listed(error) from error


class _RemoteTree:
    """Folders of a file system of fsspec."""

    def __init__(self, system: Any, *, key: str) -> None:
        self._system = system
        self._key = key
        self._listed = cache(self._list)
        self.kinds: dict[str, str] = {}
        """What each path is that was listed."""

    def entries(self, folder: str) -> Sequence[Entry]:
        """Return what is in a folder; a pattern with `**` asks twice."""
        return self._listed(folder)

    def exists(self, path: str) -> bool:
        """Say whether the folder of a path has it."""
        folder, _, name = path.rpartition("/")
        return any(name == other for other, _ in self.entries(folder))

    def matches(self, name: str, part: str) -> bool:
        """Say whether a name matches."""
        return fnmatchcase(name, part)

    def _list(self, folder: str) -> Sequence[Entry]:
        try:
            with touching(self._system.unstrip_protocol(folder), key=self._key):
                listed = self._system.ls(f"{folder}/", detail=True)
        except ConfigError as error:
            if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
                return ()
            raise _not_listed(error) from error
        kinds = {info["name"].rstrip("/"): info["type"] for info in listed}
        inside = {path: kind for path, kind in kinds.items() if path == _join(folder, _name(path))}
        self.kinds |= inside  # a web page links to other folders as well
        return sorted((_name(path), kind == "directory") for path, kind in inside.items())


def _below(tree: _Tree, folder: str, parts: Sequence[str]) -> Iterator[str]:
    """Return the paths below a folder that match the parts of a pattern."""
    part, rest = parts[0], parts[1:]
    if part == ANY_DEPTH:
        yield from _below_any(tree, folder, rest)
    elif is_pattern(part):
        for name, is_folder in tree.entries(folder):
            if tree.matches(name, part):
                path = _join(folder, name)
                if not rest:
                    yield path
                elif is_folder:
                    yield from _below(tree, path, rest)
    elif rest:
        yield from _below(tree, _join(folder, part), rest)
    elif tree.exists(_join(folder, part)):
        yield _join(folder, part)


def _below_any(tree: _Tree, folder: str, rest: Sequence[str]) -> Iterator[str]:
    """Return what the rest of a pattern matches in a folder and in each below it, or all if none is."""
    if rest:
        yield from _below(tree, folder, rest)
    for name, is_folder in tree.entries(folder):
        if tree.matches(name, "*"):
            path = _join(folder, name)
            if not rest:
                yield path
            if is_folder:
                yield from _below_any(tree, path, rest)


def _split(pattern: str) -> tuple[str, list[str]]:
    """Cut a pattern before its first wildcard: "a/b/*/c" -> "a/b", ["*", "c"]; "**" twice is once."""
    parts = pattern.rstrip("/").split("/")
    first = next(number for number, part in enumerate(parts) if is_pattern(part))
    wild = [part for part in parts[first:] if part not in ("", ".")]
    once = [
        part for before, part in zip(["", *wild], wild, strict=False) if not part == before == ANY_DEPTH
    ]
    return "/".join(parts[:first]) or "/" * bool(first), once


def _join(folder: str, name: str) -> str:
    return f"{folder}{'' if folder in ('', '/') else '/'}{name}"


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _may_be_folder(entry: os.DirEntry[str]) -> bool:
    """Say whether an entry is a folder; of a link that cannot be followed, listing it will say."""
    try:
        return entry.is_dir()
    except OSError as error:
        return error.errno not in _NOT_THERE


def _not_listed(error: ConfigError) -> ConfigError:
    return ConfigError(
        f"{error}: the folder cannot be listed, and files in it would be missing; give this user the"
        " right to list it, or name the files so that no pattern passes it"
    )


def _is_not_there(error: ConfigError) -> bool:
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in _NOT_THERE


def _lists_trees(system: Any) -> bool:
    """Say whether a driver lists a whole tree at once, as those of object stores do."""
    from fsspec import AbstractFileSystem  # noqa: PLC0415  # imported only where a URL is read
    from fsspec.asyn import AsyncFileSystem  # noqa: PLC0415  # likewise

    kind = type(system)
    own = getattr(kind, "_find", AsyncFileSystem._find) is not AsyncFileSystem._find  # noqa: SLF001  # what it overrides
    return own or kind.find is not AbstractFileSystem.find
