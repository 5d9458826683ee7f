"""Byte streams: plain, gzip and Zstandard files as bounded chunks of decompressed bytes.

A compressed file that ends in the middle is an error here, never a short read: the zstandard
library's own stream reader returns what it has and stays silent. Arrow's raises, joins frames, and gives
as much at a time as it is asked for: a frame of some bytes may hold gigabytes of one letter. Arrow knows
no dictionaries. So a file with its dictionary in front, as .warc.zst files have, goes through
`stages.reading.zstd_frames`.
"""

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import pyarrow as pa

from stages.errors import DataError
from stages.reading.zstd_frames import (
    WINDOW,
    ZstdCutError,
    ZstdDataError,
    decompressed_frames,
    dictionary_in_front,
)

CHUNK_BYTES = 1 << 20
"""Bytes given at a time, decompressed."""
ZSTD_WINDOW = WINDOW
"""Largest window of a Zstandard frame, which decompressing holds. The format's own tools have the same
bound, and write larger ones with `--long=28` or more alone."""
_WINDOW = "Frame requires too much memory"
_TRUNCATED = "Truncated compressed stream"
_DECODER = "ZSTD"


def stream_chunks(path: Path) -> Iterator[bytes]:
    """Yield a local file's decompressed bytes, chunk by chunk; the ending of its name says how.

    Raises:
        DataError: the file is missing, cut, or not what its ending says.
    """
    with reading_stream(str(path)), path.open("rb") as file:
        yield from decompressed(file, path.name)


def decompressed(file: BinaryIO, name: str) -> Iterator[bytes]:
    """Return an open file's decompressed bytes; errors are those of the libraries."""
    return _DECOMPRESSORS.get(PurePosixPath(name).suffix, _plain_chunks)(file)


@contextmanager
def reading_stream(name: str) -> Iterator[None]:
    """Say which file a failure to read or decompress is about.

    Raises:
        DataError: the file is missing, cut, or not what its ending says.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, gzip.BadGzipFile):
            raise DataError(f"{name}: not gzip data ({error})") from error
        if error.errno is None and str(error).startswith((_TRUNCATED, _DECODER)):  # from Arrow
            raise DataError(f"{name}: {_fault_of(str(error))}") from error
        raise DataError(f"{name}: cannot be read: {error.strerror or error}") from error
    except EOFError as error:
        raise DataError(f"{name}: {_fault_of(_TRUNCATED)}") from error
    except zlib.error as error:
        raise DataError(f"{name}: {_fault_of(str(error))}") from error


def _fault_of(reason: str) -> str:
    """Say what is wrong with compressed data, and the way out."""
    if _TRUNCATED in reason:
        return "the compressed data ends in the middle; the file was cut short, fetch it again"
    if _WINDOW in reason:
        return (
            f"its zstd window is over {ZSTD_WINDOW >> 20} MiB, which decompressing it would hold;"
            " compress it again with --long=27 or less (zstd -d --long=31 reads it)"
        )
    return f"the compressed data is damaged: {reason}"


def _plain_chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def _gzip_chunks(file: BinaryIO) -> Iterator[bytes]:
    if not file.read(1):
        raise EOFError  # even a compressed nothing has a header
    file.seek(0)
    with gzip.GzipFile(fileobj=file) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk


def _zstd_chunks(file: BinaryIO) -> Iterator[bytes]:
    """Decompress frame after frame; Arrow refuses a window that is larger than `ZSTD_WINDOW`."""
    if not file.read(1):
        raise EOFError  # even a compressed nothing has a frame
    file.seek(0)
    try:
        if dictionary := dictionary_in_front(file):
            for content in decompressed_frames(_plain_chunks(file), dictionary):
                for start in range(0, len(content), CHUNK_BYTES):
                    yield content[start : start + CHUNK_BYTES]
            return
    except ZstdCutError as error:
        raise EOFError from error
    except ZstdDataError as error:
        raise OSError(f"{_DECODER}: {error}") from error
    file.seek(0)
    with pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk


_DECOMPRESSORS: dict[str, Callable[[BinaryIO], Iterator[bytes]]] = {
    ".gz": _gzip_chunks,
    ".zst": _zstd_chunks,
}
COMPRESSIONS = tuple(_DECOMPRESSORS)
"""By the ending of the name."""
