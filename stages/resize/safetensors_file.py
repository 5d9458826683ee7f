"""safetensors files: read by their header, and written again with other rows, tensor by tensor.

    0      u64       J
    8      J bytes   JSON: of each tensor dtype, shape and [begin, end) in the data; __metadata__
    8 + J  data      the tensors one after the other, without gaps

Tensors that keep their rows are copied byte for byte, in their order. Nothing of the size of a tensor is
held in memory.
"""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Self

import numpy as np

from stages.errors import FormatError
from stages.resize.new_rows import ARRAYS, NewTensor, Raw
from stages.resize.tensors import TensorInfo

_LENGTH = 8
_MOST = 100_000_000
"""Bytes of a header, as the library allows."""
_ALIGNMENT = 8
_CHUNK = 8 << 20
_METADATA = "__metadata__"
TensorEntry = dict[str, object]


class SafetensorsFile:
    """A file of tensors.

    Args:
        path: of the file.
        header: of it.
        start: where the data begins.
    """

    def __init__(self, path: Path, header: dict[str, TensorEntry], *, start: int) -> None:
        self._path, self._header, self._start = path, header, start
        self.tensors = {
            name: TensorInfo(_shape(entry), str(entry["dtype"]), f"{path.name} {name}")
            for name, entry in header.items()
            if name != _METADATA
        }

    @staticmethod
    def is_one(path: Path) -> bool:
        """Say whether a file begins as one does: with a length that it has room for, and an object.

        The first eight bytes of the files of torch would be a length that no file has.
        """
        with path.open("rb") as file:
            length = int.from_bytes(file.read(_LENGTH), "little")
            return length <= path.stat().st_size - _LENGTH and file.read(1) == b"{"

    @classmethod
    def open(cls, path: Path) -> Self:
        """Return a file whose header was read.

        Raises:
            FormatError: it is no safetensors file, or was cut short.
        """
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(_LENGTH), "little")
            if length > min(_MOST, size - _LENGTH):
                raise FormatError(
                    f"{path}: neither a torch file nor safetensors, or cut short: its header would have"
                    f" {length:,} bytes of {size:,}; name a checkpoint's file or folder"
                )
            try:
                header = json.loads(file.read(length))
                ends = sorted(_extent(entry) for name, entry in header.items() if name != _METADATA)
                shapes = [_shape(entry) for name, entry in header.items() if name != _METADATA]
                [entry["dtype"] for name, entry in header.items() if name != _METADATA]
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise FormatError(f"{path}: not a safetensors file: {error}") from error
        place = 0
        for begin, end in ends:
            if begin != place or end < begin:
                raise FormatError(f"{path}: its tensors leave a gap, or overlap, at byte {place:,}")
            place = end
        start = _LENGTH + length
        if start + place != size or any(side < 0 for shape in shapes for side in shape):
            raise FormatError(
                f"{path}: {size:,} bytes, but its header says {start + place:,}; it was cut short or"
                " overwritten"
            )
        return cls(path, header, start=start)

    def rows(self, name: str) -> Raw:
        """Return a tensor as stored, mapped: (rows, D).

        Raises:
            FormatError: its type is not one that rows can be computed in.
        """
        info, (begin, end) = self.tensors[name], _extent(self._header[name])
        if info.dtype not in ARRAYS:
            raise FormatError(
                f"{self._path}: {name} is {info.dtype}; rows are computed for {', '.join(ARRAYS)} alone:"
                " resize the model before it is quantised"
            )
        dtype = np.dtype(ARRAYS[info.dtype])
        if math.prod(info.shape) * dtype.itemsize != end - begin:
            raise FormatError(
                f"{self._path}: {name} {info.shape} does not fit its {end - begin:,} bytes"
            )
        mapped: Raw = np.memmap(self._path, dtype, "r", self._start + begin, math.prod(info.shape))
        return mapped.reshape(info.rows, -1)

    def write(self, target: BinaryIO, changed: Mapping[str, NewTensor]) -> None:
        """Write the file with other rows of some tensors."""
        ordered = sorted(self.tensors, key=lambda name: _extent(self._header[name]))
        target.write(self._new_header(ordered, changed))
        with self._path.open("rb") as source:
            for name in ordered:
                if name in changed:
                    target.writelines(block.tobytes() for block in changed[name].blocks(self.rows(name)))
                else:
                    target.writelines(self._parts(source, name))

    def _new_header(self, ordered: list[str], changed: Mapping[str, NewTensor]) -> bytes:
        entries, place = {name: dict(entry) for name, entry in self._header.items()}, 0
        for name in ordered:
            begin, end = _extent(self._header[name])
            size = end - begin
            if name in changed:
                info = self.tensors[name]
                size = size // info.rows * changed[name].rows
                entries[name]["shape"] = grown_shape(info, changed[name].rows)
            entries[name]["data_offsets"] = [place, place + size]
            place += size
        text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
        text += b" " * (-len(text) % _ALIGNMENT)
        return len(text).to_bytes(_LENGTH, "little") + text

    def _parts(self, source: BinaryIO, name: str) -> Iterator[bytes]:
        begin, end = _extent(self._header[name])
        source.seek(self._start + begin)
        left = end - begin
        while left:
            part = source.read(min(left, _CHUNK))
            if not part:
                raise FormatError(f"{self._path}: was cut short while it was read")
            left -= len(part)
            yield part


def grown_shape(info: TensorInfo, rows: int) -> list[int]:
    """Return the shape of a tensor with another number of rows: (1, 5) -> [1, 7]."""
    shape = list(info.shape)
    shape[next(axis for axis, size in enumerate(shape) if size != 1)] = rows
    return shape


def _extent(entry: TensorEntry) -> tuple[int, int]:
    match entry["data_offsets"]:
        case [int(begin), int(end)]:
            return begin, end
    raise TypeError("data_offsets are not two numbers")


def _shape(entry: TensorEntry) -> tuple[int, ...]:
    shape = entry["shape"]
    if not isinstance(shape, list) or any(type(size) is not int for size in shape):
        raise TypeError("a shape is no list of numbers")
    return tuple(shape)
