"""Parquet to raw documents, by row groups, a few rows at a time.

Only the columns that a source takes are read, page by page. What stays in memory is a page of each
(about 1 MiB as most writers cut them), a dictionary if there is one, and a batch of rows: no row group
is ever whole in memory, however large, unless its writer made one page of it. Then its slice says so,
and the run asks for the memory before it starts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import BinaryIO

import pyarrow.parquet as pq

from stages.errors import DataError
from stages.reading.cells import (
    check_columns,
    read_columns,
    read_rows,
    reading_table,
    wanted_columns,
)
from stages.reading.nested import read_path
from stages.reading.parquet_pages import pages_of
from stages.reading.reader import TableReader
from stages.reading.records import FieldMapping, Record
from stages.reading.slices import Slice, slices_of_blocks

BATCH_BYTES = 4 << 20
"""Text in a batch, by the row group's average."""
BATCH_ROWS = 4_096
PAGE_BYTES = 32 << 20
"""Of a row group's columns that no slice tells of."""
_SLACK = 8
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
        sizes = [(group.num_rows, _slice_bytes(group, fields)) for group in groups]
        slices = slices_of_blocks(sizes, unit)
        most_bytes = [_page_bytes(file, group, fields) for group in groups]
    slices = [replace(part, most_bytes=max([0, *most_bytes[part.first : part.last]])) for part in slices]
    return slices, sum(rows for rows, _ in sizes)


def parquet_records(
    file: BinaryIO, part: Slice, fields: FieldMapping, *, max_bytes: int, name: str
) -> Iterator[Record]:
    """Yield the rows of a run of row groups in order.

    Raises:
        DataError: the file is cut or damaged.
    """
    first = part.before
    options = {"buffer_size": BUFFER_BYTES, "page_checksum_verification": True}
    with reading_table(name), pq.ParquetFile(file, pre_buffer=False, **options) as table:
        schema = table.schema_arrow
        wanted = (read_path(schema, column) for column in read_columns(schema, fields))
        columns = list(dict.fromkeys(wanted))
        for number in range(part.first, part.last):
            group = table.metadata.row_group(number)
            average = _text_bytes(group, fields) // max(1, group.num_rows)
            found = 0
            rows = max(
                1, min(BATCH_ROWS, BATCH_BYTES // max(1, average, *_longest(file, group, fields)))
            )
            for batch in table.iter_batches(
                rows, row_groups=[number], columns=columns, use_threads=False
            ):
                yield from read_rows(batch, fields, first=first, max_bytes=max_bytes)
                first, found = first + batch.num_rows, found + batch.num_rows
            if found != group.num_rows:
                raise DataError(
                    f"{name}: row group {number} holds {found:,} rows, and its footer says"
                    f" {group.num_rows:,}; the file is damaged: fetch or write it again"
                )


PARQUET = TableReader(
    "Parquet",
    (".parquet",),
    check=check_parquet,
    slices=parquet_slices,
    records=parquet_records,
    slices_from_footer=True,
)


def _slice_bytes(group: pq.RowGroupMetaData, fields: FieldMapping) -> int:
    """Return what a row group adds to a slice: its texts, or what stands beside them if that is more."""
    text = _text_bytes(group, fields)
    taken: int = sum(column.total_uncompressed_size for column in _columns(group, fields))
    return max(text, taken - text)


def _columns(group: pq.RowGroupMetaData, fields: FieldMapping) -> list[pq.ColumnChunkMetaData]:
    """Return the columns that a source takes, with all that is inside of those that go along."""
    columns = [group.column(n) for n in range(group.num_columns)]
    return [column for column in columns if _is_of(column, wanted_columns(fields), fields)]


def _page_bytes(file: BinaryIO, group: pq.RowGroupMetaData, fields: FieldMapping) -> int:
    """Return what is in memory at once of a row group's columns: a page and a dictionary of each."""
    total = 0
    for column in _columns(group, fields):
        if column.total_uncompressed_size > PAGE_BYTES:
            pages = list(pages_of(file, column))
            total += max((page.bytes for page in pages if not page.dictionary), default=0)
            total += sum(page.bytes for page in pages if page.dictionary)
    return total if total > PAGE_BYTES else 0


def _longest(file: BinaryIO, group: pq.RowGroupMetaData, fields: FieldMapping) -> list[int]:
    """Return what a row of each column may hold, on average over any rows, at the most.

    Of a page no row is known to be shorter than the page's average over its values; a value of a
    dictionary may be all of it, and stand in every row. An 8th of that is counted, since a batch may be
    8 times as large as it is meant to be.
    """
    longest = []
    for column in _columns(group, fields):
        pages = pages_of(file, column)
        if column.total_uncompressed_size <= BATCH_BYTES:  # but for its dictionary it is small
            pages = islice(pages, 1)
        longest += [
            page.bytes // (_SLACK * (1 if page.dictionary else max(1, page.values))) for page in pages
        ]
    return longest


def _text_bytes(group: pq.RowGroupMetaData, fields: FieldMapping) -> int:
    """Return the uncompressed bytes of a row group's columns of text."""
    columns = [group.column(n) for n in range(group.num_columns)]
    return sum(c.total_uncompressed_size for c in columns if _is_of(c, fields.text_columns, fields))


def _is_of(column: pq.ColumnChunkMetaData, names: Sequence[str], fields: FieldMapping) -> bool:
    """Say whether a column of values is of one that is named; lists and structs have several of them."""
    path: str = column.path_in_schema
    several = (
        fields.keep_columns if fields.chat is None else (*fields.keep_columns, *fields.text_columns)
    )
    return path in names or any(name in names and path.startswith(f"{name}.") for name in several)
