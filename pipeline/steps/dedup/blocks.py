"""Blocks: keys or digests with their documents, cut into pieces of their range, read block by block."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from stages.dedup.lsh import piece_of

BLOCK_KEYS = 1 << 20
"""Keys or digests that a piece reads at a time."""

_Value = TypeVar("_Value", bound=np.generic)


def by_piece(keys: NDArray[np.uint64], pieces: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the order of keys by piece, stable, and where each piece begins: (N,), (P + 1,)."""
    if pieces == 1:
        return np.arange(len(keys)), np.array([0, len(keys)])
    piece = piece_of(keys, pieces=pieces)
    counts = np.bincount(piece, minlength=pieces)
    return np.argsort(piece, kind="stable"), np.concatenate([[0], np.cumsum(counts)])


def in_blocks(
    parts: Iterator[tuple[NDArray[_Value], NDArray[np.int64]]],
) -> Iterator[tuple[NDArray[_Value], NDArray[np.int64]]]:
    """Join small parts and cut large ones, so that blocks hold `BLOCK_KEYS` at the most."""
    held: list[tuple[NDArray[_Value], NDArray[np.int64]]] = []
    size = 0
    for values, documents in parts:
        for start in range(0, len(documents), BLOCK_KEYS):
            block = slice(start, start + BLOCK_KEYS)
            if size + len(documents[block]) > BLOCK_KEYS:
                yield _joined(held)
                held, size = [], 0
            held.append((values[block], documents[block]))
            size += len(documents[block])
    if held:
        yield _joined(held)


def _joined(
    parts: Sequence[tuple[NDArray[_Value], NDArray[np.int64]]],
) -> tuple[NDArray[_Value], NDArray[np.int64]]:
    return (
        np.concatenate([values for values, _ in parts]),
        np.concatenate([documents for _, documents in parts]),
    )
