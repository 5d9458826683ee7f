"""Chance records: each record of a file with the same chance, whatever stands near it.

Whether a record is drawn depends on its source, its file and its number alone. So of two duplicates both
are drawn with the square of the chance, also where they stand side by side. Records at even distances
(`pipeline.inputs.spread_records`) are never neighbours.
"""

from collections.abc import Iterator
from typing import BinaryIO

import xxhash

from pipeline.inputs.files import FoundFile
from stages.reading.columns_seen import ColumnsSeen
from stages.reading.decompress import decompressed
from stages.reading.encodings import transcoded
from stages.reading.faults import reading_content
from stages.reading.reader import StreamReader, TableReader
from stages.reading.records import Record

_ALL = 1 << 64
_SLICE = 1 << 20
"""Text in a slice of a table, about."""


def chance_records(file: FoundFile, opened: BinaryIO, limit: int, *, share: float) -> Iterator[Record]:
    """Yield the records of a file that are drawn.

    Args:
        file: what is read, all of it.
        opened: its bytes.
        limit: bytes of the longest document that is held.
        share: chance of each record, in (0, 1].
    """
    bound = round(share * _ALL)
    if isinstance(file.reader, TableReader):
        for number, record in enumerate(_rows(file, file.reader, opened, limit)):
            if _drawn(file, number) < bound:
                yield record
    else:
        yield from _pieces(file, file.reader, opened, limit, bound=bound)


def _drawn(file: FoundFile, number: int) -> int:
    return xxhash.xxh3_64_intdigest(f"{file.key} {number}".encode(), seed=1)


def _rows(file: FoundFile, reader: TableReader, opened: BinaryIO, limit: int) -> Iterator[Record]:
    key, name = f"sources.{file.source}", str(file.place)
    slices, _ = reader.slices(opened, file.fields, unit=_SLICE, name=name, key=key)
    for part in slices:
        yield from reader.records(opened, part, file.fields, max_bytes=limit, name=name)


def _pieces(
    file: FoundFile, reader: StreamReader, opened: BinaryIO, limit: int, *, bound: int
) -> Iterator[Record]:
    chunks = decompressed(opened, file.path)
    if reader.is_text:
        chunks = transcoded(chunks, file.encoding)
    stream, columns = reader.open(file.fields, limit), ColumnsSeen(file.fields)
    with reading_content(file.label):
        records = (piece for piece in stream.pieces(chunks) if piece.noticed is None)
        for number, piece in enumerate(records):
            if _drawn(file, number) < bound:
                yield stream.parse(piece, columns)
