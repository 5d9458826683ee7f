"""Materialised epochs: columns that were drawn once and are read from their files since."""

import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from stages.errors import FormatError
from stages.loading.lru_cache import LruCache, affordable
from stages.objectives.rows import Columns
from stages.store.arrays import open_array
from stages.store.digests import FileDigest, xxh3_file
from stages.store.drawn import DrawnManifest
from stages.stores.mounts import StoredFiles

MAX_OPEN_FOLDERS = 32
"""Folders of drawn columns mapped at a time: 256 descriptors at most. Fewer where `ulimit -n` is low."""
_FILES_OF_FOLDER = 8


class DrawnEpochs:
    """The materialised epochs of a split.

    Args:
        folder: the split's.
        manifest: of its epochs.
        rows: of each shard of the dataset.
        check: whether files are hashed when they are first touched.
        stored: brings the files, if they lie in a store.
    """

    def __init__(
        self,
        folder: Path,
        manifest: DrawnManifest,
        *,
        rows: Sequence[int],
        check: bool,
        stored: StoredFiles | None = None,
    ) -> None:
        self.epochs = manifest.epochs
        self.folder = folder
        self._manifest = manifest
        self._rows = rows
        self._check = check
        self._stored = stored
        self._part, self._most = 0, MAX_OPEN_FOLDERS
        self._mapped = kept_folders()
        self._checked: set[tuple[int, int]] = set()

    def read(self, epoch: int, shard: int, rows: NDArray[np.int64]) -> Columns:
        """Return the columns of some rows of a shard, each (N, ...)."""
        columns = self._mapped.get((self._part, epoch, shard), self._map)
        return {name: column[rows] for name, column in columns.items()}

    def share_descriptors(self, datasets: int) -> None:
        """Map so many times fewer folders at a time."""
        bound = affordable(MAX_OPEN_FOLDERS, files=_FILES_OF_FOLDER) // datasets
        self._mapped.bound = max(1, min(bound, self._most))

    def hold_folders(self, folders: int) -> None:
        """Map at most so many folders at a time, of whichever epochs."""
        self._most = folders
        self._mapped.bound = max(1, min(self._mapped.bound, folders))

    def keep_in(self, mapped: "KeptFolders", part: int) -> None:
        """Keep mapped folders among those of other parts, with which they share a bound."""
        self._mapped, self._part = mapped, part

    def move(self, folder: Path) -> None:
        """Read another folder from now on, whose files nobody has checked."""
        self.folder = folder
        self._checked = set()

    def release(self) -> None:
        """Unmap all folders."""
        self._mapped.clear()

    @property
    def shard_bytes(self) -> list[int]:
        """Bytes of each shard, in the epoch that has most of it."""
        epochs = [
            [sum(file.bytes for file in shard.files.values()) for shard in epoch]
            for epoch in self._manifest.shards
        ]
        return [max(sizes) for sizes in zip(*epochs, strict=True)]

    def counts(self, epoch: int, shard: int) -> dict[str, int]:
        """Return what was counted apart of a shard in an epoch."""
        return self._manifest.shards[epoch][shard].counts

    def _map(self, kept: tuple[int, int, int]) -> Columns:
        _, epoch, number = kept
        key = epoch, number
        shard = self._manifest.shards[epoch][number]
        first, hold = self._check and key not in self._checked, None
        if self._stored is not None:
            hold = self._stored.bring_sound(self.folder / shard.path, shard.files, check=first)
        elif first:
            check_digests(self.folder / shard.path, shard.files)
        self._checked.add(key)
        columns = DrawnColumns(
            (name, self._open(self.folder / shard.path / f"{name}.npy", name, self._rows[number]))
            for name in self._manifest.columns
        )
        if hold is not None:
            weakref.finalize(columns, hold.end)
        return columns

    def _open(self, path: Path, name: str, rows: int) -> NDArray[np.integer]:
        column = self._manifest.columns[name]
        array = open_array(path, shape=(rows, *column.shape), dtype=column.dtype)
        return cast("NDArray[np.integer]", array)


KeptFolders = LruCache[tuple[int, int, int], Columns]
"""Mapped folders, by the part of a dataset, the epoch and the shard."""


def kept_folders() -> KeptFolders:
    """Return what keeps as many folders as a process may map."""
    return LruCache(affordable(MAX_OPEN_FOLDERS, files=_FILES_OF_FOLDER))


class DrawnColumns(dict[str, NDArray[np.integer]]):
    """Columns of a shard, mapped; a plain dict cannot be told of when it goes."""


def check_digests(folder: Path, files: dict[str, FileDigest]) -> None:
    """Refuse files that are not the ones a manifest names."""
    check_sizes(folder, files)
    for name, digest in files.items():
        path = folder / name
        if xxh3_file(path) != digest.xxh3:
            raise FormatError(
                f"{path}: its bytes are not those of the manifest; it was changed,"
                " so copy the dataset again, or make it anew"
            )


def check_sizes(folder: Path | str, files: dict[str, FileDigest]) -> None:
    """Refuse files that are missing or of another size than a manifest says.

    A folder given as text saves making a Path for each of thousands of shards, which takes longer than
    looking at their files.
    """
    for name, digest in files.items():
        path = f"{folder}/{name}"
        try:
            size = os.stat(path).st_size  # noqa: PTH116  # see above
        except OSError:
            size = -1
        if size != digest.bytes:
            found = f"{size:,} bytes" if size >= 0 else "missing"
            raise FormatError(
                f"{path}: {found}, but the manifest says {digest.bytes:,} bytes; copy the dataset again,"
                " or make it anew"
            )
