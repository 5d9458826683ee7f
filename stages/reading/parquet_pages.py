"""Pages of Parquet columns: how large each is, from their headers alone.

A page is read and decompressed as a whole, and a dictionary stays until its row group is done; nothing
in a file's footer says how large they are. Writers cut pages of about 1 MiB, but look at the size after
each thousand values only: of long texts a page or a dictionary may be the whole row group.

A page header is a struct of Thrift's compact protocol: a byte of field step and type, then the value.

Source: parquet-format, `PageHeader` in parquet.thrift; Thrift's compact protocol specification.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

_WINDOW = 1 << 12
"""Bytes read for a header; one with statistics of long values is longer."""
_MAX_HEADER = 1 << 26
_DICTIONARY = 2
_TYPE, _UNCOMPRESSED, _COMPRESSED = 1, 2, 3
_VALUES: Final = {5: 1, 7: 1, 8: 1}
"""Fields that describe a page by its kind, and which field of theirs counts its values."""
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)


@dataclass(frozen=True)
class Page:
    """One page of a column."""

    dictionary: bool
    bytes: int
    """Decompressed."""
    values: int


def pages_of(file: BinaryIO, column: pq.ColumnChunkMetaData) -> Iterator[Page]:
    """Return the pages of a column in one row group, reading their headers alone.

    Raises:
        pa.ArrowInvalid: the headers lead elsewhere than through the column.
    """
    if not column.num_values:
        return
    place = column.data_page_offset
    if column.has_dictionary_page and column.dictionary_page_offset is not None:
        place = min(place, column.dictionary_page_offset)
    end = place + column.total_compressed_size
    if place < 0:  # the footer is damaged
        raise pa.ArrowInvalid(f"a column that begins at byte {place:,}")
    while place < end:
        page, size = _header_at(file, place, end)
        yield page
        place += size


def _header_at(file: BinaryIO, place: int, end: int) -> tuple[Page, int]:
    """Read the header at a place; give its page and the bytes of both."""
    window = _WINDOW
    while True:
        file.seek(place)
        data = file.read(min(window, end - place))
        try:
            return _parse(_Reader(data))
        except IndexError as error:
            if window > min(_MAX_HEADER, end - place):
                raise pa.ArrowInvalid(f"no page header at byte {place:,}") from error
            window *= 16


def _parse(reader: "_Reader") -> tuple[Page, int]:
    numbers, values = {_TYPE: 0, _UNCOMPRESSED: 0, _COMPRESSED: 0}, 0
    for field, kind in reader.fields():
        if field in numbers and kind == _I32:
            numbers[field] = reader.integer()
        elif field in _VALUES and kind == _STRUCT:
            for inner, inner_kind in reader.fields():
                if inner == _VALUES[field] and inner_kind == _I32:
                    values = reader.integer()
                else:
                    reader.skip(inner_kind)
        else:
            reader.skip(kind)
    if min(numbers.values()) < 0:
        raise pa.ArrowInvalid("a page header with a negative size")
    page = Page(numbers[_TYPE] == _DICTIONARY, numbers[_UNCOMPRESSED], values)
    return page, reader.place + numbers[_COMPRESSED]


class _Reader:
    """Reads Thrift's compact protocol; past the end of its data it raises IndexError."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.place = 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """Return number and type of each field of a struct; who takes one reads or skips its value."""
        field = 0
        while head := self._byte():
            step, kind = head >> 4, head & 15
            field = field + step if step else self.integer()
            yield field, kind

    def integer(self) -> int:
        """Return a signed integer."""
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)

    def skip(self, kind: int) -> None:
        """Pass over a value."""
        if kind in (_I16, _I32, _I64):
            self._unsigned()
        elif kind == _BYTE:
            self._byte()
        elif kind == _DOUBLE:
            self._pass(8)
        elif kind == _BINARY:
            self._pass(self._unsigned())
        elif kind in (_LIST, _SET):
            self._skip_list()
        elif kind == _STRUCT:
            for _, inner in self.fields():
                self.skip(inner)
        elif kind not in (_TRUE, _FALSE):
            raise pa.ArrowInvalid(f"a page header with a value of type {kind}")

    def _skip_list(self) -> None:
        head = self._byte()
        count = head >> 4
        for _ in range(self._unsigned() if count == 15 else count):  # noqa: PLR2004  # of four bits
            self.skip(head & 15)

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:  # noqa: PLR2004  # the last of its bytes
                return value
            shift += 7

    def _byte(self) -> int:
        byte = self._data[self.place]
        self.place += 1
        return byte

    def _pass(self, count: int) -> None:
        self.place += count
        if self.place > len(self._data):
            raise IndexError
