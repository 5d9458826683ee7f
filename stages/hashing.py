"""Hashing: numbers of 64 bits to others that share no pattern with them, and the constants of it.

All arithmetic is modulo 2^64. The same code serves arrays of numpy and, compiled
(`stages.byte_kernels`), single numbers.

Sources: Appleby 2011, MurmurHash3, its finaliser of 64 bits; Steele, Lea, Flood 2014, "Fast splittable
pseudorandom number generators", section 4, for SplitMix64 (its finaliser is variant 13 of Stafford);
Fowler, Noll, Vo 1991, FNV-1a.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_Bits = TypeVar("_Bits", np.uint64, NDArray[np.uint64])

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio, made odd: the base of polynomials, and a factor that mixes."""
FNV_OFFSET, FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
"""Of FNV-1a: where it begins, and what it multiplies with after each byte."""
FMIX_FACTORS = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))
_FMIX_SHIFT = np.uint64(33)
_SPLITMIX_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SPLITMIX_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))


def fmix64(values: _Bits) -> _Bits:
    """Return MurmurHash3's finaliser of each value: every bit depends on all bits of the value."""
    mixed = values ^ (values >> _FMIX_SHIFT)
    mixed *= FMIX_FACTORS[0]
    mixed ^= mixed >> _FMIX_SHIFT
    mixed *= FMIX_FACTORS[1]
    mixed ^= mixed >> _FMIX_SHIFT
    return mixed


def splitmix64(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the finaliser of SplitMix64 of each value."""
    mixed = (values ^ (values >> _SPLITMIX_SHIFTS[0])) * _SPLITMIX_FACTORS[0]
    mixed = (mixed ^ (mixed >> _SPLITMIX_SHIFTS[1])) * _SPLITMIX_FACTORS[1]
    return mixed ^ (mixed >> _SPLITMIX_SHIFTS[2])
