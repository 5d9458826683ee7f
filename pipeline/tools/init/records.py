"""Records: the first ones of a file, as objects, and how many it may hold.

What a run reads goes through its readers. Here a few hundred records are looked at, whatever their
fields, to say which field holds what.
"""

import codecs
import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.tools.init.delimited import (
    NO_HEADER,
    delimited_rows,
    delimiter_in,
    lacks_header,
    quoting_in,
)
from stages.errors import DataError
from stages.reading.decompress import COMPRESSIONS, stream_chunks
from stages.reading.delimited import CSV
from stages.reading.delimiters import Quoting
from stages.reading.encodings import UTF_8, foreign_encoding, transcoded
from stages.reading.html import HTML
from stages.reading.jsonl import JSON, JSON_LINES
from stages.reading.kept_values import loaded
from stages.reading.lines import BYTE_ORDER_MARK
from stages.reading.page_charset import decoded_page
from stages.reading.parquet import PARQUET
from stages.reading.reader import Reader, StreamReader
from stages.reading.records import FieldMapping

_RECORDS = 200
"""Looked at, of a file."""
_BYTES = 4 << 20
"""Decompressed bytes that are read at most, of a file that is no table."""
_PACKED = 4
"""Bytes of text for each byte of a compressed file, if its end was not seen."""
_LONGEST = 1 << 26
"""Decompressed bytes that are read of a file whose first record is longer than that; no record is."""
ASCII = "ascii"


_Delimited = tuple[str | None, tuple[Quoting, str] | None]


@dataclass(frozen=True)
class FileBeginning:
    """What was seen of a file."""

    records: tuple[Mapping[str, object], ...]
    """Objects, of a format that has fields."""
    text: str
    """The beginning of it, of a format that has none."""
    documents: float
    """Records in all: counted, or an estimate."""
    plain_bytes: float
    """Decompressed, in all."""
    encoding: str = ASCII
    """Of its text; ASCII of what says its encoding itself."""
    delimiter: str | None = None
    """Between the fields of delimited text, if it is another than the ending says."""
    quoting: tuple[Quoting, str] | None = None
    """What a quote means in delimited text and why, if it is not what the ending says."""
    bad: int = 0
    """Records among those looked at that are no objects, or have other columns than the header."""
    fault: str = ""
    """Why nothing can be read of it; empty if something can."""

    @property
    def is_foreign(self) -> bool:
        """Whether it is in another encoding than UTF-8."""
        return self.encoding not in (ASCII, UTF_8)


def look_at(place: Path, reader: Reader, size: int) -> FileBeginning:
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
    except (DataError, ValueError, OSError, csv.Error, pa.ArrowException) as error:
        return FileBeginning((), "", 0, 0, fault=str(error).splitlines()[0])


def _stream(place: Path, reader: StreamReader, size: int) -> FileBeginning:
    chunks, ended = _beginning(place, _BYTES)
    read_bytes = sum(map(len, chunks))
    packed = place.name.endswith(COMPRESSIONS)
    plain = read_bytes if ended else max(read_bytes, size * (_PACKED if packed else 1))
    encoding = _encoding_of(b"".join(chunks), reader, ended=ended)
    if not reader.has_columns:
        text = b"".join(chunks).decode("utf-8-sig" if encoding == UTF_8 else encoding, errors="replace")
        documents = 1.0 if reader.is_whole else max(1.0, plain / 8192)
        return FileBeginning((), text, documents, plain, encoding)
    found, share, shape = _found(chunks, reader, encoding, ended=ended)
    if not found and not ended:
        chunks, ended = _beginning(place, _LONGEST)
        read_bytes = sum(map(len, chunks))
        plain = read_bytes if ended else max(read_bytes, plain)
        found, share, shape = _found(chunks, reader, encoding, ended=ended)
    records = tuple(record for record in found if record is not None)
    if reader.has_delimiter and lacks_header(records):
        return FileBeginning((), "", 0, 0, fault=NO_HEADER)
    whole = ended and len(found) < _RECORDS
    documents = len(found) if whole else len(found) * plain / max(read_bytes * share, 1)
    bad = len(found) - len(records)
    return FileBeginning(
        records, "", documents, plain, encoding, delimiter=shape[0], quoting=shape[1], bad=bad
    )


def _beginning(place: Path, most: int) -> tuple[list[bytes], bool]:
    """Return the decompressed beginning of a file, and whether that is all of it."""
    chunks: list[bytes] = []
    size = 0
    for chunk in stream_chunks(place):
        chunks.append(chunk)
        size += len(chunk)
        if size >= most:
            return chunks, False
    return chunks, True


def _found(
    chunks: list[bytes], reader: StreamReader, encoding: str, *, ended: bool
) -> tuple[list[Mapping[str, object] | None], float, _Delimited]:
    """Return the first records, None for a bad one, the share of the bytes that they take, the shape.

    The shape is the delimiter and the quoting, each None if it is what the ending says.
    """
    if encoding not in (ASCII, UTF_8):
        chunks = list(transcoded(chunks, encoding))
    if reader.has_delimiter:
        text = b"".join(chunks).decode("utf-8-sig", errors="replace")
        usual = "," if reader is CSV else "\t"
        usual_quoting = reader.quoting or Quoting.CSV
        delimiter = delimiter_in(text, usual, usual_quoting)
        quoting, why = quoting_in(text, delimiter, usual_quoting, ended=ended)
        rows = list(islice(delimited_rows(text, delimiter, quoting, ended=ended), _RECORDS))
        share = rows[-1][1] if rows else 0.0
        shape = (
            None if delimiter == usual else delimiter,
            None if quoting is usual_quoting else (quoting, why),
        )
        return [row for row, _ in rows], share, shape
    found = list(islice(_records(chunks, reader, ended=ended), _RECORDS))
    end = found[-1][1] if found else 0
    return [record for record, _ in found], end / max(sum(map(len, chunks)), 1), (None, None)


def _records(
    chunks: list[bytes], reader: StreamReader, *, ended: bool
) -> Iterator[tuple[Mapping[str, object] | None, float]]:
    """Yield the records at the beginning of a stream, each with its end; None is a bad one."""
    lines = reader.open(FieldMapping(), _LONGEST).lines(iter(chunks))
    try:
        for line in lines:
            if not ended and line.position + line.size >= sum(map(len, chunks)):
                return
            if reader not in (JSON, JSON_LINES):
                yield {}, line.position + line.size
                continue
            try:
                value = loaded(line.data.removeprefix(BYTE_ORDER_MARK))
            except orjson.JSONDecodeError:
                value = None
            yield value if isinstance(value, Mapping) else None, line.position + line.size
    except DataError:
        if ended:
            raise


def _table(place: Path, reader: Reader) -> FileBeginning:
    if reader is PARQUET:
        with pq.ParquetFile(place) as file:
            rows = file.metadata.num_rows
            groups = range(file.metadata.num_row_groups)
            plain = sum(file.metadata.row_group(group).total_byte_size for group in groups)
            batches = file.iter_batches(batch_size=_RECORDS)
            return FileBeginning(_objects(next(batches, None)), "", rows, plain)
    with pa.memory_map(str(place)) as source:
        batches = list(_batches(source))
        rows = sum(batch.num_rows for batch in batches)
        first = next((batch for batch in batches if batch.num_rows), None)
        return FileBeginning(_objects(first), "", rows, place.stat().st_size)


def _batches(source: pa.NativeFile) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an Arrow file, or of a stream."""
    try:
        opened = pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        yield from pa.ipc.open_stream(source)
        return
    yield from (opened.get_batch(number) for number in range(opened.num_record_batches))


def _objects(batch: pa.RecordBatch | None) -> tuple[Mapping[str, object], ...]:
    """Return the first rows as objects."""
    if batch is None:
        return ()
    first = batch.slice(0, _RECORDS)
    columns = [column.cast(_without_times(column.type)).to_pylist() for column in first.columns]
    names = first.schema.names
    return tuple(dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))


def _without_times(kind: pa.DataType) -> pa.DataType:
    """Return a type with numbers for dates and times, not all of which Python can hold."""
    if pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind):
        return pa.int32() if kind.bit_width == pa.int32().bit_width else pa.int64()
    if pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_times(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_times(kind.value_type)))
    return kind


def _encoding_of(data: bytes, reader: StreamReader, *, ended: bool) -> str:
    """Return the encoding of the beginning of a text; ASCII or UTF-8 of what says its own."""
    if not reader.is_text:
        return ASCII
    if reader is HTML:
        return UTF_8 if _says_its_encoding(data) else "cp1252"
    foreign = foreign_encoding(data)
    if foreign is not None:
        return foreign
    if data.isascii():
        return ASCII
    try:
        codecs.getincrementaldecoder(UTF_8)().decode(data, final=ended)  # the last letter may be cut
    except UnicodeDecodeError:
        return "cp1252"
    return UTF_8


def _says_its_encoding(page: bytes) -> bool:
    """Say whether a page can be read without another word: it is UTF-8, or names what it is."""
    try:
        decoded_page(page)
    except ValueError:
        return False
    return True
