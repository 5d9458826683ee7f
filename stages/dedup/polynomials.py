"""Polynomials: the two hashes of a string that roll from one window of a text to the next.

    key      modulo 2^64, by which a span is looked up: fast, but there are texts (Thue-Morse words of
             1,024 symbols) that have the same one under any base
    check    modulo the prime 2^61 - 1, where there are none; 32 bits of it are kept

Together they are 96 bits. Two different spans of 10^11 have both in common with a probability of 10^-7.
"""

import numpy as np

from stages.byte_kernels import fmix64
from stages.hashing import GOLDEN
from stages.kernels import lean_kernel

CHECK_BASE = np.uint64(0x11B54A32D192ED03)
PRIME, ONE = np.uint64((1 << 61) - 1), np.uint64(1)
_PRIME_BITS = np.uint64(61)
_HALF = np.uint64(32)


@lean_kernel
def reduced(value: np.uint64) -> np.uint64:
    """Return a number modulo 2^61 - 1."""
    value = (value >> _PRIME_BITS) + (value & PRIME)
    return value - PRIME if value >= PRIME else value


@lean_kernel
def product(a: np.uint64, b: np.uint64) -> np.uint64:
    """Return a product modulo 2^61 - 1 of two numbers below it: from halves of 31 bits, as 2^61 is 1."""
    low, middle = np.uint64(31), np.uint64(30)
    mask, rest = np.uint64(0x7FFFFFFF), np.uint64(0x3FFFFFFF)
    crossed = (a & mask) * (b >> low) + (a >> low) * (b & mask)
    whole = (a >> low) * (b >> low) * np.uint64(2) + (a & mask) * (b & mask)
    return reduced(reduced(whole) + (crossed >> middle) + ((crossed & rest) << low))


@lean_kernel
def next_check(check: np.uint64, symbol: np.uint64) -> np.uint64:
    """Return the check of a string with one more symbol below 2^61 - 1."""
    return reduced(product(check, CHECK_BASE) + symbol)


@lean_kernel
def check_of(polynomial: np.uint64) -> np.uint32:
    """Return the bits of a check that are kept."""
    return np.uint32(fmix64(polynomial) >> _HALF)


@lean_kernel
def top_powers(size: int) -> tuple[np.uint64, np.uint64]:
    """Return what the first symbol of a window is multiplied with, in key and check."""
    top, check_top = ONE, ONE
    for _ in range(size - 1):
        top, check_top = top * GOLDEN, product(check_top, CHECK_BASE)
    return top, check_top


@lean_kernel
def rolled_check(check: np.uint64, old: np.uint64, new: np.uint64, top: np.uint64) -> np.uint64:
    """Return the check of the next window, from the symbol that leaves and the one that enters."""
    rest = check + PRIME - product(old, top)
    return next_check(reduced(rest), new)
