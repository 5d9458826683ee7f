"""Checked files: an input file of which each block is held to its digest before a byte of it is used.

A scan took the file's size and the XXH3-64 of each block of 4 MiB. Whoever reads the file later sees
these bytes or an error that names the block. The bytes that are checked are the bytes that are given
out: a block is read once, hashed in memory, and served from there.

In the flow: **raw bytes of a file** -> decompressed bytes or pages of a table -> lines, rows, records.
"""

import io
from collections import OrderedDict
from collections.abc import Iterator
from typing import BinaryIO, cast

import numpy as np
import xxhash
from numpy.typing import NDArray

from stages.errors import ChangedInputError

BLOCK_BYTES = 4 << 20
"""Bytes of a block; the last one of a file is shorter."""
KEPT_BLOCKS = 4
"""Blocks held at a time: readers of tables go to and fro between the footer and a few columns."""
WAY_OUT = (
    "restore the file and run the same command again, or, if the change is meant, run again with"
    " --replace"
)


def block_digest(block: bytes) -> int:
    """Return the digest of a block of a file: XXH3-64, seed 0."""
    return xxhash.xxh3_64_intdigest(block)


def read_blocks(file: BinaryIO) -> Iterator[bytes]:
    """Read a file from where it stands to its end, block by block."""
    while block := read_fully(file, BLOCK_BYTES):
        yield block


def read_fully(file: BinaryIO, size: int) -> bytes:
    """Read some bytes, fewer only at the end: servers and raw files may give less at a time."""
    data = file.read(size)
    if not data or len(data) == size:
        return data or b""
    parts, size_read = [data], len(data)
    while size_read < size and (data := file.read(size - size_read)):
        parts.append(data)
        size_read += len(data)
    return b"".join(parts)


def checked_file(file: BinaryIO, *, size: int, blocks: NDArray[np.uint64], name: str) -> BinaryIO:
    """Return a file that gives the bytes of another one as they were when it was scanned.

    Args:
        file: the file as it is now; it is sought only where it does not stand already.
        size: bytes it had.
        blocks: (ceil(size / BLOCK_BYTES),) digests of its blocks.
        name: what messages call it.
    """
    return cast("BinaryIO", CheckedFile(file, size=size, blocks=blocks, name=name))


class CheckedFile(io.RawIOBase):
    """A readable, seekable file that refuses a byte that was not scanned; see `checked_file`."""

    def __init__(self, file: BinaryIO, *, size: int, blocks: NDArray[np.uint64], name: str) -> None:
        assert len(blocks) == -(-size // BLOCK_BYTES), (name, size, len(blocks))
        self._file = file
        self._size = size
        self._blocks = blocks
        self._name = name
        self._position = 0
        self._file_position = 0
        self._kept: OrderedDict[int, bytes] = OrderedDict()

    def readable(self) -> bool:
        """Return true."""
        return True

    def seekable(self) -> bool:
        """Return true."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position; nothing is read."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError(f"{self._name}: no position {start + offset}")
        self._position = start + offset
        return self._position

    def readall(self) -> bytes:
        """Read to the end."""
        return self.read(-1)

    def read(self, size: int | None = -1, /) -> bytes:
        """Read as many bytes as asked for, fewer only at the end.

        Raises:
            ChangedInputError: a block differs from what was scanned.
        """
        left = max(0, self._size - self._position)
        wanted = left if size is None or size < 0 else min(size, left)
        if not self._size:
            self._block(0)
        parts = []
        while wanted:
            number, offset = divmod(self._position, BLOCK_BYTES)
            part = self._block(number)[offset : offset + wanted]
            parts.append(part)
            self._position += len(part)
            wanted -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _block(self, number: int) -> bytes:
        """Return a block of which every byte was checked."""
        block = self._kept.get(number)
        if block is None:
            while len(self._kept) >= KEPT_BLOCKS:  # first, so that no more than these are held
                self._kept.popitem(last=False)
            block = self._kept[number] = self._checked(number)
        self._kept.move_to_end(number)
        return block

    def _checked(self, number: int) -> bytes:
        """Read a block and hold it to its digest; after the last one the file must end."""
        first = number * BLOCK_BYTES
        size = min(BLOCK_BYTES, self._size - first)
        if self._file_position != first:
            self._file.seek(first)
        block = read_fully(self._file, size)
        self._file_position = first + len(block)
        if len(block) == size and (not size or block_digest(block) == self._blocks[number]):
            if first + size == self._size:
                self._require_end()
            return block
        place = f"block {number} (bytes {first:,} to {first + size:,})"
        if len(block) < size:
            found = f"{place} has {len(block):,} bytes; it had {size:,} when the file was scanned"
        else:
            digests = (f"{digest:016x}" for digest in (block_digest(block), int(self._blocks[number])))
            found = "{} has the XXH3-64 {}; it had {} when the file was scanned".format(place, *digests)
        raise self._changed(found)

    def _require_end(self) -> None:
        if more := self._file.read(1):
            self._file_position += len(more)
            raise self._changed(
                f"it goes on after {self._size:,} bytes, where it ended when it was scanned"
            )

    def _changed(self, found: str) -> ChangedInputError:
        return ChangedInputError(
            f"{self._name}: {found}; the file changed while the run was reading it: {WAY_OUT}",
            self._name,
        )
