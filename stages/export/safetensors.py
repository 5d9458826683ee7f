"""safetensors: one file a shard, each column of the rows a tensor.

    SPLIT/NNNNN.safetensors
      0        u64        J, a multiple of 8
      8        J bytes    JSON, spaces at its end: of each column dtype, shape, [begin, end) in the data
      8 + J    data       the columns one after the other, those of wider dtypes first, without gaps

The invariant: size = 8 + J + the sum over columns of rows * itemsize * the shape's product. As J is a
multiple of 8 and wide dtypes come first, every value is aligned.

The columns are written one after the other, so the rows of a shard are read, or drawn, once for each:
that keeps memory to a block, at the cost of time for objectives that are drawn.
"""

import json
import math
from collections.abc import Sequence

import numpy as np

from stages.export.files import ExportFiles
from stages.export.format import Format, FormatContents, quoted
from stages.export.rows import refuse_no_rows, row_notes
from stages.export.source import ExportSource

_DTYPES = {"|b1": "BOOL", "|u1": "U8", "<u2": "U16", "<i2": "I16", "<i4": "I32", "<i8": "I64"}
_ALIGNMENT = 8


def column_order(source: ExportSource) -> list[str]:
    """Return the columns as they follow each other: wide dtypes first, then by name."""
    columns = source.columns
    return sorted(columns, key=lambda name: (-np.dtype(columns[name].dtype).itemsize, name))


def header(source: ExportSource, rows: int) -> bytes:
    """Return what stands before the data of a file of so many rows."""
    manifest = source.manifest
    metadata = {
        "dataset": manifest.name,
        "epoch": str(source.epoch),
        "fingerprint": manifest.fingerprint,
        "split": source.split,
    }
    entries: dict[str, object] = {"__metadata__": metadata}
    begin = 0
    for name in column_order(source):
        column = source.columns[name]
        shape = [rows, *column.shape]
        end = begin + math.prod(shape) * np.dtype(column.dtype).itemsize
        entries[name] = {
            "dtype": _DTYPES[column.dtype],
            "shape": shape,
            "data_offsets": [begin, end],
        }
        begin = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def _refuse(source: ExportSource) -> None:
    refuse_no_rows(source, name="safetensors")


def _write_part(source: ExportSource, shard: int, files: ExportFiles) -> None:
    with files.append(f"{source.split}/{shard:05}.safetensors") as file:
        file.write(header(source, source.manifest.shards[shard].rows))
        for name in column_order(source):
            for block in source.rows(shard):
                file.write(block[name])


def _read(sources: Sequence[ExportSource], folder: str) -> str:
    name = quoted(f"{folder}/{sources[0].split}/00000.safetensors")
    return "\n".join(
        (
            "from safetensors import safe_open",
            "",
            f'with safe_open({name}, framework="pt") as file:',
            f"    rows = file.get_slice({quoted(column_order(sources[0])[0])})[0:8]",
        )
    )


SAFETENSORS = Format(
    name="safetensors",
    holds=FormatContents.ROWS,
    client="safetensors",
    files=("SPLIT/NNNNN.safetensors",),
    write_part=_write_part,
    read=_read,
    refuse=_refuse,
    notes=row_notes,
)
