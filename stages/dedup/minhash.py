"""MinHash signatures, bit-equal to datasketch's `scheme="affine32"` with our shingle hash.

Permutation k maps a shingle's hash h to a_k fmix32(h) + b_k modulo 2**32; the signature holds the
minimum of each. The share of equal entries of two signatures estimates the Jaccard similarity.

Source: Broder 1997, "On the resemblance and containment of documents"; the permutations are those of
datasketch 2.0, `MinHash(num_perm, seed=1, scheme="affine32")`.
"""

from collections.abc import Iterable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from stages.kernels import kernel

_EMPTY = np.uint32(0xFFFFFFFF)
_SEED = 1


@cache
def permutations(num_perm: int) -> NDArray[np.uint32]:
    """Return the parameters of the permutations: (2, num_perm) uint32, rows a and b, a odd.

    datasketch draws the same. It is not asked, because importing it takes a CPU second in every process.
    """
    draws = np.random.RandomState(_SEED)  # frozen, so that its draws never change
    a = draws.randint(0, 1 << 31, num_perm, np.uint32) * np.uint32(2) + np.uint32(1)
    return np.stack([a, draws.randint(0, 1 << 32, num_perm, np.uint32)])


def signature(hashes: NDArray[np.uint64], *, num_perm: int) -> NDArray[np.uint32]:
    """Return the MinHash signature of a set of shingles.

    Args:
        hashes: (N,) uint64 shingle hashes; repeats change nothing.
        num_perm: entries of the signature.

    Returns:
        (num_perm,) uint32; all ones for an empty set.
    """
    return signature_of([hashes], num_perm=num_perm)


def signature_of(blocks: Iterable[NDArray[np.uint64]], *, num_perm: int) -> NDArray[np.uint32]:
    """Return the signature of all shingles of some blocks together, as `signature` does of one."""
    a, b = permutations(num_perm)
    minima = np.full(num_perm, _EMPTY, np.uint32)
    for hashes in blocks:
        np.minimum(minima, _minima(hashes, a, b), out=minima)
    return minima


@kernel
def _fmix32(value: np.uint32) -> np.uint32:
    value = np.uint32(value ^ (value >> np.uint32(16)))
    value = np.uint32(value * np.uint32(0x85EBCA6B))
    value = np.uint32(value ^ (value >> np.uint32(13)))
    value = np.uint32(value * np.uint32(0xC2B2AE35))
    return np.uint32(value ^ (value >> np.uint32(16)))


@kernel
def _minima(
    hashes: NDArray[np.uint64], a: NDArray[np.uint32], b: NDArray[np.uint32]
) -> NDArray[np.uint32]:
    """Take minima lane by lane, four shingles a pass, so that the inner loop runs over lanes.

    A minimum over shingles does not vectorise (LLVM keeps the reduction scalar); over lanes it does,
    and with the four shingles in scalars it needs one load and one store of the minima a pass.
    """
    minima = np.full(len(a), _EMPTY, np.uint32)
    last = len(hashes) - 1
    for start in range(0, len(hashes), 4):  # the last pass may repeat a shingle: minima do not mind
        h0 = _fmix32(np.uint32(hashes[start]))
        h1 = _fmix32(np.uint32(hashes[min(start + 1, last)]))
        h2 = _fmix32(np.uint32(hashes[min(start + 2, last)]))
        h3 = _fmix32(np.uint32(hashes[min(start + 3, last)]))
        for lane in range(len(a)):
            v0 = np.uint32(np.uint32(a[lane] * h0) + b[lane])
            v1 = np.uint32(np.uint32(a[lane] * h1) + b[lane])
            v2 = np.uint32(np.uint32(a[lane] * h2) + b[lane])
            v3 = np.uint32(np.uint32(a[lane] * h3) + b[lane])
            minima[lane] = min(v0, v1, v2, v3, minima[lane])
    return minima
