"""Tables on disk: Parquet files that are written a table at a time."""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def write_tables(path: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    """Write tables one behind the other, each as row groups of its own.

    The file of one table is the one that `pyarrow.parquet.write_table` makes of it; so is that of none.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    empty = True
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for table in tables:
            writer.write_table(table)
            empty = False
            del table  # two are not held at once
        if empty:
            writer.write_table(schema.empty_table())
