"""Parts: what one task of ingest reads of a file, and its records.

A file that has slices gives one part for each, read in any order. Any other is a chain of parts of
`unit_size` decompressed bytes, read from front to back by one worker, which holds the open stream; a
worker that takes over opens the file again and skips. Which of the two it is changes no record.

Every byte comes through `stages.reading.checked`: it is what was scanned, or the run stops.
"""

import io
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import xxhash
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.inputs.files import Blocks
from pipeline.inputs.place_files import open_place
from pipeline.inputs.places import Place
from pipeline.run_file.config import Ingest
from stages.dedup.lsh import MinHashConfig
from stages.errors import ChangedInputError, ConfigError, DataError, VerificationError
from stages.reading.checked import WAY_OUT, checked_file
from stages.reading.columns_seen import ColumnsSeen
from stages.reading.decompress import decompressed, reading_stream
from stages.reading.delimited import HeaderError
from stages.reading.lines import Line
from stages.reading.reader import PieceReader, Reader, StreamReader, TableReader, TextSplit
from stages.reading.records import FieldMapping, Record
from stages.reading.slices import Slice
from stages.reading.table import reader_of


@dataclass(frozen=True)
class FilePart:
    """One part of one file."""

    source: str
    path: str
    place: Place
    label: str
    """What messages call the file."""
    key: str
    number: int
    fields: FieldMapping
    ingest: Ingest
    minhash: MinHashConfig | None
    size: int
    """Of the file, in bytes."""
    blocks: Blocks
    slice: Slice | None = None
    """What it reads; None for a part of a chain."""
    text_split: TextSplit = TextSplit.FILE

    @property
    def name(self) -> str:
        """Name of the unit."""
        return f"{self.key}-{self.number:05d}"

    @property
    def is_table(self) -> bool:
        """Whether its records are rows, which have numbers and no lines."""
        return isinstance(self.reader, TableReader)

    @property
    def reader(self) -> Reader:
        """What reads its file."""
        reader = reader_of(self.path, self.text_split)
        assert reader is not None, "a file of no format is refused when it is found"
        return reader


class Reading:
    """One part while it is read: first its records, then what is known of them.

    Args:
        workspace: where the digests of blocks are; the open stream of a chain stays in its cache.
        part: what to read.
    """

    def __init__(self, workspace: Workspace, part: FilePart) -> None:
        self._workspace = workspace
        self._part = part
        self.columns = ColumnsSeen(part.fields)
        """The columns of its JSON records."""
        self.covered: tuple[int, int] | None = None
        """What its records took of the file."""
        self.next: int | None = None
        """The number of the part that continues a chain."""

    def records(self) -> Iterator[Record]:
        """Return the records in order; what else there is to know is known after the last one.

        Raises:
            DataError: the file changed, or is cut, damaged, or not what its ending says.
            Stopped: the file cannot be read now.
        """
        if self._part.slice is None:
            return self._chain_records(_stream_at(self._workspace, self._part))
        return self._slice_records(self._part.slice)

    def _slice_records(self, piece: Slice) -> Iterator[Record]:
        part, reader = self._part, self._part.reader
        max_bytes, name = part.ingest.max_document_bytes, str(part.place)
        with reading_stream(name), opened(self._workspace, part) as file:
            if isinstance(reader, TableReader):
                for record in reader.records(file, piece, part.fields, max_bytes=max_bytes, name=name):
                    self._cover(record.position, record.position + 1)
                    yield record
                return
            assert reader.read_slice is not None, "what has no slices is read as a chain"
            pieces = reader.read_slice(file, piece, max_bytes=max_bytes)
            stream = reader.open(part.fields, max_bytes)
            if reader.without_gaps:
                yield from self._without_gaps(pieces, stream)
            else:
                yield from self._with_gaps(piece, pieces, stream)

    def _without_gaps(self, pieces: Iterator[Line], reader: PieceReader) -> Iterator[Record]:
        """Return the records of a slice whose pieces follow each other; blank ones give none."""
        for line in pieces:
            self._cover(line.position, min(line.end, self._part.size))
            if line.blank:
                continue
            parsed = [reader.parse(line, self.columns)]
            del line  # a long line is not held beside its text, nor its text beside the next
            yield parsed.pop()

    def _with_gaps(
        self, piece: Slice, groups: Generator[Line, None, int | None], reader: PieceReader
    ) -> Iterator[Record]:
        """Return the records of a slice that reaches to where the first piece of the next begins."""
        first = None if piece.first else 0
        while True:
            try:
                group = next(groups)
            except StopIteration as end:
                if first is not None:
                    self._cover(first, self._part.size if end.value is None else end.value)
                return
            first = group.position if first is None else first
            record = [reader.parse(group, self.columns)]
            del group
            yield record.pop()

    def _chain_records(self, stream: "_Stream") -> Iterator[Record]:
        part = self._part
        end = (part.number + 1) * part.ingest.unit_size
        first = stream.position if part.number else 0
        while stream.pending is not None and stream.pending.position < end:
            record = [stream.reader.parse(stream.pending, self.columns)]
            stream.pending = (
                None  # a long line is not held beside its text, nor its text beside the next
            )
            yield record.pop()
            stream.pending = next(stream.pieces, None)
        self._cover(first, stream.position)
        if stream.pending is not None:
            self.next = stream.pending.position // part.ingest.unit_size

    def _cover(self, first: int, after: int) -> None:
        """Add what one more record took, which begins where the one before ended."""
        if self.covered is None:
            self.covered = (first, after)
        elif first == self.covered[1]:
            self.covered = (self.covered[0], after)
        else:
            raise VerificationError(
                f"{self._part.label}: a record at {first:,} follows one that ends at"
                f" {self.covered[1]:,}; this is a bug, please report it with the log"
            )


@dataclass
class _Stream:
    """An open file between two of its parts."""

    key: str
    reader: PieceReader
    pieces: Iterator[Line]
    pending: Line | None = None
    read: int = 0
    """Decompressed bytes so far."""

    @property
    def position(self) -> int:
        """Where the next piece begins, or where the file ends."""
        return self.read if self.pending is None else self.pending.position

    def counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield chunks and count their bytes."""
        for chunk in chunks:
            self.read += len(chunk)
            yield chunk


@contextmanager
def opened(workspace: Workspace, part: FilePart) -> Iterator[BinaryIO]:
    """Open a part's file, held to its scanned digests.

    Raises:
        ChangedInputError: the file is gone, or is no file any more.
    """
    blocks = _blocks(workspace, part)
    try:
        with open_place(part.place, key=f"sources.{part.source}") as file:
            yield checked_file(file, size=part.size, blocks=blocks, name=part.label)
    except ConfigError as error:
        message = f"{error}; it could be read when it was scanned: {WAY_OUT}"
        raise ChangedInputError(message, part.label) from error


def _blocks(workspace: Workspace, part: FilePart) -> NDArray[np.uint64]:
    """Return the digests of a file's blocks; the array of its task stays with the worker."""
    wanted = part.blocks
    held: tuple[str, NDArray[np.uint64]] | None = workspace.cache.get("blocks")
    if held is None or held[0] != wanted.xxh3:
        path = workspace.path(wanted.key)
        data = path.read_bytes()
        if xxhash.xxh3_128_hexdigest(data) != wanted.xxh3:
            message = f"{path}: not as it was committed; run again, and {part.place} is scanned again"
            raise ChangedInputError(message, part.label)
        held = workspace.cache["blocks"] = (wanted.xxh3, np.load(io.BytesIO(data), allow_pickle=False))
    return held[1][wanted.first : wanted.first + wanted.count]


def _stream_at(workspace: Workspace, part: FilePart) -> _Stream:
    """Return the file's stream at the part's first piece: the one left open, or a new one."""
    cache: dict[str, Any] = workspace.cache
    stream: _Stream | None = cache.pop("stream", None)
    start = part.number * part.ingest.unit_size
    if stream is None or stream.key != part.key or stream.pending is None:
        reader = part.reader
        assert isinstance(reader, StreamReader), "a table has slices"
        pieces = reader.open(part.fields, part.ingest.max_document_bytes)
        stream = _Stream(part.key, pieces, iter(()))
        stream.pieces = _pieces(workspace, part, stream)
        stream.pending = next(stream.pieces, None)
    while stream.pending is not None and stream.pending.position < start:
        stream.pending = next(stream.pieces, None)
    cache["stream"] = stream
    return stream


def _pieces(workspace: Workspace, part: FilePart, stream: _Stream) -> Iterator[Line]:
    """Return the pieces of a file, all of which is read."""
    with reading_stream(str(part.place)), opened(workspace, part) as file:
        try:
            yield from stream.reader.pieces(stream.counted(decompressed(file, part.path)))
        except HeaderError as error:
            raise DataError(
                f"sources.{part.source}: {part.place}: {error}; correct text_column or the file, or"
                " leave the file out, and run again with --replace"
            ) from error
        if file.tell() != part.size:
            raise VerificationError(
                f"{part.label}: {file.tell():,} of {part.size:,} bytes were read; this is a bug, please"
                " report it with the log"
            )
