"""Scan: what is kept of each input file before anything is read of it.

Size, XXH3-128 of all bytes, XXH3-64 of each block of 4 MiB, and the slices that can be read apart: by
bytes with the line feeds before each, or by row groups with the rows before each. A task scans a few
files one after the other; their digests of blocks go to one file.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
import xxhash
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.inputs.files import FoundFile
from pipeline.inputs.place_files import open_place
from pipeline.inputs.places import place_status
from stages.config import Config
from stages.errors import DataError, Stopped
from stages.reading.checked import block_digest, checked_file, read_blocks
from stages.reading.reader import TableReader
from stages.reading.slices import Slice, byte_slices

_LINE_FEED = ord("\n")


@dataclass(frozen=True)
class ScanWork:
    """The files of one task."""

    name: str
    files: Sequence[FoundFile]
    fingerprints: Sequence[str]
    """Of each file: its stamp, and what decides its slices."""

    @property
    def blocks(self) -> str:
        """Return the key of the digests of their blocks, one file after the other."""
        return f"scan/{self.name}/blocks.npy"


class ScannedFile(Config):
    """What is known of one file."""

    fingerprint: str
    source: str
    path: str
    size: int
    digest: str
    """XXH3-128 of its bytes."""
    end: int | None
    """Its bytes, or rows of a table; None if it is compressed or in another encoding."""
    slices: tuple[tuple[int, int, int, int], ...] | None
    """First, last, what stands before and what is held of each, as `stages.reading.formats.Slice`."""
    first_block: int
    """Where its digests begin in the task's array."""
    blocks: int


class ScanRecord(Config):
    """What a task reports."""

    files: tuple[ScannedFile, ...]


def scan_files(workspace: Workspace, work: ScanWork) -> ScanRecord:
    """Scan some files and write the digests of their blocks."""
    digests: list[NDArray[np.uint64]] = []
    files, first = [], 0
    for file, fingerprint in zip(work.files, work.fingerprints, strict=True):
        scanned, blocks = scan_file(file, fingerprint, first_block=first)
        files.append(scanned)
        digests.append(blocks)
        first += len(blocks)
    np.save(workspace.create(work.blocks), np.concatenate(digests).astype("<u8", copy=False))
    return ScanRecord(files=tuple(files))


def scan_file(
    file: FoundFile, fingerprint: str, *, first_block: int = 0
) -> tuple[ScannedFile, NDArray[np.uint64]]:
    """Read one file from front to back; return what to keep of it, and the digests of its blocks.

    Raises:
        ConfigError: a table without the columns that its source takes.
        DataError: a table that is cut or damaged; a file that changes while it is scanned.
        Stopped: it cannot be read now.
    """
    _require_unchanged(file)
    check_columns_of(file)
    size, digest, blocks, line_feeds = _read(file)
    slices, end = None, size if file.is_plain else None
    if isinstance(file.reader, TableReader):
        slices, end = _table_slices(file, file.reader, size, blocks)
    elif file.is_cut_by_bytes:
        slices = byte_slices(size, file.unit_size, line_feeds)
    _require_unchanged(file)
    scanned = ScannedFile(
        fingerprint=fingerprint,
        source=file.source,
        path=file.path,
        size=size,
        digest=digest,
        end=end,
        slices=None if slices is None else tuple(map(astuple, slices)),
        first_block=first_block,
        blocks=len(blocks),
    )
    return scanned, blocks


def check_columns_of(file: FoundFile) -> None:
    """Refuse a table that lacks a column which its source takes; only its footer is read.

    Raises:
        ConfigError: a column is absent or of another type.
        DataError: the table is cut or damaged.
    """
    if not isinstance(file.reader, TableReader):
        return
    key = f"sources.{file.source}"
    with open_place(file.place, key=key) as opened:
        file.reader.check(opened, file.fields, name=str(file.place), key=key)


def first_slices(file: FoundFile) -> tuple[Slice, ...] | None:
    """Return what a plan sees of a new file: a table's columns are checked, Parquet's runs are cut.

    No text is read: of Parquet the footer and the heads of pages, of Arrow the footer.

    Raises:
        ConfigError: a column is absent or of another type.
        DataError: the table is cut or damaged.
    """
    reader = file.reader
    if not isinstance(reader, TableReader) or not reader.slices_from_footer:
        check_columns_of(file)
        return None
    key = f"sources.{file.source}"
    with open_place(file.place, key=key) as opened:
        slices, _ = reader.slices(
            opened, file.fields, unit=file.unit_size, name=str(file.place), key=key
        )
    return tuple(slices)


def _read(file: FoundFile) -> tuple[int, str, NDArray[np.uint64], list[int]]:
    """Return a file's size, digest, digests of blocks and, if cut by bytes, line feeds by slice."""
    xxh3, size, line_feeds = xxhash.xxh3_128(), 0, [0]
    digests: list[int] = []
    with open_place(file.place, key=f"sources.{file.source}") as opened:
        for block in read_blocks(opened):
            xxh3.update(block)
            digests.append(block_digest(block))
            if file.is_cut_by_bytes:
                _count_line_feeds(block, size, file.unit_size, line_feeds)
            size += len(block)
    _require_size(file, size)
    return size, xxh3.hexdigest(), np.array(digests, np.uint64), line_feeds


def _count_line_feeds(block: bytes, position: int, unit: int, line_feeds: list[int]) -> None:
    """Add the line feeds of a block at some position to those of the slices that it touches."""
    array = np.frombuffer(block, np.uint8)
    start = 0
    while start < len(array):
        number, offset = divmod(position + start, unit)
        stop = start + unit - offset
        line_feeds += [0] * (number + 1 - len(line_feeds))
        line_feeds[number] += int(np.count_nonzero(array[start:stop] == _LINE_FEED))
        start = stop


def _table_slices(
    file: FoundFile, reader: TableReader, size: int, blocks: NDArray[np.uint64]
) -> tuple[list[Slice], int]:
    """Return a table's runs of row groups or record batches, and its rows, of the bytes just read."""
    key = f"sources.{file.source}"
    with open_place(file.place, key=key) as opened:
        checked = checked_file(opened, size=size, blocks=blocks, name=file.label)
        return reader.slices(checked, file.fields, unit=file.unit_size, name=str(file.place), key=key)


def _require_unchanged(file: FoundFile) -> None:
    """Hold a file's stamp to the one that it was found with."""
    now = place_status(file.place, key=f"sources.{file.source}", anew=True)
    if now.stamp != file.status.stamp:
        raise DataError(
            f"{file.label}: it changed while it was scanned (it had {file.status.size:,} bytes, it has"
            f" {now.size:,}); run again once nothing writes to it"
        )


def _require_size(file: FoundFile, size: int) -> None:
    """Hold the bytes that were read to those that the file is said to have."""
    if file.status.size in (None, size):
        return
    found = f"{file.label}: {size:,} bytes were read, but it has {file.status.size:,}"
    if isinstance(file.place, str):
        raise Stopped(f"{found}: its server sent less than it announced; run again to resume")
    raise DataError(f"{found}: it changed while it was scanned; run again once nothing writes to it")
