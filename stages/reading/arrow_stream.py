"""Arrow IPC streams: record batches one after the other, with no footer that says where they are.

The scan reads a stream once and notes at which byte each batch begins; later a slice is read from there,
behind the schema at the stream's beginning. A stream with dictionaries is one slice, since any batch may
need one that stands before it. A stream without the mark of its end was cut short, and is refused.
"""

from collections.abc import Iterator, Sequence
from typing import BinaryIO

import pyarrow as pa

from stages.errors import DataError
from stages.reading.slices import Slice

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
