"""Embeddings as integers: what the encoder gives, rounded to bytes, and the cosine of two of them.

From here on all is exact: products and sums of bytes are whole numbers, whatever computes them and in
which order. A cosine is one division of such numbers, which IEEE 754 rounds in one way.

    given     0.6  -0.3  0.0
    rounded   127  -64   0        the largest value of a text becomes 127

Matrices are multiplied in floating point, because that is the fast way. It is exact too: as long as all
partial sums are below 2**24 (float32) or 2**53 (float64), each of them is a whole number that the format
holds, so no order and no processor gives another result.
"""

import numpy as np
from numpy.typing import NDArray

from stages.errors import DataError
from stages.kernels import lean_kernel

LARGEST = 127
MAX_DIMENSIONS = 8_192
"""Values of an embedding; more than the largest models give."""
_EXACT_FLOAT32 = (1 << 24) // LARGEST**2
"""Dimensions up to which products are exact in float32: 1,040."""


def rounded_embeddings(embeddings: NDArray[np.floating], *, encoder: str) -> NDArray[np.int8]:
    """Round embeddings to bytes: (N, D) int8. A vector of zeros stays one, and resembles nothing.

    Args:
        embeddings: (N, D), of any length.
        encoder: its name, for messages.

    Raises:
        DataError: not two axes, too many dimensions, or a value that is not finite.
    """
    if embeddings.ndim != 2 or not 0 < embeddings.shape[1] <= MAX_DIMENSIONS:
        raise DataError(
            f"dedup.semantic.encoder = {encoder!r}: gave an array of shape {embeddings.shape}; it must"
            f" return one row for each text, of 1 to {MAX_DIMENSIONS:,} values"
        )
    values = embeddings.astype(np.float64)
    if not np.isfinite(values).all():
        raise DataError(
            f"dedup.semantic.encoder = {encoder!r}: gave values that are not finite; a text without"
            " tokens must have a row of zeros"
        )
    most = np.abs(values).max(axis=1, keepdims=True, initial=0.0)
    most[most == 0.0] = 1.0
    return np.rint(values / most * LARGEST).astype(np.int8)


def rounded_sums(sums: NDArray[np.int64]) -> NDArray[np.int8]:
    """Round sums of whole numbers in the same way, without a fraction on the way: (N, D) int8.

    Args:
        sums: (N, D), each below 2**53.
    """
    most = np.abs(sums).max(axis=1, keepdims=True, initial=0)
    most[most == 0] = 1
    return ((2 * LARGEST * sums + most) // (2 * most)).astype(np.int8)


def squared_lengths(vectors: NDArray[np.int8]) -> NDArray[np.int64]:
    """Return the squared length of each vector: (N,) int64."""
    found = np.empty(len(vectors), np.int64)
    _squared_lengths(vectors, found)
    return found


def exact_products(a: NDArray[np.int8], b: NDArray[np.int8]) -> NDArray[np.floating]:
    """Return the product of each vector of `a` with each of `b`: (A, B), whole numbers.

    Args:
        a: (A, D).
        b: (B, D).
    """
    dtype = np.float32 if a.shape[1] <= _EXACT_FLOAT32 else np.float64
    found: NDArray[np.floating] = a.astype(dtype) @ b.astype(dtype).T
    return found


@lean_kernel
def dot(a: NDArray[np.int8], b: NDArray[np.int8]) -> int:
    """Return the product of two vectors."""
    total = 0
    for place in range(len(a)):
        total += np.int32(a[place]) * np.int32(b[place])
    return total


@lean_kernel
def cosine(product: float, length: float, other: float) -> float:
    """Return the cosine of two vectors from their product and squared lengths; 0.0 of a zero vector.

    All three are whole numbers below 2**27, so the product of the lengths is exact, too.
    """
    if length == 0 or other == 0:
        return 0.0
    return product / np.sqrt(length * other)


@lean_kernel
def _squared_lengths(vectors: NDArray[np.int8], found: NDArray[np.int64]) -> None:
    for row in range(len(vectors)):
        found[row] = dot(vectors[row], vectors[row])
