"""Place files: an input file that is open, local or behind a URL.

What its disk or server raises while it is read names the file. A local path is opened only if it is a
regular file, and in a way that never waits: a FIFO that took a file's place would wait for ever.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from pipeline.inputs.place_faults import touching
from pipeline.inputs.places import Place, file_system, require_regular
from pipeline.system.regular_files import open_regular


@contextmanager
def open_place(place: Place, *, key: str) -> Iterator[BinaryIO]:
    """Open a file for reading bytes.

    Args:
        place: the file.
        key: what messages begin with, such as "sources.web".

    Raises:
        ConfigError: there is no such file, or it may not be read.
        Stopped: it cannot be read now.
    """
    with touching(place, key=key):
        file = _open_local(place, key) if isinstance(place, Path) else _open_remote(place, key)
    try:
        yield cast("BinaryIO", PlaceFile(file, place, key=key))
    finally:
        with touching(place, key=key):
            file.close()


class PlaceFile(io.RawIOBase):
    """A file whose errors name it."""

    def __init__(self, file: BinaryIO, place: Place, *, key: str) -> None:
        self._file = file
        self._place = place
        self._key = key

    def readable(self) -> bool:
        """Return true."""
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """Read some bytes; fewer do not mean the end, none do."""
        with touching(self._place, key=self._key):
            return self._file.read(-1 if size is None else size)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position."""
        with touching(self._place, key=self._key):
            return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the position."""
        with touching(self._place, key=self._key):
            return self._file.tell()


def _open_local(path: Path, key: str) -> BinaryIO:
    check = partial(require_regular, path, key=key)
    return cast("BinaryIO", io.FileIO(open_regular(path, check)))


def _open_remote(url: str, key: str) -> BinaryIO:
    system, path = file_system(url, key=key)
    return cast("BinaryIO", system.open(path, "rb"))
