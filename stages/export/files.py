"""The files of an export: written in appends, each known by its bytes and SHA-256 so far.

A part of an export, one shard or one index, opens files by name and appends. After each part every file
is on the disk, and `commit` says how far those are that grew; a journal that keeps this can bring a
folder back to the end of any part, whatever a crash left behind it:

    part 0   train.bin |=====|
    part 1   train.bin |=====|=======|
    crash    train.bin |=====|=======|===x       restored: cut back to the second bar

Any format gets that for nothing, whether its shards share one file or have one each.
"""

import hashlib
import io
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from stages.config import Config
from stages.errors import FormatError
from stages.store.digests import sync_path
from stages.store.folders import files_below

_BLOCK_BYTES = 1 << 22


class WrittenFile(Config):
    """How far a file is."""

    bytes: int
    sha256: str


class AppendedFile(io.RawIOBase):
    """A file that only grows, hashed as it does; closing it brings it to the disk.

    Args:
        file: open for appending.
        sha256: of what it holds already.
        size: bytes that it holds already.
    """

    def __init__(self, file: BinaryIO, sha256: "hashlib._Hash", size: int) -> None:
        super().__init__()
        self._file = file
        self.sha256 = sha256
        self.size = size

    def writable(self) -> bool:
        """Say yes."""
        return True

    def tell(self) -> int:
        """Return the bytes so far."""
        return self.size

    def write(self, data: "io.ReadableBuffer") -> int:  # type: ignore[name-defined]
        """Append bytes, or an array of one run of memory."""
        view = memoryview(data).cast("B")
        with self._named():
            self._file.write(view)
        self.sha256.update(view)
        self.size += len(view)
        return len(view)

    def close(self) -> None:
        """Bring it to the disk."""
        if self.closed:
            return
        super().close()
        with self._named(), self._file:
            self._file.flush()
            os.fsync(self._file.fileno())

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Let an error say which file it is."""
        try:
            yield
        except OSError as error:
            error.filename = self._file.name
            raise


class ExportFiles:
    """The files of an export in a folder.

    Args:
        folder: where they are.
        written: how far each one is, from the journal of an export that was stopped.
    """

    def __init__(self, folder: Path, written: Mapping[str, WrittenFile]) -> None:
        self._folder = folder
        self._written = dict(written)
        self._open: dict[str, AppendedFile] = {}
        self._appended: set[str] = set()
        self._read: dict[str, hashlib._Hash] = {}

    @property
    def written(self) -> dict[str, WrittenFile]:
        """How far each file is; all are on the disk."""
        return dict(sorted({**self._written, **self._since()}.items()))

    def commit(self) -> dict[str, WrittenFile]:
        """Return how far the files are that were appended to since the last call."""
        since = self._since()
        self._written |= since
        self._appended.clear()
        return since

    def _since(self) -> dict[str, WrittenFile]:
        found = {}
        for name in sorted(self._appended):
            file = self._open[name]
            assert file.closed, f"{name} was left open"
            found[name] = WrittenFile(bytes=file.size, sha256=file.sha256.hexdigest())
        return found

    def append(self, name: str) -> AppendedFile:
        """Open a file to append to it; use it in a `with`.

        Args:
            name: POSIX path in the folder.

        Raises:
            FormatError: what it holds is not what was committed.
        """
        path = self._folder / name
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True)
            sync_path(path.parent.parent)
        sha256, size = self._so_far(name)
        file = AppendedFile(path.open("ab"), sha256, size)
        if not size:
            sync_path(path.parent)
        self._open[name] = file
        self._appended.add(name)
        return file

    def write(self, name: str, data: bytes) -> None:
        """Append bytes to a file."""
        with self.append(name) as file:
            file.write(data)

    @contextmanager
    def scratch(self, name: str) -> Iterator[Path]:
        """Yield the path of a file that goes again, for a library that appends to none.

        Args:
            name: of a file that is open for appending, in whose folder it is.
        """
        path = self._folder / f"{name}.scratch"
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def restore(self, *, besides: Collection[str] = ()) -> None:
        """Bring the folder back to what was committed: cut what is longer, remove what is unknown.

        Args:
            besides: names that are no files of the export.

        Raises:
            FormatError: a file is not what was committed of it, or gone.
        """
        found = {p.relative_to(self._folder).as_posix(): p for p in files_below(self._folder)}
        for name, path in found.items():
            if name not in self._written and name not in besides:
                path.unlink()
        for name, known in self._written.items():
            size = found[name].stat().st_size if name in found else 0
            if size < known.bytes:
                raise FormatError(
                    f"{self._folder / name}: {size:,} bytes of {known.bytes:,} that were committed; it"
                    f" was changed, so delete {self._folder} and export again"
                )
            if size > known.bytes:
                os.truncate(found[name], known.bytes)
            self._read[name] = self._hash(name, known)

    def _so_far(self, name: str) -> "tuple[hashlib._Hash, int]":
        """Return the running hash and size of a file."""
        if name in self._open:
            return self._open[name].sha256, self._open[name].size
        known = self._written.get(name)
        if known is None:
            return hashlib.sha256(), 0
        return self._read.pop(name, None) or self._hash(name, known), known.bytes

    def _hash(self, name: str, known: WrittenFile) -> "hashlib._Hash":
        """Return the hash of a file of an earlier session, whose bytes must be the committed ones."""
        sha256 = hashlib.sha256()
        with (self._folder / name).open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                sha256.update(block)
        if sha256.hexdigest() != known.sha256:
            raise FormatError(
                f"{self._folder / name}: its bytes are not those that were committed; delete"
                f" {self._folder} and export again"
            )
        return sha256
