"""Parts: what one task of ingest reads of a file or of a bundle of small files, and its records.

A file that has slices gives one part for each, read in any order. Any other, and any bundle, is a chain
of parts of `unit_size` decompressed bytes, read from front to back by one worker, which holds the open
stream; a worker that takes over opens the files again and skips. Which of them it is changes no record.

Every byte comes through `stages.reading.checked`: it is what was scanned, or the run stops.
"""

import io
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import xxhash
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.inputs.files import InputFile
from pipeline.inputs.place_files import open_place
from pipeline.run_file.config import Ingest
from pipeline.steps.ingest.compared_fields import ComparedColumns
from stages.dedup.lsh import MinHashConfig
from stages.errors import ChangedInputError, ConfigError, VerificationError
from stages.filtering.filter import FilterConfig
from stages.reading.checked import WAY_OUT, checked_file
from stages.reading.columns_seen import ColumnsSeen
from stages.reading.decompress import decompressed, reading_stream
from stages.reading.encodings import UTF_8, transcoded
from stages.reading.faults import reading_content
from stages.reading.lines import Line
from stages.reading.reader import (
    LineReader,
    Reader,
    StreamReader,
    TableReader,
    TextSplit,
)
from stages.reading.records import FieldMapping, Record
from stages.reading.slices import Slice
from stages.reading.table import reader_of


@dataclass(frozen=True)
class InputPart:
    """One part of a file or of a bundle of small ones."""

    source: str
    files: tuple[InputFile, ...]
    """All of the bundle; their slices are not among what a task is sent."""
    label: str
    """What messages call them."""
    key: str
    number: int
    fields: FieldMapping
    ingest: Ingest
    minhash: MinHashConfig | None
    filters: tuple[FilterConfig, ...] = ()
    """All of the run."""
    slice: Slice | None = None
    """What it reads of its only file; None for a part of a chain."""
    text_split: TextSplit = TextSplit.FILE
    encoding: str = UTF_8
    compared: ComparedColumns | None = None
    """Fields that documents are compared or ranked by."""

    @property
    def name(self) -> str:
        """Name of the unit."""
        return f"{self.key}-{self.number:05d}"

    def place_of(self, path: str, line: int, position: int) -> str:
        """Return what people call the place of a record."""
        place = f"row {position}" if self.is_table else f"line {line}"
        return f"{self.source}: {path}, {place}"

    @property
    def is_table(self) -> bool:
        """Whether its records are rows, which have numbers and no lines."""
        return isinstance(self.reader_of(self.files[0]), TableReader)

    def reader_of(self, file: InputFile) -> Reader:
        """Return what reads one of its files."""
        reader = reader_of(file.path, self.text_split)
        assert reader is not None, "a file of no format is refused when it is found"
        return reader


class Reading:
    """One part while it is read: first its records, then what is known of them.

    Args:
        workspace: where the digests of blocks are; the open stream of a chain stays in its cache.
        part: what to read.
    """

    def __init__(self, workspace: Workspace, part: InputPart) -> None:
        self._workspace = workspace
        self._part = part
        self.columns = ColumnsSeen(part.fields)
        """The columns of its JSON records."""
        self._begin(part.files[0])
        self.covered: dict[str, tuple[int, int]] = {}
        """What its records took of each file, by path."""
        self.next: int | None = None
        """The number of the part that continues a chain."""

    def records(self) -> Iterator[Record]:
        """Return the records in order; what else there is to know is known after the last one.

        Raises:
            DataError: a file changed, or is cut, damaged, or not what its ending says.
            Stopped: a file cannot be read now.
        """
        if self._part.slice is None:
            return self._chain_records(_stream_at(self._workspace, self._part))
        return self._slice_records(self._part.slice)

    def _slice_records(self, slice_: Slice) -> Iterator[Record]:
        part, reader = self._part, self._part.reader_of(self.file)
        max_bytes, name = part.ingest.max_document_bytes, str(self.file.place)
        with reading_stream(name), opened(self._workspace, self.file) as file:
            if isinstance(reader, TableReader):
                for record in reader.records(file, slice_, part.fields, max_bytes=max_bytes, name=name):
                    self._cover(record.position, record.position + 1)
                    yield record
                return
            assert reader.read_slice is not None, "what has no slices is read as a chain"
            lines = reader.read_slice(file, slice_, max_bytes=max_bytes)
            stream = reader.open(part.fields, max_bytes)
            if reader.without_gaps:
                yield from self._without_gaps(lines, stream)
            else:
                yield from self._with_gaps(slice_, lines, stream)

    def _without_gaps(self, lines: Iterator[Line], reader: LineReader) -> Iterator[Record]:
        """Return the records of a slice whose lines follow each other; blank ones give none."""
        for line in lines:
            self._cover(line.position, min(line.end, self.file.size))
            if line.blank:
                continue
            parsed = [reader.parse(line, self.columns)]
            del line  # a long line is not held beside its text, nor its text beside the next
            yield parsed.pop()

    def _with_gaps(
        self, slice_: Slice, groups: Generator[Line, None, int | None], reader: LineReader
    ) -> Iterator[Record]:
        """Return the records of a slice that reaches to where the first line of the next begins."""
        first = None if slice_.first else 0
        while True:
            try:
                group = next(groups)
            except StopIteration as end:
                if first is not None:
                    self._cover(first, self.file.size if end.value is None else end.value)
                return
            first = group.position if first is None else first
            record = [reader.parse(group, self.columns)]
            del group
            yield record.pop()

    def _chain_records(self, stream: "_Stream") -> Iterator[Record]:
        unit_size = int(self._part.ingest.unit_size)
        end = (self._part.number + 1) * unit_size
        while stream.goes_on(end):
            self._begin(stream.file)
            first = stream.begin
            while stream.pending is not None and stream.position < end:
                if stream.pending.noticed is not None:
                    self.columns.noticed[stream.pending.noticed] += 1
                    stream.advance()
                    continue
                record = [stream.reader.parse(stream.pending, self.columns)]
                stream.pending = (
                    None  # a long line is not held beside its text, nor its text beside the next
                )
                yield record.pop()
                stream.advance()
            self._cover(first, stream.place)
            if stream.pending is not None:
                break
        if not stream.ended:
            self.next = stream.leave(unit_size)
            self._workspace.cache["stream"] = stream

    def _begin(self, file: InputFile) -> None:
        """Take the records that come for those of a file."""
        self.file = file
        """That of the last record."""
        self.columns.path = file.path

    def _cover(self, first: int, after: int) -> None:
        """Add what one more record took of its file, which begins where the one before ended."""
        covered = self.covered.get(self.file.path)
        if covered is None:
            self.covered[self.file.path] = (first, after)
        elif first == covered[1]:
            self.covered[self.file.path] = (covered[0], after)
        else:
            raise VerificationError(
                f"{self.file.label}: a record at {first:,} follows one that ends at"
                f" {covered[1]:,}; this is a bug, please report it with the log"
            )


class _Stream:
    """The files of a chain, one after the other; left open between two of its parts.

    Args:
        workspace: where the digests of blocks are.
        part: the first that is read of it.
    """

    def __init__(self, workspace: Workspace, part: InputPart) -> None:
        self.key, self.part = part.key, part.number
        self._workspace, self._first = workspace, part
        self._left = list(reversed(part.files))
        self._before = self._read = 0
        self._lines: Iterator[Line] = iter(())
        self.pending: Line | None = None
        """The line that comes next, of `file`."""
        self.begin = 0
        """Where in the file the next part of the chain begins."""

    @property
    def place(self) -> int:
        """Where in the file the next line begins, or where the file ends."""
        return self._read if self.pending is None else self.pending.position

    @property
    def position(self) -> int:
        """The same, counted over all files: decompressed bytes."""
        return self._before + self.place

    @property
    def ended(self) -> bool:
        """Whether all is read."""
        return self.pending is None and not self._left

    def goes_on(self, end: int) -> bool:
        """Open the next file if this one is read; say whether there is one that begins before `end`."""
        if self.pending is not None:
            return True
        if not self._left or self.position >= end:
            return False
        self._before, self._read, self.begin = self.position, 0, 0
        self.file = self._left.pop()
        reader = self._first.reader_of(self.file)
        assert isinstance(reader, StreamReader), "a table has slices"
        self._is_text = reader.is_text
        self.reader = reader.open(self._first.fields, self._first.ingest.max_document_bytes)
        self._lines = self._lines_of(self.file)
        self.advance()
        return True

    def skip(self, start: int) -> None:
        """Go on to the first line that does not begin before `start`, or to a file that does."""
        while self.goes_on(start):
            while self.pending is not None and self.position < start:
                self.advance()
            if self.pending is not None:
                self.begin = self.place
                return

    def advance(self) -> None:
        """Go on to the next line of the file."""
        self.pending = next(self._lines, None)

    def leave(self, unit_size: int) -> int:
        """Return the number of the part that goes on here."""
        self.part, self.begin = self.position // unit_size, self.place
        return self.part

    def _counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield chunks and count their bytes."""
        for chunk in chunks:
            self._read += len(chunk)
            yield chunk

    def _lines_of(self, wanted: InputFile) -> Iterator[Line]:
        """Return the lines of a file, all of which is read."""
        with reading_stream(str(wanted.place)), opened(self._workspace, wanted) as file:
            chunks = decompressed(file, wanted.path)
            if self._is_text:
                chunks = transcoded(chunks, self._first.encoding)
            with reading_content(wanted.label):
                yield from self.reader.lines(self._counted(chunks))
            if file.tell() != wanted.size:
                raise VerificationError(
                    f"{wanted.label}: {file.tell():,} of {wanted.size:,} bytes were read; this is a bug,"
                    " please report it with the log"
                )


def _stream_at(workspace: Workspace, part: InputPart) -> _Stream:
    """Return the chain's stream at the part's first line: the one left open, or a new one.

    One that a part has failed on is not used again: nobody knows how far it is.
    """
    stream: _Stream | None = workspace.cache.pop("stream", None)
    if stream is not None and (stream.key, stream.part) == (part.key, part.number):
        return stream
    stream = _Stream(workspace, part)
    stream.skip(part.number * int(part.ingest.unit_size))
    return stream


@contextmanager
def opened(workspace: Workspace, wanted: InputFile) -> Iterator[BinaryIO]:
    """Open a file, held to its scanned digests.

    Raises:
        ChangedInputError: the file is gone, or is no file any more.
    """
    blocks = _blocks(workspace, wanted)
    try:
        with open_place(wanted.place, key=f"sources.{wanted.source}") as file:
            yield checked_file(file, size=wanted.size, blocks=blocks, name=wanted.label)
    except ConfigError as error:
        message = f"{error}; it could be read when it was scanned: {WAY_OUT}"
        raise ChangedInputError(message, wanted.label) from error


def _blocks(workspace: Workspace, file: InputFile) -> NDArray[np.uint64]:
    """Return the digests of a file's blocks; the array of its task stays with the worker."""
    wanted = file.blocks
    cached: tuple[str, NDArray[np.uint64]] | None = workspace.cache.get("blocks")
    if cached is None or cached[0] != wanted.xxh3:
        path = workspace.path(wanted.key)
        data = path.read_bytes()
        if xxhash.xxh3_128_hexdigest(data) != wanted.xxh3:
            message = f"{path}: not as it was committed; run again, and {file.place} is scanned again"
            raise ChangedInputError(message, file.label)
        cached = workspace.cache["blocks"] = (wanted.xxh3, np.load(io.BytesIO(data), allow_pickle=False))
    return cached[1][wanted.first : wanted.first + wanted.count]
