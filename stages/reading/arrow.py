"""Arrow IPC files to raw documents, by record batches, one at a time.

A record batch is read as it was written, so it is what stays in memory; of its columns, only those
that the source takes. A slice says so if its batches are large, and the run asks for the memory. (A
mapped file would hold nothing, but end the process when somebody shortens the file.) The file format
alone (its first bytes are ARROW1): a stream has no footer that says where its batches are.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

import pyarrow as pa

from stages.errors import DataError
from stages.reading.cells import check_columns, read_rows, reading_table, wanted_columns
from stages.reading.nested import column_of, top_column
from stages.reading.reader import TableReader
from stages.reading.records import FieldMapping, Record
from stages.reading.slices import Slice, run_slices

BATCH_BYTES = 32 << 20
"""Of a record batch that no slice tells of."""
_STREAM_START = b"\xff\xff\xff\xff"


def check_arrow(file: BinaryIO, fields: FieldMapping, *, name: str, key: str) -> None:
    """Check a file's columns; only its footer is read.

    Raises:
        ConfigError: a column that the source takes is absent or of another type.
        DataError: the file is cut or damaged, or a stream.
    """
    if file.read(len(_STREAM_START)) == _STREAM_START:
        raise DataError(
            f"{name}: an Arrow stream, not an Arrow file; write it again with pyarrow.ipc.new_file"
        )
    with reading_table(name):
        file.seek(0)
        with pa.ipc.open_file(file) as table:
            check_columns(table.schema, fields, name=name, key=key)


def arrow_slices(
    file: BinaryIO, fields: FieldMapping, *, unit: int, name: str, key: str
) -> tuple[list[Slice], int]:
    """Check a file's columns and cut it into runs of record batches of about `unit` bytes of text.

    The footer does not say how many rows a batch has, so the columns are read once to count them.

    Returns:
        The runs, and the rows of all.

    Raises:
        ConfigError: a column that the source takes is absent or of another type.
        DataError: the file is cut or damaged, or a stream.
    """
    check_arrow(file, fields, name=name, key=key)
    # Sizes of buffers: batch.nbytes would follow offsets, which in a damaged file lead anywhere.
    pieces, held = [], []
    with reading_table(name):
        for batch in _batches(file, fields):
            held.append(batch.get_total_buffer_size())
            texts = [column_of(batch, column) for column in fields.text_columns]
            pieces.append((batch.num_rows, sum(text.get_total_buffer_size() for text in texts)))
            del batch, texts
    large = [size if size > BATCH_BYTES else 0 for size in held]
    slices = run_slices(pieces, unit)
    held_by = [replace(part, held=max([0, *large[part.first : part.last]])) for part in slices]
    return held_by, sum(rows for rows, _ in pieces)


def arrow_records(
    file: BinaryIO, part: Slice, fields: FieldMapping, *, max_bytes: int, name: str
) -> Iterator[Record]:
    """Yield the rows of a run of record batches in order.

    Raises:
        DataError: the file is cut or damaged.
    """
    first = part.before
    with reading_table(name):
        for batch in _batches(file, fields, part.first, part.last):
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


def _batches(
    file: BinaryIO, fields: FieldMapping, first: int = 0, last: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield some record batches with the columns that a source takes; none is held here."""
    file.seek(0)
    schema = pa.ipc.open_file(file).schema
    included = {schema.get_field_index(top_column(schema, name)) for name in wanted_columns(fields)}
    options = pa.ipc.IpcReadOptions(included_fields=sorted(included), use_threads=False)
    file.seek(0)
    table = pa.ipc.open_file(file, options=options)
    numbers = range(first, table.num_record_batches if last is None else last)
    yield from map(table.get_batch, numbers)
