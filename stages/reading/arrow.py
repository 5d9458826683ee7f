"""Arrow IPC files and streams to raw documents, by record batches, one at a time.

A record batch is read as it was written, so it is what stays in memory; of its columns, only those
that the source takes. A slice says so if its batches are large, and the run asks for the memory. (A
mapped file would hold nothing, but end the process when somebody shortens the file.) A slice of a file
is a run of batches by number, that of a stream one of bytes: `stages.reading.arrow`.

Arrow IPC streams: record batches one after the other, with no footer that says where they are.

The scan reads a stream once and notes at which byte each batch begins; later a slice is read from there,
behind the schema at the stream's beginning. A stream with dictionaries is one slice, since any batch may
need one that stands before it. A stream without the mark of its end was cut short, and is refused.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import BinaryIO

import pyarrow as pa

from stages.errors import DataError
from stages.reading.cells import check_columns, read_columns, read_rows, reading_table
from stages.reading.nested import column_of, find_fields, top_column
from stages.reading.reader import TableReader
from stages.reading.records import FieldMapping, Record
from stages.reading.slices import Slice, slices_of_blocks

_START = b"\xff\xff\xff\xff"
_END = b"\xff\xff\xff\xff\0\0\0\0"


def is_stream(file: BinaryIO) -> bool:
    """Say whether a file is a stream; what is neither a stream nor a file shows when it is opened."""
    file.seek(0)
    start = file.read(len(_START))
    file.seek(0)
    return start == _START


def stream_batches(
    file: BinaryIO, included: Sequence[int], part: Slice | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of a stream or of a slice; `file` stands behind the last one given.

    Args:
        file: the stream.
        included: numbers of its columns that are wanted.
        part: a slice of bytes.
    """
    options = pa.ipc.IpcReadOptions(included_fields=list(included), use_threads=False)
    file.seek(0)
    table = pa.ipc.open_stream(file, options=options)
    if part is not None:
        file.seek(part.first)
    while part is None or file.tell() < part.last:
        try:
            yield table.read_next_batch()
        except StopIteration:
            return


def require_end(file: BinaryIO, *, name: str) -> None:
    """Refuse a stream that was read and has no mark of its end, or goes on behind it.

    Raises:
        DataError: it is cut, or two files in one.
    """
    end = file.tell()
    file.seek(max(0, end - len(_END)))
    mark, more = file.read(len(_END)), file.read(1)
    if mark != _END or more:
        fault = "goes on behind the end of its stream" if more else "has no mark of the stream's end"
        raise DataError(
            f"{name}: {fault} after {end:,} bytes; it was cut short or damaged: write it again"
        )


def has_dictionaries(kind: pa.DataType | pa.Schema) -> bool:
    """Say whether a schema has a dictionary, at any depth."""
    if isinstance(kind, pa.Schema):
        return any(has_dictionaries(field.type) for field in kind)
    if pa.types.is_dictionary(kind):
        return True
    return any(has_dictionaries(kind.field(n).type) for n in range(kind.num_fields))


BATCH_BYTES = 32 << 20
"""Of a record batch that no slice tells of."""


def check_arrow(file: BinaryIO, fields: FieldMapping, *, name: str, key: str) -> None:
    """Check a file's columns; only its footer is read, or the beginning of a stream.

    Raises:
        ConfigError: a column that the source takes is absent or of another type.
        DataError: the file is cut or damaged.
    """
    with reading_table(name):
        check_columns(_schema(file), fields, name=name, key=key)


def arrow_slices(
    file: BinaryIO, fields: FieldMapping, *, unit: int, name: str, key: str
) -> tuple[list[Slice], int]:
    """Check a file's columns and cut it into runs of record batches of about `unit` bytes of text.

    The footer does not say how many rows a batch has, so the columns are read once to count them.

    Returns:
        The runs, and the rows of all.

    Raises:
        ConfigError: a column that the source takes is absent or of another type.
        DataError: the file is cut or damaged.
    """
    check_arrow(file, fields, name=name, key=key)
    # Sizes of buffers: batch.nbytes would follow offsets, which in a damaged file lead anywhere.
    batches, totals, ends = [], [], []
    with reading_table(name):
        stream, schema = is_stream(file), _schema(file)
        ends.append(file.tell())  # of a stream: where its first batch begins
        for batch in _batches(file, fields):
            ends.append(file.tell())
            totals.append(batch.get_total_buffer_size())
            texts = [column_of(batch, column) for column in fields.text_columns]
            batches.append((batch.num_rows, sum(text.get_total_buffer_size() for text in texts)))
            del batch, texts
        if stream:
            require_end(file, name=name)
    large = [size if size > BATCH_BYTES else 0 for size in totals]
    whole = stream and has_dictionaries(schema)
    slices = slices_of_blocks(batches, 1 + sum(size for _, size in batches) if whole else unit)
    slices = [replace(part, most_bytes=max([0, *large[part.first : part.last]])) for part in slices]
    if stream:
        slices = [replace(part, first=ends[part.first], last=ends[part.last]) for part in slices]
    return slices, sum(rows for rows, _ in batches)


def arrow_records(
    file: BinaryIO, part: Slice, fields: FieldMapping, *, max_bytes: int, name: str
) -> Iterator[Record]:
    """Yield the rows of a run of record batches in order.

    Raises:
        DataError: the file is cut or damaged.
    """
    first = part.before
    with reading_table(name):
        for batch in _batches(file, fields, part):
            yield from read_rows(batch, fields, first=first, max_bytes=max_bytes)
            first += batch.num_rows


ARROW = TableReader(
    "Arrow",
    (".arrow", ".feather"),
    check=check_arrow,
    slices=arrow_slices,
    records=arrow_records,
    slices_from_footer=False,
)


def _schema(file: BinaryIO) -> pa.Schema:
    """Return the schema of a file or stream; `file` stands behind that of a stream."""
    if is_stream(file):
        return pa.ipc.open_stream(file).schema
    with pa.ipc.open_file(file) as table:
        return table.schema


def _batches(
    file: BinaryIO, fields: FieldMapping, part: Slice | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of a slice, or all, with the columns of a source; none is held here."""
    schema = _schema(file)
    there = (name for name in read_columns(schema, fields) if find_fields(schema, name))
    numbers = {schema.get_field_index(top_column(schema, name)) for name in there}
    included = sorted(numbers)
    if is_stream(file):
        yield from stream_batches(file, included, part)
        return
    table = pa.ipc.open_file(
        file, options=pa.ipc.IpcReadOptions(included_fields=included, use_threads=False)
    )
    first, last = (0, table.num_record_batches) if part is None else (part.first, part.last)
    yield from map(table.get_batch, range(first, last))
