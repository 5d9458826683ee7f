"""Arrays on disk: plain .npy files, little-endian, C order, no pickle, opened by any numpy.

    np.load(path, mmap_mode="r")

is all that a reader needs. What this module adds is that a file that is not what its manifest says is
refused before anything is computed from it.
"""

import errno
import io
import math
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from tokenize import TokenError
from typing import cast

import numpy as np
import xxhash
from numpy.typing import NDArray

from stages.errors import FormatError, is_of_the_system

U16_IDS = 1 << 16
HEADER_BYTES = 128
"""Of the header of an array of one or two dimensions, as this module writes it."""
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00(..)\{'descr': '([<|][bfiu]\d)', 'fortran_order': False,"
    rb" 'shape': \(([\d, ]*)\), \} *\n",
    re.DOTALL,
)
"""Of an array of numbers in C order: the length of the rest, the dtype and the shape."""


def id_dtype(vocab_size: int) -> np.dtype[np.generic]:
    """Return the dtype of token ids: <u2 if every id fits, else <i4 (embeddings take no uint32)."""
    return np.dtype("<u2" if vocab_size <= U16_IDS else "<i4")


def write_array(path: Path, array: NDArray[np.generic]) -> None:
    """Write one array as .npy; the caller's commit makes it durable."""
    path.parent.mkdir(parents=True, exist_ok=True)
    little_endian = array.astype(array.dtype.newbyteorder("<"), copy=False)
    with path.open("wb") as file:
        np.lib.format.write_array(file, np.ascontiguousarray(little_endian), allow_pickle=False)


@contextmanager
def array_writer(
    path: Path, *, dtype: str, shape: tuple[int, ...] = ()
) -> Iterator[Callable[[NDArray[np.generic]], None]]:
    """Write an array block by block along its first axis; gives the function that appends one.

    The file is the one that `write_array` makes of the whole: numpy leaves room in the header for the
    length, which is filled in at the end.

    Args:
        path: the file.
        dtype: of the array, little-endian.
        shape: of one entry along the first axis.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = 0

    def header() -> dict[str, object]:
        return {"descr": dtype, "fortran_order": False, "shape": (rows, *shape)}

    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header())
        start = file.tell()

        def append(block: NDArray[np.generic]) -> None:
            nonlocal rows
            assert block.shape[1:] == shape, (block.shape, shape)
            file.write(np.ascontiguousarray(block, dtype).data)
            rows += len(block)

        yield append
        file.seek(0)
        np.lib.format.write_array_header_1_0(file, header())
        assert file.tell() == start, "numpy left no room for the length"


def open_array(
    path: Path, *, shape: tuple[int, ...] | None = None, dtype: str | None = None
) -> NDArray[np.generic]:
    """Return a memory-mapped array, read-only.

    Threads may do so at once if they say the shape and the dtype: a header that is as it must be is not
    parsed, and Python 3.11 cannot parse in several threads (`ast`, "recursion depth mismatch").

    Raises:
        FormatError: no such file, no .npy, cut short, or of another shape or dtype than expected.
        OSError: the process or the machine has no file descriptor left, or the disk fails.
    """
    if shape is not None and dtype is not None:
        known = _open_known(path, shape, dtype)
        if known is not None:
            return known
    plain = _open_plain(path)
    if plain is not None:
        _refuse_layout(plain, path, shape=shape, dtype=dtype)
        return plain
    try:
        array: np.memmap[tuple[int, ...], np.dtype[np.generic]] = np.lib.format.open_memmap(
            path, mode="r"
        )
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise FormatError(f"{path}: the file is missing; the dataset is not whole") from error
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):  # says nothing about the file
            raise OSError(
                error.errno,
                f"no file descriptor left: raise the limit (`ulimit -n`), or read fewer datasets at a"
                f" time: {error.strerror}",
                str(path),
            ) from error
        if is_of_the_system(error):
            raise
        raise FormatError(f"{path}: not a whole .npy file: {error}") from error
    except (ValueError, EOFError, SyntaxError, TypeError, TokenError) as error:
        raise FormatError(f"{path}: not a whole .npy file: {error}") from error
    if array.offset + array.nbytes != size:
        raise FormatError(f"{path}: {size:,} bytes, but its header says {array.offset + array.nbytes:,}")
    _refuse_layout(array, path, shape=shape, dtype=dtype)
    return np.asarray(array)  # the same mapping, without what a memmap does in Python at each index


def _refuse_layout(
    array: NDArray[np.generic], path: Path, *, shape: tuple[int, ...] | None, dtype: str | None
) -> None:
    if not array.flags.c_contiguous:
        raise FormatError(f"{path}: in Fortran order, but the format says C order; make it anew")
    if dtype is not None and not _is_of(array, dtype):
        raise FormatError(f"{path}: dtype {array.dtype.str}, but the manifest says {dtype}")
    if shape is not None and array.shape != shape:
        raise FormatError(f"{path}: shape {array.shape}, but the manifest says {shape}")


def _open_known(path: Path, shape: tuple[int, ...], dtype: str) -> NDArray[np.generic] | None:
    """Return the array of a file that is byte for byte as long and of the header that is expected."""
    try:
        header, nbytes = _header(shape, dtype)
        with path.open("rb") as file:
            if file.read(len(header)) != header or file.seek(0, os.SEEK_END) != len(header) + nbytes:
                return None
            return np.asarray(np.memmap(file, dtype, "r", len(header), shape))
    except (OSError, TypeError, ValueError):  # whoever reads the header says what is wrong
        return None


def _open_plain(path: Path) -> NDArray[np.generic] | None:
    """Return the array of a whole file whose header is as `write_array` writes it, or None.

    A step opens thousands of small files: numpy takes 100 microseconds for each, and this 25.
    """
    try:
        with path.open("rb") as file:
            found = _HEADER.match(file.read(HEADER_BYTES))
            if found is None or found.end() != 10 + int.from_bytes(found[1], "little"):
                return None
            dtype = np.dtype(found[2].decode())
            shape = tuple(int(length) for length in found[3].split(b",") if length.strip())
            if file.seek(0, os.SEEK_END) != found.end() + math.prod(shape) * dtype.itemsize:
                return None
            return np.asarray(np.memmap(file, dtype, "r", found.end(), shape))
    except (OSError, TypeError, ValueError):  # whoever reads the header says what is wrong
        return None


@lru_cache(1024)
def _header(shape: tuple[int, ...], dtype: str) -> tuple[bytes, int]:
    """Return the header that `write_array` writes, and how many bytes follow it."""
    expected = np.dtype(dtype)
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": expected.str, "fortran_order": False, "shape": shape}
    )
    return file.getvalue(), math.prod(shape) * expected.itemsize


def _is_of(array: NDArray[np.generic], dtype: str) -> bool:
    try:
        return bool(array.dtype == np.dtype(dtype))
    except TypeError:  # a manifest may say anything
        return False


def rows_digest(rows: NDArray[np.generic]) -> int:
    """Return the XXH3-64 of the bytes of rows, which are contiguous."""
    return int(xxhash.xxh3_64_intdigest(rows.reshape(-1).view(np.uint8).data))


def as_integers(array: NDArray[np.generic], path: Path) -> NDArray[np.integer]:
    """Return the same array as one of integers; another dtype is a damaged file.

    Raises:
        FormatError: the array holds no integers.
    """
    if not np.issubdtype(array.dtype, np.integer):
        raise FormatError(f"{path}: an array of {array.dtype} where integers were expected")
    return cast("NDArray[np.integer]", array)
