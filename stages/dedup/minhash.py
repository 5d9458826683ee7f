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

from stages.dedup.shingle_sets import LONG_TEXT, text_slices
from stages.dedup.shingles import KINDS, fill_shingles, fill_tokens, shingle_blocks, shingle_room
from stages.kernels import lean_kernel

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
        _lower(minima, hashes, a, b)
    return minima


def signatures(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], *, size: int, num_perm: int
) -> NDArray[np.uint32]:
    """Return the signatures of texts: (D, num_perm) uint32.

    Args:
        data: (B,) valid UTF-8, texts end to end.
        offsets: (D + 1,) where each text begins.
        size: tokens in a shingle.
        num_perm: entries of a signature.
    """
    found = np.full((len(offsets) - 1, num_perm), _EMPTY, np.uint32)
    for first, last in text_slices(offsets):
        part = offsets[first : last + 1]
        if part[-1] - part[0] > LONG_TEXT:
            blocks = shingle_blocks(data[part[0] : part[-1]], size=size)
            found[first] = signature_of(blocks, num_perm=num_perm)
            continue
        room = np.empty((2, shingle_room(int(np.diff(part).max()))), np.uint64)
        _sign((data, part, KINDS), size, permutations(num_perm), room, found[first:last])
    return found


@lean_kernel
def _sign(
    texts: tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint8]],
    size: int,
    lanes: NDArray[np.uint32],
    scratch: NDArray[np.uint64],
    found: NDArray[np.uint32],
) -> None:
    """Lower the minima in `found` (D, P) by all shingles of each text.

    Args:
        texts: data (B,), offsets (D + 1,) and `KINDS`.
        size: tokens in a shingle.
        lanes: (2, P) the permutations.
        scratch: (2, R) as long as a text has tokens.
        found: (D, P) filled.
    """
    data, offsets, kinds = texts
    for text in range(len(found)):
        part = data[offsets[text] : offsets[text + 1]]
        count, _ = fill_tokens(part, kinds, 0, len(part) + 1, scratch[0])
        count = fill_shingles(scratch[0, :count], size, scratch[1])
        _lower(found[text], scratch[1, :count], lanes[0], lanes[1])


@lean_kernel
def _fmix32(value: np.uint32) -> np.uint32:
    value = np.uint32(value ^ (value >> np.uint32(16)))
    value = np.uint32(value * np.uint32(0x85EBCA6B))
    value = np.uint32(value ^ (value >> np.uint32(13)))
    value = np.uint32(value * np.uint32(0xC2B2AE35))
    return np.uint32(value ^ (value >> np.uint32(16)))


@lean_kernel
def _lower(
    minima: NDArray[np.uint32],
    hashes: NDArray[np.uint64],
    a: NDArray[np.uint32],
    b: NDArray[np.uint32],
) -> None:
    """Lower the minima lane by lane, four shingles a pass, so that the inner loop runs over lanes.

    A minimum over shingles does not vectorise (LLVM keeps the reduction scalar); over lanes it does,
    and with the four shingles in scalars it needs one load and one store of the minima a pass.
    """
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
