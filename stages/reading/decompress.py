"""Byte streams: plain, gzip and Zstandard files as bounded chunks of decompressed bytes.

A compressed file that ends in the middle is an error here, never a short read: the zstandard
library's own stream reader returns what it has and stays silent.
"""

import gzip
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import zstandard

from stages.errors import DataError

CHUNK_BYTES = 1 << 20
"""Bytes read at a time; decompressed chunks may be larger by the compression ratio of one chunk."""


def stream_chunks(path: Path) -> Iterator[bytes]:
    """Give a file's decompressed bytes, chunk by chunk; the ending of its name says how.

    Raises:
        DataError: the file is missing, cut, or not what its ending says.
    """
    decompress = _DECOMPRESSORS.get(path.suffix, _plain_chunks)
    try:
        with path.open("rb") as file:
            yield from decompress(file)
    except OSError as error:
        if isinstance(error, gzip.BadGzipFile):
            raise DataError(f"{path}: not gzip data ({error})") from error
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    except EOFError as error:
        raise DataError(
            f"{path}: the compressed data ends in the middle; the file was cut short, fetch it again"
        ) from error
    except (zlib.error, zstandard.ZstdError) as error:
        raise DataError(f"{path}: the compressed data is damaged: {error}") from error


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
