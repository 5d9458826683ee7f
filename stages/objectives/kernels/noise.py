"""Noise for kernels: `seeding.draw_u64` for one block at a time, inside compiled code.

A row has a stream of draws for each tag; draw number n of it is u64[n % 2] of block n // 2.
"""

import numpy as np
from numpy.typing import NDArray

from stages.kernels import inlined_kernel, kernel
from stages.objectives.rows import StoredRows
from stages.seeding import Tag

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def stream_key_of(rows: StoredRows, tag: Tag) -> NDArray[np.uint64]:
    """Return what all draws of these rows for one purpose share: (4,) uint64: k0, k1, c2, c3."""
    key = rows.key(tag)
    return np.array(
        [key.seed & 0xFFFFFFFF, key.seed >> 32, key.shard | key.tag << 24, key.epoch], np.uint64
    )


@inlined_kernel
def philox(
    c0: np.uint64,
    c1: np.uint64,
    c2: np.uint64,
    c3: np.uint64,
    k0: np.uint64,
    k1: np.uint64,
    low: np.uint64,
) -> tuple[np.uint64, np.uint64]:
    """Return the two 64-bit draws of one block: `seeding.philox4x32` of one counter.

    Upper halves of words are cut off where they are used, not where they are made: on vector registers
    that is an instruction less. `low` is 2**32 - 1; in loops over many blocks it must look unknown to
    the compiler, which turns a shift into a product of 64 bits with a constant.
    """
    for _ in range(10):
        product0, product1 = _M0 * (c0 & _LOW), _M1 * (c2 & _LOW)
        c0, c2 = (product1 >> _HALF) ^ c1 ^ k0, (product0 >> _HALF) ^ c3 ^ k1
        c1, c3 = product1, product0
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return c0 & _LOW | (c1 & low) << _HALF, c2 & _LOW | (c3 & low) << _HALF


@kernel
def draw_block(stream_key: NDArray[np.uint64], row: int, block: int) -> tuple[np.uint64, np.uint64]:
    """Return the two 64-bit draws of one block of a row's stream."""
    return philox(
        np.uint64(block),
        np.uint64(row),
        stream_key[2],
        stream_key[3],
        stream_key[0],
        stream_key[1],
        _LOW,
    )


@kernel
def draw(stream_key: NDArray[np.uint64], row: int, number: int) -> np.uint64:
    """Return one draw of a row's stream."""
    first, second = draw_block(stream_key, row, number >> 1)
    return second if number & 1 else first


@kernel
def scaled(value: np.uint64, size: int) -> int:
    """Return floor(value * size / 2**64), a number in range(size); size is below 2**32."""
    factor = np.uint64(size)
    low = (value & _LOW) * factor >> _HALF
    return np.int64(((value >> _HALF) * factor + low) >> _HALF)  # type: ignore[return-value]


@kernel
def fill_draws(stream_key: NDArray[np.uint64], row: int, draws: NDArray[np.uint64]) -> None:
    """Fill an even number of places with the first draws of a row's stream.

    Its loop runs on vector registers: 6 ns a block instead of 24 ns one by one.
    """
    for block in range(np.uint64(len(draws) >> 1)):  # unsigned, or numba tests each index for its sign
        place = np.uint64(2) * block
        draws[place], draws[place + np.uint64(1)] = draw_block(stream_key, row, block)
