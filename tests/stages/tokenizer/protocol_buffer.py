"""Protocol buffers, read field by field in plain Python: how tests look into models and change them."""

from collections.abc import Iterator
from typing import NamedTuple

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
"""Wire types."""


class ReadField(NamedTuple):
    """One field of a protocol buffer."""

    number: int
    value: int
    """Of a varint."""
    content: bytes
    """Of what has a length."""
    whole: bytes
    """As it stands there."""


def read_fields(data: bytes) -> Iterator[ReadField]:
    """Yield the fields of a protocol buffer that a library has read already."""
    place = 0
    while place < len(data):
        start = place
        tag, place = _read_varint(data, place)
        value, content, kind = 0, b"", tag & 7
        if kind == _VARINT:
            value, place = _read_varint(data, place)
        elif kind == _LENGTH:
            length, place = _read_varint(data, place)
            content, place = data[place : place + length], place + length
        else:
            assert kind in (_FIXED32, _FIXED64), kind
            place += 4 if kind == _FIXED32 else 8
        yield ReadField(tag >> 3, value, content, data[start:place])


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, the lowest first, and the place behind it."""
    value = shift = 0
    while True:
        value |= (data[place] & 0x7F) << shift
        shift, place = shift + 7, place + 1
        if data[place - 1] < 0x80:  # the bit that says that more follows
            return value, place
