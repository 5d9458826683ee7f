"""Ranges: many short runs of an array copied to many places, at the speed of memory."""

import numpy as np
from numpy.typing import NDArray

from stages.kernels import kernel


@kernel
def copy_ranges(
    source: NDArray[np.generic],
    target: NDArray[np.generic],
    begins: NDArray[np.int64],
    places: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> None:
    """Copy source[begins[i] : begins[i] + lengths[i]] to target[places[i] : ...], for every i.

    Fills `target`, which may be a mapped file.

    Args:
        source: (S,).
        target: (T,) of the same dtype.
        begins: (N,).
        places: (N,).
        lengths: (N,).
    """
    for number in range(len(begins)):
        begin, place = begins[number], places[number]
        for offset in range(lengths[number]):
            target[place + offset] = source[begin + offset]
