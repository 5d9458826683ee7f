"""Zstandard frames: one after the other, each whole, with a dictionary or without.

The library's own stream readers stay silent at data that ends in the middle of a frame. So frames are
decompressed here one by one, and each must reach its end.

Source: RFC 8878, 2021, sections 3.1 and 5; Zstandard Compression for WARC Files 1.0, IIPC.
"""

from collections.abc import Iterable, Iterator

import zstandard

FRAME = b"\x28\xb5\x2f\xfd"
"""A frame begins with it."""
WINDOW = 128 << 20
"""Largest window of a frame, which decompressing holds. The format's own tools have the same bound."""
_DICTIONARY = b"\x37\xa4\x30\xec"
"""A dictionary begins with it."""
_IN_FRONT = b"\x5d\x2a\x4d\x18"
"""A skippable frame that holds the dictionary of a .warc.zst file begins with it."""
_HEAD = 8
"""Bytes of a skippable frame before its content: its magic number and its length."""
_LARGEST_DICTIONARY = 32 << 20
_STEP = 256
"""Bytes that are taken at a time. A block is at least 4 bytes and gives at most 128 KiB, so a step gives
at most 8 MiB."""


class ZstdFault(ValueError):
    """Data is not what the format says; the message says why."""


class ZstdCut(ZstdFault):
    """Data ends in the middle."""


def decompressed_frames(chunks: Iterable[bytes], dictionary: bytes = b"") -> Iterator[bytes]:
    """Yield the content of frames, at most 8 MiB at a time.

    Args:
        chunks: the frames.
        dictionary: what all of them were compressed with; empty for none.

    Raises:
        ZstdFault: the data is damaged.
        ZstdCut: the data ends in the middle of a frame.
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
                    raise ZstdFault(str(error).removeprefix("zstd decompressor error: ")) from error
                if content:
                    yield content
                left = frame.unused_data if frame.eof else b""
                frame = None if frame.eof else frame
    if frame is not None:
        raise ZstdCut("the data ends in the middle of a frame")


def dictionary_in_front(head: bytes) -> int:
    """Return the bytes of the frame at the head of a file that may hold a dictionary; 0 if there is none.

    Args:
        head: the first 12 bytes of the file.
    """
    holds = head[_HEAD:].startswith((_DICTIONARY, FRAME))
    return _HEAD + int.from_bytes(head[4:_HEAD], "little") if head.startswith(_IN_FRONT) and holds else 0


def dictionary_of(frame: bytes) -> bytes:
    """Return the dictionary that a skippable frame holds, itself compressed or not.

    Raises:
        ZstdFault: it holds none.
    """
    content = frame[_HEAD:]
    if content.startswith(FRAME):
        parts, size = [], 0
        for part in decompressed_frames([content]):
            size += len(part)
            if size > _LARGEST_DICTIONARY:
                break
            parts.append(part)
        content = b"".join(parts)
    if not content.startswith(_DICTIONARY) or len(content) > _LARGEST_DICTIONARY:
        raise ZstdFault(
            "the frame at the beginning of the file holds no dictionary of at most"
            f" {_LARGEST_DICTIONARY >> 20} MiB"
        )
    return content


def too_long_for_dictionary(size: int) -> bool:
    """Say whether a frame is longer than one that holds a dictionary may be."""
    return size > _HEAD + _LARGEST_DICTIONARY
