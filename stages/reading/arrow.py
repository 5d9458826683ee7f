"""Arrow IPC files to raw documents, by record batches, one at a time.

A record batch is read as it was written, so it is what stays in memory; of its columns, only those
that the source takes. The file format alone (its first bytes are ARROW1): a stream has no footer that
says where its batches are.
"""

from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa

from stages.errors import DataError
from stages.reading.cells import check_columns, read_rows, reading_table, wanted_columns
from stages.reading.formats import Slice, run_slices
from stages.reading.records import FieldMapping, Record

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

    The footer does not say how many rows a batch has, so the texts are read once to count them.

    Returns:
        The runs, and the rows of all.

    Raises:
        ConfigError: a column that the source takes is absent or of another type.
        DataError: the file is cut or damaged, or a stream.
    """
    check_arrow(file, fields, name=name, key=key)
    with reading_table(name):
        only_text = FieldMapping(text_column=fields.text_column, section_columns=fields.section_columns)
        # Sizes of buffers: batch.nbytes would follow offsets, which in a damaged file lead anywhere.
        batches = _batches(file, only_text)
        pieces = [(batch.num_rows, batch.get_total_buffer_size()) for batch in batches]
        return run_slices(pieces, unit), sum(rows for rows, _ in pieces)


def arrow_records(
    file: BinaryIO, part: Slice, fields: FieldMapping, *, max_bytes: int, name: str
) -> Iterator[Record]:
    """Give the rows of a run of record batches in order.

    Raises:
        DataError: the file is cut or damaged.
    """
    first = part.before
    with reading_table(name):
        for batch in _batches(file, fields, part.first, part.last):
            yield from read_rows(batch, fields, first=first, max_bytes=max_bytes)
            first += batch.num_rows


def _batches(
    file: BinaryIO, fields: FieldMapping, first: int = 0, last: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Give some record batches with the columns that a source takes."""
    file.seek(0)
    schema = pa.ipc.open_file(file).schema
    included = sorted(schema.get_field_index(name) for name in wanted_columns(fields))
    options = pa.ipc.IpcReadOptions(included_fields=included, use_threads=False)
    file.seek(0)
    table = pa.ipc.open_file(file, options=options)
    for number in range(first, table.num_record_batches if last is None else last):
        yield table.get_batch(number)
