"""Storage: named objects under a run's folder, and the three verbs that commits need.

    put_new(key, data)   all or nothing, and only if there is no such object
    get(key)             its bytes, or None
    list(prefix)         keys, sorted

An object store offers the same three (a conditional put, a get, a listing) without any rename, so the
protocol of `pipeline.state.commits` carries over. Keys are POSIX paths of plain names.
"""

import contextlib
import os
import uuid
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from stages.errors import DataError
from stages.store.digests import sync_path
from stages.store.folders import files_below
from stages.stores.store import is_key

TEMPORARY = "tmp"


class LocalStorage:
    """A run in a local folder (or one mounted on every node).

    Args:
        root: the run's folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.temporary = root / TEMPORARY
        """Folder of files that no commit names yet."""
        self._prefix = f"{root}/"
        self._lasting: set[Path] = set()
        self._own: set[Path] = set()
        self._ready: set[str] = set()
        """Folders that hold files under keys, or may: they are the run's own, and last."""

    def path(self, key: str) -> Path:
        """Return the place of a key; a key can never leave the root."""
        assert is_key(key), key
        return self.root / key

    def put_new(self, key: str, data: bytes) -> bool:
        """Write beside, then link under the key: the link fails if there is one."""
        target = self.path(key)
        self._require_own(target.parent)
        self._make_folder(target.parent)
        beside = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        try:
            with beside.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            is_new = _link(beside, target)
        finally:
            beside.unlink(missing_ok=True)
        if is_new:
            sync_path(target.parent)
        return is_new

    def link_new(self, written: str, key: str) -> bool:
        """Put a finished file under a key, too, if nothing is there; `sync_folders` makes that last.

        Returns:
            Whether nothing else was there.
        """
        assert is_key(key), key
        target, folder = f"{self._prefix}{key}", key.rpartition("/")[0]
        try:
            self._make_ready(folder)
            return _link(written, target)
        except FileNotFoundError:  # another process removed the folder, which was empty
            self._ready.clear()
            self._lasting.clear()
            self._make_ready(folder)
            return _link(written, target)

    def _make_ready(self, folder: str) -> None:
        if folder not in self._ready:
            self._require_own(self.root / folder)
            self._make_folder(self.root / folder)
            self._ready.add(folder)

    def get(self, key: str) -> bytes | None:
        """Return an object's bytes, or None."""
        try:
            return self.path(key).read_bytes()
        except FileNotFoundError:
            return None

    def size(self, key: str) -> int | None:
        """Return the bytes of an object, or None if there is none."""
        assert is_key(key), key
        try:
            return os.stat(f"{self._prefix}{key}").st_size  # noqa: PTH116  # of every file of a run, often
        except (FileNotFoundError, NotADirectoryError):
            return None

    def list(self, prefix: str) -> Iterator[str]:
        """Yield the keys below a prefix, sorted; half-written objects have no key."""
        for path in sorted(files_below(self.path(prefix))):
            key = path.relative_to(self.root).as_posix()
            if not path.name.startswith(".") and is_key(key):
                yield key

    def delete(self, key: str) -> None:
        """Remove an object, if there.

        Raises:
            DataError: a folder stands there, or the object is reached through a link.
        """
        path = self.path(key)
        self._require_own(path.parent)
        if path.is_dir() and not path.is_symlink():
            raise DataError(f"{path}: is a folder, where the run had a file; move it away and run again")
        path.unlink(missing_ok=True)

    def remove_empty(self, folders: Iterable[Path]) -> None:
        """Remove those of some folders in the run that hold nothing, the innermost first."""
        for folder in sorted(folders, key=lambda one: len(one.parts), reverse=True):
            path = self.root / folder
            if path != self.root and path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
                path.rmdir()
                self._lasting.discard(path)
                self._ready.discard(str(folder))

    def publish(self, temporary: Path, key: str) -> None:
        """Rename a finished file to its key.

        Raises:
            DataError: a folder stands there, or a folder above is a link.
        """
        target = self.path(key)
        self._require_own(target.parent)
        self._make_folder(target.parent)
        if target.is_dir() and not target.is_symlink():
            raise DataError(
                f"{target}: is a folder, where the run puts a file; move it away and run again"
            )
        os.replace(temporary, target)  # noqa: PTH105  # rename(2), said plainly

    def sync_folders(self, keys: Collection[str]) -> None:
        """Bring the folders of some keys to the disk."""
        for folder in {self.path(key).parent for key in keys}:
            sync_path(folder)

    def _require_own(self, folder: Path) -> None:
        """Refuse to change what a link in the run leads to: it may belong to another run."""
        if folder in self._own:
            return
        own = folder
        while folder != self.root:
            if folder.is_symlink():
                raise DataError(
                    f"{folder}: is a symbolic link; the folders of a run hold its own files. Remove the"
                    " link, and move the files that it leads to there if they are of this run"
                )
            folder = folder.parent
        self._own.add(own)

    def _make_folder(self, folder: Path) -> None:
        """Make a folder of the run, and sync its name before it holds anything.

        The name is synced even if the folder is there: who made it may have been killed before the sync.
        """
        if folder in self._lasting:
            return
        if folder == self.root:
            make_folder(folder)
        else:
            self._make_folder(folder.parent)
            folder.mkdir(exist_ok=True)
            sync_path(folder.parent)
        self._lasting.add(folder)


def _link(written: str | Path, target: str | Path) -> bool:
    """Link a file under another name, too; say whether that name is now this file's.

    A server of NFS that is asked twice, since its answer was lost, says that there is one already.
    """
    try:
        os.link(written, target)
    except FileExistsError:
        return os.path.samestat(os.lstat(written), os.lstat(target))
    return True


def make_folder(folder: Path) -> None:
    """Make a folder and its parents, so that a power cut leaves them there."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for place in missing or [folder]:
        with contextlib.suppress(PermissionError):  # one may write into a folder that none may list
            sync_path(place.parent)


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file's content: a kill or a power cut leaves the old or the new one, whole."""
    beside = path.with_name(f".{path.name}")
    beside.write_bytes(data)
    sync_path(beside)
    beside.replace(path)
    sync_path(path.parent)
