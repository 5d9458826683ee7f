"""Byte streams: plain, gzip and Zstandard files as bounded chunks of decompressed bytes.

A compressed file that ends in the middle is an error here, never a short read: the zstandard
library's own stream reader returns what it has and stays silent.
"""

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import zstandard

from stages.errors import DataError

CHUNK_BYTES = 1 << 20
"""Bytes read at a time; decompressed chunks may be larger by the compression ratio of one chunk."""


def stream_chunks(path: Path) -> Iterator[bytes]:
    """Give a local file's decompressed bytes, chunk by chunk; the ending of its name says how.

    Raises:
        DataError: the file is missing, cut, or not what its ending says.
    """
    with reading_stream(str(path)), path.open("rb") as file:
        yield from decompressed(file, path.name)


def decompressed(file: BinaryIO, name: str) -> Iterator[bytes]:
    """Give an open file's decompressed bytes; errors are those of the libraries."""
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
        raise DataError(f"{name}: cannot be read: {error.strerror or error}") from error
    except EOFError as error:
        raise DataError(
            f"{name}: the compressed data ends in the middle; the file was cut short, fetch it again"
        ) from error
    except (zlib.error, zstandard.ZstdError) as error:
        raise DataError(f"{name}: the compressed data is damaged: {error}") from error


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
    """Decompress frame after frame, with the window limit of the format's own tools (128 MiB)."""
    decompressor = zstandard.ZstdDecompressor()
    frame = decompressor.decompressobj()
    inside = True  # even a compressed nothing has a frame
    pending = b""
    # Input in small bites: one bite of a highly compressed frame can grow ten thousand times.
    while data := pending or file.read(CHUNK_BYTES // 64):
        chunk = frame.decompress(data)
        inside, pending = True, b""
        if chunk:
            yield chunk
        if frame.eof:
            pending, inside = frame.unused_data, False
            frame = decompressor.decompressobj()
    if inside:
        raise EOFError


_DECOMPRESSORS: dict[str, Callable[[BinaryIO], Iterator[bytes]]] = {
    ".gz": _gzip_chunks,
    ".zst": _zstd_chunks,
}
