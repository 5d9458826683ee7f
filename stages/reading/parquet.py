"""Parquet to raw documents, by row groups, a few rows at a time.

Only the columns that a source takes are read, page by page. What stays in memory is a page of each
(about 1 MiB as most writers cut them), a dictionary if there is one, and a batch of rows: no row group
is ever whole in memory, however large, unless its writer made one page of it.
"""

from collections.abc import Iterator
from typing import BinaryIO

import pyarrow.parquet as pq

from stages.errors import DataError
from stages.reading.cells import check_columns, read_rows, reading_table, wanted_columns
from stages.reading.formats import Slice, run_slices
from stages.reading.records import FieldMapping, Record

BATCH_BYTES = 4 << 20
"""Text in a batch, by the row group's average."""
BATCH_ROWS = 4_096
BUFFER_BYTES = 1 << 20
"""Bytes of a column read at a time; without it the whole column of a row group would be."""


def check_parquet(file: BinaryIO, fields: FieldMapping, *, name: str, key: str) -> None:
    """Check a file's columns; only its footer is read.

    Raises:
        ConfigError: a column that the source takes is absent or of another type.
        DataError: the file is cut or damaged.
    """
    with reading_table(name), pq.ParquetFile(file) as table:
        check_columns(table.schema_arrow, fields, name=name, key=key)


def parquet_slices(
    file: BinaryIO, fields: FieldMapping, *, unit: int, name: str, key: str
) -> tuple[list[Slice], int]:
    """Check a file's columns and cut it into runs of row groups of about `unit` bytes of text.

    Returns:
        The runs, and the rows of all.

    Raises:
        ConfigError: a column that the source takes is absent or of another type.
        DataError: the file is cut or damaged.
    """
    with reading_table(name), pq.ParquetFile(file) as table:
        check_columns(table.schema_arrow, fields, name=name, key=key)
        groups = [table.metadata.row_group(n) for n in range(table.num_row_groups)]
        pieces = [(group.num_rows, _text_bytes(group, fields)) for group in groups]
        return run_slices(pieces, unit), sum(rows for rows, _ in pieces)


def parquet_records(
    file: BinaryIO, part: Slice, fields: FieldMapping, *, max_bytes: int, name: str
) -> Iterator[Record]:
    """Give the rows of a run of row groups in order.

    Raises:
        DataError: the file is cut or damaged.
    """
    first = part.before
    options = {"buffer_size": BUFFER_BYTES, "page_checksum_verification": True}
    with reading_table(name), pq.ParquetFile(file, pre_buffer=False, **options) as table:
        for number in range(part.first, part.last):
            group = table.metadata.row_group(number)
            average = _text_bytes(group, fields) // max(1, group.num_rows)
            found, rows = 0, max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, average)))
            for batch in table.iter_batches(
                rows, row_groups=[number], columns=wanted_columns(fields), use_threads=False
            ):
                yield from read_rows(batch, fields, first=first, max_bytes=max_bytes)
                first, found = first + batch.num_rows, found + batch.num_rows
            if found != group.num_rows:
                raise DataError(
                    f"{name}: row group {number} holds {found:,} rows, and its footer says"
                    f" {group.num_rows:,}; the file is damaged: fetch or write it again"
                )


def _text_bytes(group: pq.RowGroupMetaData, fields: FieldMapping) -> int:
    """Give the uncompressed bytes of a row group's columns of text."""
    columns = [group.column(n) for n in range(group.num_columns)]
    return sum(c.total_uncompressed_size for c in columns if c.path_in_schema in fields.text_columns)
