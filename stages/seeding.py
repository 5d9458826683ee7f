"""Randomness without state: Philox4x32-10 and keyed hashes of document ids.

Every draw is a pure function of (seed, epoch, shard, row, tag, block). The fields are packed into
Philox's 64-bit key and 128-bit counter without overlap, so no two draws share a block:

    key      k0 = seed bits 0-31          k1 = seed bits 32-63
    counter  c0 = block (32 bits)         c1 = row (32 bits)
             c2 = shard (24) | tag << 24  c3 = epoch (32 bits)
    output   u64[0] = w0 | w1 << 32       u64[1] = w2 | w3 << 32

The table and its golden vectors stand in docs/format.md too.

Source: Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum

import numpy as np
import xxhash
from numpy.typing import NDArray

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_FEW = 8
"""Counters that are computed one by one: an operation of numpy takes as long for one as for 100."""
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)

MAX_SHARDS = 1 << 24
MAX_ROWS = 1 << 32
MAX_EPOCHS = 1 << 32
MAX_SEED = 1 << 64


class Tag(IntEnum):
    """What a stream of draws is for. Who draws says it by a class of its own: it has the numbers.

    A number is from 0 to 255, and is never given a second meaning. docs/format.md has all that are taken
    (section "Random draws"); 2 and 3 are retired.
    """


class OrderTag(Tag):
    """How rows are ordered."""

    ROWS = 1
    """Within a shard."""
    EPOCH = 8
    """In an epoch of a dataset, if they are few; their shard field is 0."""
    SHARDS = 9
    """Shards in an epoch of a dataset that is read in groups of them; their shard field is 0."""


class Purpose(StrEnum):
    """What a document's hash decides; each gives hashes independent of the others."""

    SHARD = "shard"
    ORDER = "order"
    VALIDATION = "validation"
    SAMPLE = "sample"
    COMPONENT = "component"


@dataclass(frozen=True)
class Key:
    """Names one family of streams: all the rows of a shard in one epoch, for one purpose."""

    seed: int
    epoch: int
    shard: int
    tag: Tag

    def __post_init__(self) -> None:
        """Refuse fields that do not fit their bits; a bug would otherwise reuse draws."""
        assert 0 <= self.seed < MAX_SEED, self.seed
        assert 0 <= self.epoch < MAX_EPOCHS, self.epoch
        assert 0 <= self.shard < MAX_SHARDS, self.shard


def philox4x32(
    counter: NDArray[np.uint64], key: tuple[int, int], *, rounds: int = _ROUNDS
) -> NDArray[np.uint64]:
    """Return Philox's four output words for each counter.

    Args:
        counter: (N, 4) uint64, each below 2**32.
        key: two words below 2**32.
        rounds: 10 in every use; fewer only to test.

    Returns:
        (N, 4) uint64, each below 2**32.
    """
    if len(counter) <= _FEW:
        found = [_philox(*numbers, key=key, rounds=rounds) for numbers in counter.tolist()]
        return np.array(found, np.uint64).reshape(-1, 4)
    c0, c1, c2, c3 = (counter[:, number].astype(np.uint64) for number in range(4))
    k0, k1 = key
    for _ in range(rounds):
        product0, product1 = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c2 = (
            (product1 >> _HALF) ^ c1 ^ np.uint64(k0),
            (product0 >> _HALF) ^ c3 ^ np.uint64(k1),
        )
        c1, c3 = product1 & _LOW, product0 & _LOW
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=1)


def _philox(
    c0: int, c1: int, c2: int, c3: int, *, key: tuple[int, int], rounds: int
) -> tuple[int, int, int, int]:
    """Return the output words of one counter."""
    k0, k1 = key
    for _ in range(rounds):
        product0, product1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1 = (product1 >> 32) ^ c1 ^ k0, product1 & 0xFFFFFFFF
        c2, c3 = (product0 >> 32) ^ c3 ^ k1, product0 & 0xFFFFFFFF
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return c0, c1, c2, c3


def draw_u64(
    key: Key, rows: NDArray[np.uint64], *, block: int | NDArray[np.uint64] = 0
) -> NDArray[np.uint64]:
    """Return the two 64-bit draws of one block for each row.

    Args:
        key: the family of streams.
        rows: (N,) row numbers below 2**32.
        block: which block of each row's stream, one for all or (N,).

    Returns:
        (N, 2) uint64, uniform.
    """
    counter = np.empty((len(rows), 4), np.uint64)
    counter[:, 0] = block
    counter[:, 1] = rows
    counter[:, 2] = key.shard | key.tag << 24
    counter[:, 3] = key.epoch
    numbers = philox4x32(counter, (key.seed & 0xFFFFFFFF, key.seed >> 32))
    return numbers[:, 0::2] | numbers[:, 1::2] << _HALF


def permutation(key: Key, size: int) -> NDArray[np.int64]:
    """Return a uniform permutation of range(size): the order of one draw for each row.

    Equal draws (probability size**2 / 2**65) keep their order, so the result is defined always.
    """
    draws = draw_u64(key, np.arange(size, dtype=np.uint64))[:, 0]
    return np.argsort(draws, kind="stable").astype(np.int64)


def shard_field(split: str, number: int) -> int:
    """Return the shard that keys draws made when rows are read, which know no more than their manifest.

    Training shards count up from 0, those of validation down from 2**24 - 1, so no two share draws.

    ("train", 2) -> 2; ("validation", 2) -> 16777213
    """
    assert 0 <= number < MAX_SHARDS, number
    return number if split == "train" else MAX_SHARDS - 1 - number


def scale(draws: NDArray[np.uint64], size: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return floor(draw * size / 2**64): numbers in range(size), none likelier by more than 2**-64.

    The product has 96 bits; it is made of two halves that each fit 64. The size is one for all, or (N,).
    """
    if isinstance(size, int):
        assert 0 < size < 1 << 32, size
        factor: np.uint64 | NDArray[np.uint64] = np.uint64(size)
    else:
        assert ((size > 0) & (size < 1 << 32)).all(), size
        factor = size.astype(np.uint64)
    low = (draws & _LOW) * factor >> _HALF
    return (((draws >> _HALF) * factor + low) >> _HALF).astype(np.int64)


def document_hash(identity: bytes, seed: int, *, purpose: Purpose, copy: int = 0) -> int:
    """Return the 64-bit hash by which one document copy is placed, ordered, split or sampled.

    XXH3 of id, copy and purpose, seeded with the run's seed: which worker asks, and when, is no part.
    """
    message = identity + copy.to_bytes(4, "little") + purpose.encode()
    return xxhash.xxh3_64_intdigest(message, seed=seed)


def threshold(probability: float) -> int:
    """Return t such that a uniform u64 lies below t with this probability, to within 2**-53.

    0.5 -> 9223372036854775808
    """
    assert 0.0 <= probability <= 1.0, probability
    return min(int(probability * 2**64), 2**64)


def below(draws: NDArray[np.uint64], bound: int) -> NDArray[np.bool_]:
    """Say which draws lie below a bound of at most 2**64, which no u64 can hold."""
    if bound == 0:
        return np.zeros(draws.shape, np.bool_)
    found: NDArray[np.bool_] = draws <= np.uint64(bound - 1)
    return found
