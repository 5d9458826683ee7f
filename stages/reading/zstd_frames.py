"""Zstandard frames: one after the other, each whole, with a dictionary or without.

The library's own stream readers stay silent at data that ends in the middle of a frame. So frames are
decompressed here one by one, and each must reach its end.

Source: RFC 8878, 2021, sections 3.1 and 5; Zstandard Compression for WARC Files 1.0, IIPC.
"""

from collections.abc import Iterable, Iterator
from typing import BinaryIO

import zstandard

FRAME = b"\x28\xb5\x2f\xfd"
"""A frame begins with it."""
WINDOW = 128 << 20
"""Largest window of a frame, which decompressing holds. The format's own tools have the same bound."""
_DICTIONARY = b"\x37\xa4\x30\xec"
"""A dictionary begins with it."""
_IN_FRONT = b"\x5d\x2a\x4d\x18"
"""A skippable frame that holds the dictionary of a .warc.zst file begins with it."""
_MAGIC, _HEAD = 4, 8
"""Bytes of a skippable frame's magic number, and with its length, before its content."""
_LARGEST_DICTIONARY = 32 << 20
_NO_DICTIONARY = (
    "the frame at the beginning of the file holds no dictionary of at most"
    f" {_LARGEST_DICTIONARY >> 20} MiB"
)
_STEP = 256
"""Bytes that are taken at a time. A block is at least 4 bytes and gives at most 128 KiB, so a step gives
at most 8 MiB."""


class ZstdDataError(ValueError):
    """Data is not what the format says; the message says why."""


class ZstdCutError(ZstdDataError):
    """Data ends in the middle."""


def decompressed_frames(chunks: Iterable[bytes], dictionary: bytes = b"") -> Iterator[bytes]:
    """Yield the content of frames, at most 8 MiB at a time.

    Args:
        chunks: the frames.
        dictionary: what all of them were compressed with; empty for none.

    Raises:
        ZstdDataError: the data is damaged.
        ZstdCutError: the data ends in the middle of a frame.
    """
    known = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
    context = zstandard.ZstdDecompressor(dict_data=known, max_window_size=WINDOW)
    frame = None
    for chunk in chunks:
        for start in range(0, len(chunk), _STEP):
            left = chunk[start : start + _STEP]
            while left:
                frame = frame or context.decompressobj()
                try:
                    content = frame.decompress(left)
                except zstandard.ZstdError as error:
                    raise ZstdDataError(str(error).removeprefix("zstd decompressor error: ")) from error
                if content:
                    yield content
                left = frame.unused_data if frame.eof else b""
                frame = None if frame.eof else frame
    if frame is not None:
        raise ZstdCutError("the data ends in the middle of a frame")


def dictionary_in_front(file: BinaryIO) -> bytes:
    """Read the dictionary of a file's frames from the frame before them; empty if there is none.

    The dictionary is itself compressed or not. Behind one the file stands at the first frame.

    Raises:
        ZstdDataError: what is there is no dictionary.
        ZstdCutError: the file ends in the middle of it.
    """
    head = file.read(_HEAD + _MAGIC)
    if not head.startswith(_IN_FRONT) or not head[_HEAD:].startswith((_DICTIONARY, FRAME)):
        return b""
    size = int.from_bytes(head[_MAGIC:_HEAD], "little")
    if size > _LARGEST_DICTIONARY:
        raise ZstdDataError(_NO_DICTIONARY)
    content = head[_HEAD:] + file.read(size - _MAGIC)
    if len(content) < size:
        raise ZstdCutError("the data ends in the middle of the dictionary")
    if content.startswith(FRAME):
        content = _joined(decompressed_frames([content]))
    if not content.startswith(_DICTIONARY):
        raise ZstdDataError(_NO_DICTIONARY)
    return content


def _joined(parts: Iterable[bytes]) -> bytes:
    """Join the parts of a dictionary."""
    found, size = [], 0
    for part in parts:
        size += len(part)
        if size > _LARGEST_DICTIONARY:
            raise ZstdDataError(_NO_DICTIONARY)
        found.append(part)
    return b"".join(found)
