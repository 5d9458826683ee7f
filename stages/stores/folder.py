"""Objects in a folder, for reading what a tool has copied there from a bucket: an object is a file."""

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from stages.store.folders import files_below
from stages.stores.store import FoundObject, Listed, is_key


class FolderStore:
    """A folder whose files are the objects; it is only read.

    Args:
        folder: of the objects.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def place(self) -> str:
        """The folder, for messages."""
        return str(self.folder)

    def at(self, key: str) -> "FolderStore":
        """Return the store of all that lies below a key."""
        return FolderStore(self.folder / key)

    def get(self, key: str, begin: int = 0, end: int | None = None) -> FoundObject | None:
        """Return the bytes of an object, or a range of them; None if there is no such object."""
        try:
            with (self.folder / key).open("rb") as file:
                file.seek(begin)
                data = file.read(-1 if end is None else max(end - begin, 0))
                return FoundObject(data, _tag(os.fstat(file.fileno())))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def list(self, prefix: str) -> Iterator[Listed]:
        """Yield the objects below a prefix, sorted by key."""
        for path in sorted(files_below(self.folder / prefix)):
            key = path.relative_to(self.folder).as_posix()
            if is_key(key):
                found = path.stat()
                yield Listed(key, found.st_size, _tag(found))

    def put(self, key: str, file: Path) -> str:
        """Not asked for."""
        raise AssertionError(key, file)

    def put_new(self, key: str, data: bytes) -> str | None:
        """Not asked for."""
        raise AssertionError(key, data)

    def replace(self, key: str, data: bytes, tag: str) -> str | None:
        """Not asked for."""
        raise AssertionError(key, data, tag)

    def delete(self, keys: Collection[str]) -> None:
        """Not asked for."""
        raise AssertionError(keys)


def _tag(found: os.stat_result) -> str:
    """Return what a folder says of a file's content: it changes with each that is written there."""
    return f"{found.st_size}-{found.st_mtime_ns}"
