"""Mapped files for writing: arrays that are filled in any order, in files whose space is reserved first.

A new file that is only made long has no space yet. Where the disk fills while such a file is written
through its mapping, the system cannot say so: it kills the process (SIGBUS). So the space is asked for
before the file is mapped, and a full disk is an ordinary error of the call that asks.

The call promises nothing on a file system that writes changed blocks to new places or compresses them
(btrfs, ZFS, bcachefs); `pipeline.system.stopping` says what happens there.
"""

import os
from pathlib import Path
from typing import IO, TypeVar

import numpy as np
from numpy.typing import NDArray

_Number = TypeVar("_Number", bound=np.generic)
_BLOCK = 1 << 20
"""Bytes of zeros that are written together, where the system reserves no space."""


def mapped_npy(
    path: Path, dtype: str | np.dtype[np.generic], shape: tuple[int, ...]
) -> NDArray[np.generic]:
    """Return an array of zeros in a new .npy file, mapped for writing.

    Args:
        path: the file, byte for byte the one that `write_array` makes of the filled array.
        dtype: of the array, little-endian.
        shape: of the array.

    Raises:
        OSError: the disk has no such space.
    """
    kind: np.dtype[np.generic] = np.dtype(dtype)
    with path.open("w+b") as file:
        header = {"descr": kind.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        return _mapped(file, kind, shape)


def mapped_zeros(path: Path, dtype: type[_Number], shape: tuple[int, ...]) -> NDArray[_Number]:
    """Return an array of zeros in a new file without a header, mapped for writing.

    Args and errors are those of `mapped_npy`.
    """
    with path.open("w+b") as file:
        return _mapped(file, np.dtype(dtype), shape)


def _mapped(file: IO[bytes], dtype: np.dtype[_Number], shape: tuple[int, ...]) -> NDArray[_Number]:
    """Map what follows the bytes that are written already."""
    start, size = file.tell(), int(np.prod(shape, dtype=object)) * dtype.itemsize
    file.flush()
    if not size:  # the system maps no empty file
        return np.zeros(shape, dtype)
    try:
        os.posix_fallocate(file.fileno(), start, size)
    except AttributeError:  # the system has no such call
        for first in range(0, size, _BLOCK):
            file.write(bytes(min(_BLOCK, size - first)))
        file.flush()
    except OSError as error:
        error.filename = file.name
        raise
    return np.memmap(file, dtype, "r+", start, shape).view(np.ndarray)
