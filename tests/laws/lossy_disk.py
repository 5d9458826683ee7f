"""A disk that loses, at a power cut, what was not synced: what POSIX allows, no more and no less.

A file's bytes outlast a power cut once the file was synced, a name once its folder was synced. Whatever
happened since then may be there, in part or not at all, in any order: a name may be missing, a removed
one may be back, a file may be empty, cut or full of zeros. File systems promise more, and a run must not
lean on that.

`LossyDisk` watches real code at work below a folder: it stands in for the functions of `os` that sync,
name and remove. Writers are not watched, because a file's content is read when the file is synced; so
pyarrow and memory maps are seen too. Nothing is really synced, which changes nothing while power is on.
`survive` writes a folder as a power cut at one of the watched moments could have left it.
"""

import os
import random
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from unittest.mock import patch

WATCHED = ("fsync", "replace", "rename", "link", "unlink", "remove", "mkdir", "rmdir")
_REMOVING = {"unlink", "remove", "rmdir"}
_MOVING = {"replace", "rename"}


@dataclass(frozen=True, eq=False)
class File:
    """A file at one moment."""

    synced: bytes | None
    """Its content when it was last synced."""
    live: bytes
    """Its content now."""


@dataclass(frozen=True, eq=False)
class Folder:
    """A folder at one moment."""

    synced: Mapping[str, "File | Folder"]
    """What it held when it was last synced."""
    live: Mapping[str, "File | Folder"]
    """What it holds now."""


@dataclass(frozen=True)
class Moment:
    """A moment at which the power may go: before one call."""

    number: int
    call: str
    folder: Folder


@dataclass(eq=False)
class _Node:
    """A file or folder for as long as it exists, under whatever names."""

    is_folder: bool
    synced: bytes | None = None
    names: dict[str, "_Node"] = field(default_factory=dict)
    """Of a folder: what it held when it was last synced."""


class KilledError(Exception):
    """Stands for the end of the process; the power stays on."""


class LossyDisk:
    """Watches what is done below a folder while the context lasts.

    Args:
        root: the folder; it and what it holds at the start count as synced.
        every: one of so many calls is a moment that is kept,
        phase: from this one on.
    """

    def __init__(self, root: Path, *, every: int = 1, phase: int = 0) -> None:
        self.calls = 0
        self.moments: list[Moment] = []
        self.kill_at: int | None = None
        """The number of a call that ends the process instead."""
        self._root = root.resolve()
        self._every, self._phase = every, phase
        self._nodes: dict[int, _Node] = {}
        self._undo = ExitStack()

    def __enter__(self) -> Self:
        """Take what is there as synced, and begin to watch."""
        self._sync_all(self._root)
        for name in WATCHED:
            self._undo.enter_context(patch.object(os, name, self._watch(name, getattr(os, name))))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop watching, and keep the moment after the last call."""
        self._undo.close()
        self.moments.append(Moment(self.calls, "the end", self._image()))

    def _watch(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            place = _place(args[0], kwargs)
            if not place.is_relative_to(self._root):
                return None if name == "fsync" else real(*args, **kwargs)
            if self.calls == self.kill_at:
                raise KilledError
            if self.calls % self._every == self._phase:
                call = f"{name} {place.relative_to(self._root)}"
                self.moments.append(Moment(self.calls, call, self._image()))
            self.calls += 1
            if name == "fsync":
                return self._sync(args[0])
            gone = None
            if name in _REMOVING:
                gone = _inode(place)
            elif name in _MOVING:
                gone = _inode(Path(os.fspath(args[1])))
            result = real(*args, **kwargs)
            if gone is not None:
                self._nodes.pop(gone, None)  # the system may give its number to another file
            return result

        return watched

    def _sync(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        node = self._node(status)
        if node.is_folder:
            with os.scandir(descriptor) as entries:
                node.names = {e.name: self._node(e.stat(follow_symlinks=False)) for e in entries}
        else:
            node.synced = Path(f"/proc/self/fd/{descriptor}").read_bytes()

    def _sync_all(self, folder: Path) -> None:
        node = self._node(folder.stat())
        for path in folder.iterdir():
            child = node.names[path.name] = self._node(path.stat())
            if child.is_folder:
                self._sync_all(path)
            else:
                child.synced = path.read_bytes()

    def _node(self, status: os.stat_result) -> _Node:
        return self._nodes.setdefault(status.st_ino, _Node(stat.S_ISDIR(status.st_mode)))

    def _image(self) -> Folder:
        """Return the folder as it is now, with what of it is synced."""
        contents: dict[_Node, bytes] = {}
        names: dict[_Node, dict[str, _Node]] = {}
        root = self._look(self._root, contents, names)
        images: dict[_Node, File | Folder] = {}

        def image(node: _Node) -> File | Folder:
            if node not in images:
                if node.is_folder:
                    synced = {name: image(one) for name, one in node.names.items()}
                    live = {name: image(one) for name, one in names.get(node, {}).items()}
                    images[node] = Folder(synced, live)
                else:  # one that has no name left is as it was synced
                    images[node] = File(node.synced, contents.get(node, node.synced or b""))
            return images[node]

        folder = image(root)
        assert isinstance(folder, Folder)
        return folder

    def _look(
        self, path: Path, contents: dict[_Node, bytes], names: dict[_Node, dict[str, _Node]]
    ) -> _Node:
        """Note what is there now, below a path."""
        node = self._node(path.stat())
        if node.is_folder:
            names[node] = {one.name: self._look(one, contents, names) for one in path.iterdir()}
        else:
            contents[node] = path.read_bytes()
        return node


def _place(argument: Any, kwargs: Mapping[str, Any]) -> Path:
    """Return the whole path of what a call is about."""
    if isinstance(argument, int):
        return Path(f"/proc/self/fd/{argument}").readlink()
    folder = kwargs.get("dir_fd")
    base = Path.cwd() if folder is None else Path(f"/proc/self/fd/{folder}").readlink()
    return base / str(os.fspath(argument))


def _inode(path: Path) -> int | None:
    """Return the number of a file that the next call removes; None if another name of it stays."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return status.st_ino if stat.S_ISDIR(status.st_mode) or status.st_nlink == 1 else None


class Fate:
    """Decides what of the unsynced outlasts a power cut.

    Args:
        kept: the part of changed names that is there; 0: none, 1: all.
        seed: of everything else.
    """

    def __init__(self, kept: float, seed: int) -> None:
        self._kept = kept
        self._random = random.Random(seed)  # noqa: S311  # what a disk loses, no secret
        self._contents: dict[File, bytes] = {}

    def happened(self) -> bool:
        """Say whether one change of a name is there."""
        return self._random.random() < self._kept

    def content(self, file: File) -> bytes:
        """Return what a file holds, the same under each of its names."""
        if file not in self._contents:
            before, now = file.synced or b"", file.live
            torn = [before, now, now[: len(now) // 2], bytes(len(now))]
            self._contents[file] = now if file.synced == now else self._random.choice(torn)
        return self._contents[file]


def survive(folder: Folder, target: Path, fate: Fate) -> None:
    """Write what a power cut leaves of a folder."""
    target.mkdir()
    for name in sorted({*folder.synced, *folder.live}):
        before, now = folder.synced.get(name), folder.live.get(name)
        entry = now if before is not now and fate.happened() else before
        if isinstance(entry, Folder):
            survive(entry, target / name, fate)
        elif entry is not None:
            (target / name).write_bytes(fate.content(entry))


def fates(moment: Moment) -> Iterator[Fate]:
    """Return what may become of a moment: all changes of names lost, all kept, some kept."""
    for draw, kept in enumerate((0.0, 1.0, 0.5)):
        yield Fate(kept, moment.number * 7 + draw)
