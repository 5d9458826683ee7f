"""UTF-8 in compiled code."""

import numpy as np
from numpy.typing import NDArray

from stages.kernels import lean_kernel

ASCII = 0x80
"""Bytes below are characters by themselves."""
_THREE, _FOUR = 0xE0, 0xF0
"""First bytes from which a character has three bytes, and four."""


@lean_kernel
def code_point(data: NDArray[np.uint8], place: int) -> tuple[np.int64, int]:
    """Return the character that begins at a byte of valid UTF-8, and how many bytes it has."""
    head = np.int64(data[place])
    if head < ASCII:
        return head, 1
    second = np.int64(data[place + 1]) & 0x3F
    if head < _THREE:
        return (head & 0x1F) << 6 | second, 2
    third = np.int64(data[place + 2]) & 0x3F
    if head < _FOUR:
        return (head & 0x0F) << 12 | second << 6 | third, 3
    return (head & 0x07) << 18 | second << 12 | third << 6 | (np.int64(data[place + 3]) & 0x3F), 4
