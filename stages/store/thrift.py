"""Thrift: the compact encoding in which a parquet file describes itself, as nested values.

    struct          list of (number of the field, kind, value)
    list            ListOf(kind, [values])
    whole numbers   int
    text, bytes     bytes

Only what the description of a parquet file has: no maps, no sets, no floating-point numbers. What
`decode` returns, `encode` writes byte for byte as it was.

Source: Apache Thrift, "Thrift compact protocol" (doc/specs/thrift-compact-protocol.md).
"""

from typing import NamedTuple

from stages.errors import FormatError

Struct = list[tuple[int, int, object]]
"""The fields of a struct, ascending."""


class ListOf(NamedTuple):
    """Values of one kind."""

    kind: int
    values: list[object]


TRUE, FALSE, BYTE, I16, I32, I64, BINARY, LIST, STRUCT = 1, 2, 3, 4, 5, 6, 8, 9, 12
_NUMBERS = (I16, I32, I64)
_BOOLEANS = (TRUE, FALSE)
_SHORT = 15
"""From so many on, the length of a list, or the distance to the next field, takes bytes of its own."""


def decode(data: bytes) -> Struct:
    """Return the fields of a struct.

    Raises:
        FormatError: it is cut short, or has a kind of value that no description of parquet has.
    """
    try:
        return _Decoder(data).struct()
    except IndexError as error:
        raise FormatError("the description of a parquet file is cut short") from error


def encode(struct: Struct) -> bytes:
    """Return the bytes of a struct."""
    written = bytearray()
    _write_struct(written, struct)
    return bytes(written)


class _Decoder:
    """Reads values one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def struct(self) -> Struct:
        number, fields = 0, Struct()
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._number()
            kind = head & 15
            fields.append((number, kind, kind == TRUE if kind in _BOOLEANS else self._value(kind)))
        return fields

    def _value(self, kind: int) -> object:
        if kind in _NUMBERS:
            return self._number()
        if kind == BINARY:
            length = self._unsigned()
            self._at += length
            return self._data[self._at - length : self._at]
        if kind == STRUCT:
            return self.struct()
        if kind == LIST:
            head = self._byte()
            count = head >> 4 if head >> 4 < _SHORT else self._unsigned()
            return ListOf(head & 15, [self._value(head & 15) for _ in range(count)])
        if kind in (*_BOOLEANS, BYTE):  # a boolean in a list is a byte
            return self._byte()
        raise FormatError(
            f"the description of a parquet file has a value of kind {kind}, which it may not"
        )

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _unsigned(self) -> int:
        found = shift = 0
        while (byte := self._byte()) & 128:
            found |= (byte & 127) << shift
            shift += 7
        return found | byte << shift

    def _number(self) -> int:
        found = self._unsigned()
        return found >> 1 ^ -(found & 1)


def _write_struct(written: bytearray, struct: Struct) -> None:
    before = 0
    for number, kind, value in struct:
        if 0 < number - before <= _SHORT:
            written.append((number - before) << 4 | kind)
        else:
            written.append(kind)
            _write_number(written, number)
        before = number
        if kind not in _BOOLEANS:
            _write_value(written, kind, value)
    written.append(0)


def _write_value(written: bytearray, kind: int, value: object) -> None:
    if isinstance(value, ListOf):
        written.append(min(len(value.values), _SHORT) << 4 | value.kind)
        if len(value.values) >= _SHORT:
            _write_unsigned(written, len(value.values))
        for one in value.values:
            _write_value(written, value.kind, one)
    elif isinstance(value, list):
        _write_struct(written, value)
    elif isinstance(value, bytes):
        _write_unsigned(written, len(value))
        written += value
    else:
        assert isinstance(value, int), "a value is a number, bytes, a list or a struct"
        if kind in _NUMBERS:
            _write_number(written, value)
        else:
            written.append(value)


def _write_unsigned(written: bytearray, value: int) -> None:
    while value > 127:  # noqa: PLR2004 - seven bits a byte
        written.append(value & 127 | 128)
        value >>= 7
    written.append(value)


def _write_number(written: bytearray, value: int) -> None:
    _write_unsigned(written, value << 1 if value >= 0 else -value * 2 - 1)
