"""Kernels: numba's compiler as a typed decorator, with its cache on disk.

The first call in a fresh installation compiles (seconds); later processes load the cached machine code.
"""

from collections.abc import Callable
from typing import TypeVar

from numba import njit

_Function = TypeVar("_Function", bound=Callable[..., object])


def kernel(function: _Function) -> _Function:
    """Compile a function of arrays and numbers to machine code; what it computes stays the same."""
    compiled: _Function = njit(cache=True)(function)
    return compiled
