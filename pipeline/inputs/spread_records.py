"""Drawn records: some of a file's records, for a sample.

    share 1/4, spread over all      x . . . x . . . x . . .
    share 1/4, spread over half     x . x . x .
    share 1/4, by chance            . . x . . . . . x x . .

A compressed file can only be read from its beginning. So it is read as far as the sample is spread, and
what is not taken is cut into records but not parsed.

Whether a record is drawn by chance depends on its source, its file and its number alone. So of two
duplicates both are drawn with the square of the chance, also where they stand side by side. Records at
even distances are never neighbours.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

import xxhash

from pipeline.inputs.files import FoundFile
from stages.reading.columns_seen import ColumnsSeen
from stages.reading.decompress import decompressed
from stages.reading.encodings import transcoded
from stages.reading.faults import reading_content
from stages.reading.reader import StreamReader, TableReader
from stages.reading.records import Record

_ENOUGH = 3
"""Marks of a stream, its beginning among them, of which two are behind the first chunk."""
_SLICE = 1 << 20
"""Text in a slice of a table, about."""
_ALL = 1 << 64


def spread_records(
    file: FoundFile, opened: BinaryIO, limit: int, *, share: float, spread: float
) -> Iterator[tuple[float, Record]]:
    """Yield records of a file, each with the share of its bytes that the records until then have.

    Args:
        file: what is read.
        opened: its bytes.
        limit: bytes of the longest document that is held.
        share: of the file that is taken, in (0, 1].
        spread: share of the file, from its beginning, that the records are taken from; tables are read
            everywhere.
    """
    if isinstance(file.reader, TableReader):
        yield from _rows(file, file.reader, opened, limit, share=share, order=_apart)
        return
    pace = share / spread

    def paced(number: int) -> bool:
        return math.ceil((number + 1) * pace) > math.ceil(number * pace)

    end = spread if spread < 1.0 else math.inf  # shares are estimates, and may reach 1 too early
    yield from _spread_lines(file, file.reader, opened, limit, drawn=paced, spread=end)


def chance_records(file: FoundFile, opened: BinaryIO, limit: int, *, share: float) -> Iterator[Record]:
    """Yield records of a file, each with the same chance, whatever stands near it.

    Args:
        file: what is read, all of it.
        opened: its bytes.
        limit: bytes of the longest document that is held.
        share: chance of each record, in (0, 1].
    """
    bound = round(share * _ALL)

    def drawn(number: int) -> bool:
        return xxhash.xxh3_64_intdigest(f"{file.key} {number}".encode(), seed=1) < bound

    if isinstance(file.reader, TableReader):
        rows = _rows(file, file.reader, opened, limit, share=1.0, order=range)
        yield from (record for number, (_, record) in enumerate(rows) if drawn(number))
    else:
        lines = _spread_lines(file, file.reader, opened, limit, drawn=drawn, spread=math.inf)
        yield from (record for _, record in lines)


def _rows(
    file: FoundFile,
    reader: TableReader,
    opened: BinaryIO,
    limit: int,
    *,
    share: float,
    order: Callable[[int], Iterable[int]],
) -> Iterator[tuple[float, Record]]:
    """Yield a share of the rows of a table; `order` puts the numbers of its slices in order."""
    key, name = f"sources.{file.source}", str(file.place)
    slices, total = reader.slices(opened, file.fields, unit=_SLICE, name=name, key=key)
    wanted, done = math.ceil(share * total), 0
    for number in order(len(slices)):
        for record in reader.records(opened, slices[number], file.fields, max_bytes=limit, name=name):
            done += 1
            yield done / total, record
            if done >= wanted:
                return


def _apart(count: int) -> list[int]:
    """Return the numbers below a count so that the first ones lie far apart: 0, 4, 2, 6, 1, 5, 3, 7."""
    bits = max(1, (count - 1).bit_length())
    return sorted(range(count), key=lambda number: f"{number:0{bits}b}"[::-1])


def _spread_lines(
    file: FoundFile,
    reader: StreamReader,
    opened: BinaryIO,
    limit: int,
    *,
    drawn: Callable[[int], bool],
    spread: float,
) -> Iterator[tuple[float, Record]]:
    """Yield the records of a stream whose numbers are drawn, with shares of its bytes on disk.

    Libraries read ahead. So the second chunk and those after it say how many bytes on disk one takes.
    """
    size, marks = max(file.status.size or 0, 1), [(0, 0)]

    def counted(chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            marks.append((marks[-1][0] + len(chunk), opened.tell()))
            yield chunk

    def share_until(position: int) -> float:
        if len(marks) == 1:  # an empty file of text is one record
            return 1.0
        (first, stored), (last, until) = marks[:2] if len(marks) < _ENOUGH else (marks[1], marks[-1])
        if last == marks[-1][0] == position and until == size:
            return 1.0
        return min(1.0, position * (until - stored) / max(last - first, 1) / size)

    chunks = decompressed(opened, file.path)
    if reader.is_text:
        chunks = transcoded(chunks, file.encoding)
    stream, columns = reader.open(file.fields, limit), ColumnsSeen(file.fields)
    begin = taken = 0
    with reading_content(file.label):
        lines = stream.lines(counted(chunks))
        for number, line in enumerate(line for line in lines if line.noticed is None):
            until = share_until(line.end)
            if drawn(number):
                taken += line.end - begin
                yield until * taken / line.end, stream.parse(line, columns)
            begin = line.end
            if until >= spread:
                return
