"""Records: the first ones of a file, as objects, and how many it may hold.

What a run reads goes through its readers. Here a few hundred records are looked at, whatever their
fields, to say which field holds what.
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from stages.errors import DataError
from stages.reading.decompress import COMPRESSIONS, stream_chunks
from stages.reading.delimited import CSV, TSV
from stages.reading.json_file import JSON
from stages.reading.jsonl import JSON_LINES
from stages.reading.lines import BYTE_ORDER_MARK
from stages.reading.parquet import PARQUET
from stages.reading.reader import Reader, StreamReader
from stages.reading.records import FieldMapping

_RECORDS = 200
"""Looked at, of a file."""
_BYTES = 4 << 20
"""Decompressed bytes that are read at most, of a file that is no table."""
_PACKED = 4
"""Bytes of text for each byte of a compressed file, if its end was not seen."""
_LONGEST = 1 << 24
"""Longest record held, in bytes."""


@dataclass(frozen=True)
class Looked:
    """What was seen of a file."""

    records: tuple[Mapping[str, object], ...]
    """Objects, of a format that has fields."""
    text: str
    """The beginning of it, of a format that has none."""
    documents: float
    """Records in all: counted, or an estimate."""
    plain_bytes: float
    """Decompressed, in all."""
    is_utf8: bool = True
    bad: int = 0
    """Records among those looked at that are no objects, or have other columns than the header."""
    fault: str = ""
    """Why nothing can be read of it; empty if something can."""


def look_at(place: Path, reader: Reader, size: int) -> Looked:
    """Look at the beginning of a file.

    Args:
        place: of the file.
        reader: of its format.
        size: its bytes on disk.
    """
    try:
        if isinstance(reader, StreamReader):
            return _stream(place, reader, size)
        return _table(place, reader)
    except (DataError, ValueError, OSError, pa.ArrowException) as error:
        return Looked((), "", 0, 0, fault=str(error).splitlines()[0])


def _stream(place: Path, reader: StreamReader, size: int) -> Looked:
    chunks: list[bytes] = []
    held, ended = 0, True
    for chunk in stream_chunks(place):
        chunks.append(chunk)
        held += len(chunk)
        if held >= _BYTES:
            ended = False
            break
    packed = place.name.endswith(COMPRESSIONS)
    plain = held if ended else max(held, size * (_PACKED if packed else 1))
    if not reader.has_columns:
        data = b"".join(chunks)
        text, is_utf8 = _decoded(data, ended=ended)
        documents = 1.0 if reader.is_whole else max(1.0, plain / 8192)
        return Looked((), text, documents, plain, is_utf8)
    records: list[Mapping[str, object]] = []
    ends = bad = 0
    for record, end in islice(_records(chunks, reader, ended=ended), _RECORDS):
        if record is None:
            bad += 1
        else:
            records.append(record)
        ends = end
    count = len(records) + bad
    documents = count if ended and count < _RECORDS else count * plain / max(ends, 1)
    return Looked(tuple(records), "", documents, plain, bad=bad)


def _records(
    chunks: list[bytes], reader: Reader, *, ended: bool
) -> Iterator[tuple[Mapping[str, object] | None, int]]:
    """Yield the records at the beginning of a stream, each with its end; None is a bad one."""
    if reader in (CSV, TSV):
        yield from _rows(b"".join(chunks), "," if reader is CSV else "\t")
        return
    assert isinstance(reader, StreamReader)
    pieces = reader.open(FieldMapping(), _LONGEST).pieces(iter(chunks))
    try:
        for piece in pieces:
            if not ended and piece.position + piece.size >= sum(map(len, chunks)):
                return
            if reader not in (JSON, JSON_LINES):
                yield {}, piece.position + piece.size
                continue
            try:
                value = orjson.loads(piece.data.removeprefix(BYTE_ORDER_MARK))
            except orjson.JSONDecodeError:
                value = None
            yield value if isinstance(value, Mapping) else None, piece.position + piece.size
    except DataError:
        if ended:
            raise


def _rows(data: bytes, delimiter: str) -> Iterator[tuple[Mapping[str, object] | None, int]]:
    text = data.decode("utf-8-sig", errors="replace")
    lines = text.splitlines(keepends=True)
    reader = csv.DictReader(lines, delimiter=delimiter)
    for row in reader:
        end = sum(map(len, lines[: reader.line_num]))
        fits = None not in row and None not in row.values()
        yield row if fits else None, end


def _table(place: Path, reader: Reader) -> Looked:
    if reader is PARQUET:
        with pq.ParquetFile(place) as file:
            rows = file.metadata.num_rows
            groups = range(file.metadata.num_row_groups)
            plain = sum(file.metadata.row_group(group).total_byte_size for group in groups)
            batches = file.iter_batches(batch_size=_RECORDS)
            return Looked(_objects(next(batches, None)), "", rows, plain)
    try:
        with pa.memory_map(str(place)) as source:
            opened = pa.ipc.open_file(source)
            rows = sum(opened.get_batch(n).num_rows for n in range(opened.num_record_batches))
            first = opened.get_batch(0) if opened.num_record_batches else None
            return Looked(_objects(first), "", rows, place.stat().st_size)
    except pa.ArrowInvalid:
        with pa.memory_map(str(place)) as source, pa.ipc.open_stream(source) as streamed:
            counted = list(chain(streamed))
            rows = sum(batch.num_rows for batch in counted)
            return Looked(_objects(counted[0] if counted else None), "", rows, place.stat().st_size)


def _objects(batch: pa.RecordBatch | None) -> tuple[Mapping[str, object], ...]:
    return tuple(batch.slice(0, _RECORDS).to_pylist()) if batch is not None else ()


def _decoded(data: bytes, *, ended: bool) -> tuple[str, bool]:
    """Return bytes as text, and whether they are UTF-8; the last letter may be cut."""
    try:
        return data.decode("utf-8-sig"), True
    except UnicodeDecodeError as error:
        if not ended and error.start >= len(data) - 3:
            return data[: error.start].decode("utf-8-sig"), True
        return data.decode("cp1252", errors="replace"), False
