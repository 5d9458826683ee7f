"""Stored numbers: the floats of checkpoints as arrays of numpy, bfloat16 among them, and back.

numpy has no bfloat16, so an array holds it as the 16 leading bits of a 32-bit float:

    1.0   as F32 3f80 0000   as BF16 3f80 (uint16)
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

ARRAYS: Final = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
"""Types that rows can be computed in, by the names of safetensors, and the arrays that hold them."""
Raw = NDArray[np.generic]
"""Numbers as they are stored."""
_HALF = 16
_QUIET = 0x40


def to_floats(stored: Raw, dtype: str) -> NDArray[np.float64]:
    """Return stored numbers of any shape as 64-bit floats, exactly."""
    if dtype != "BF16":
        return stored.astype(np.float64)
    wide = stored.astype(np.uint32) << np.uint32(_HALF)
    return wide.view(np.float32).astype(np.float64)


def from_floats(numbers: NDArray[np.float64], dtype: str) -> Raw:
    """Return 64-bit floats in the type of a tensor, rounded to the nearest, ties to even.

    BF16 is rounded from 32-bit floats, as torch does it.
    """
    if dtype != "BF16":
        return numbers.astype(ARRAYS[dtype])
    single = np.ascontiguousarray(numbers, np.float32)
    bits = single.view(np.uint32)
    odd = bits >> np.uint32(_HALF) & np.uint32(1)
    rounded = (bits + np.uint32(0x7FFF) + odd) >> np.uint32(_HALF)
    nan = (bits >> np.uint32(_HALF)) | np.uint32(_QUIET)
    return np.where(np.isnan(single), nan, rounded).astype("<u2")
