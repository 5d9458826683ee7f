r"""Shingles: a text as the set of its word 5-grams, each known by a 64-bit hash of its bytes.

A token is a run between white space (`str.split`), but scripts written without spaces (Han, Kana,
Thai, Lao, Khmer, Myanmar) give a token a character: otherwise a Thai page would be one token and a
Japanese one a handful. A shingle's bytes are its tokens in UTF-8 joined by single spaces; a text of
fewer tokens than the shingle size has one shingle, all of it.

    "the cat sat on the mat"  ->  "the cat sat on the", "cat sat on the mat"
    "猫が座る"                 ->  "猫 が 座 る"

The hash of a shingle t1 .. tn, arithmetic modulo 2**64:

    hash64 = fmix64(fnv1a64(t1) P^(n-1) + ... + fnv1a64(tn))     hash32 = hash64 mod 2**32

Two different shingles share a hash64 with probability 2**-64, so sets of hashes stand for sets of
shingles in the exact Jaccard similarity too.
"""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from stages.byte_kernels import ASCII, code_point, fmix64
from stages.hashing import FNV_OFFSET, FNV_PRIME, GOLDEN
from stages.kernels import lean_kernel
from stages.scripts import UNSPACED, UNSPACED_RANGES

_OTHER, _SPACE, _OWN_TOKEN = 0, 1, 2
_BLOCK_TOKENS = 1 << 16
"""Tokens that are hashed together: half a MiB."""


def _character_kinds() -> NDArray[np.uint8]:
    """Return what each code point is: white space, a token alone, or a part of a token."""
    kinds = np.zeros(0x110000, np.uint8)
    for first, last in UNSPACED_RANGES:
        kinds[first : last + 1] = _OWN_TOKEN
    kinds[[code for code in range(0x3001) if chr(code).isspace()]] = _SPACE
    return kinds


KINDS = _character_kinds()
"""Of each code point, for `fill_tokens`."""


def split_tokens(text: str) -> list[str]:
    """Return the tokens of a text: the plain statement of what `shingle_hashes` does on bytes."""
    return UNSPACED.sub(r" \1 ", text).split()


def shingle_hashes(text: str | NDArray[np.uint8], *, size: int) -> NDArray[np.uint64]:
    """Return the hash64 of every shingle in order, repeats included.

    Args:
        text: a string, or the bytes of one in UTF-8.
        size: tokens in a shingle.

    Returns:
        (max(1, T - size + 1),) uint64 for T tokens; empty for a text without tokens.
    """
    data = text.encode() if isinstance(text, str) else text
    hashes, count = np.empty(shingle_room(len(data)), np.uint64), 0  # what is not filled takes nothing
    for block in shingle_blocks(data, size=size):
        hashes[count : count + len(block)] = block
        count += len(block)
    return hashes[:count]


def shingle_blocks(data: bytes | NDArray[np.uint8], *, size: int) -> Iterator[NDArray[np.uint64]]:
    """Return the hashes of a text in UTF-8 as `shingle_hashes` does, some at a time.

    A text of 32 MiB has up to 16 million tokens, of eight bytes each and again as shingles.
    """
    return joined_blocks([data], size=size)


def joined_blocks(
    parts: Iterable[bytes | NDArray[np.uint8]], *, size: int
) -> Iterator[NDArray[np.uint64]]:
    """Return the hashes of a text that comes in parts, no token in two of them, some at a time."""
    carried, whole = np.empty(0, np.uint64), False
    for data in parts:
        buffer, place = np.frombuffer(data, np.uint8), 0
        while place < len(buffer):
            found, place = _hash_tokens(buffer, place, _BLOCK_TOKENS)
            tokens = np.concatenate([carried, found]) if len(carried) else found
            if len(tokens) < size:
                carried = tokens
                continue
            yield _combine(tokens, size)
            carried, whole = tokens[len(tokens) - size + 1 :], True
    if len(carried) and not whole:
        yield _combine(carried, size)


def shingle_set(text: str | NDArray[np.uint8], *, size: int) -> NDArray[np.uint64]:
    """Return the distinct shingle hashes of a text, ascending, uint64."""
    hashes = shingle_hashes(text, size=size)
    hashes.sort()
    count = keep_distinct(hashes)
    return hashes[:count] if count > len(hashes) // 2 else hashes[:count].copy()


def hash32(shingle: bytes) -> int:
    """Return the 32-bit hash of one shingle's bytes: what datasketch takes as its `hashfunc`."""
    tokens, _ = _hash_tokens(np.frombuffer(shingle, np.uint8), 0, len(shingle) + 1)
    return int(_combine(tokens, len(tokens))[0]) & 0xFFFFFFFF


@lean_kernel
def keep_distinct(hashes: NDArray[np.uint64]) -> int:
    """Move the distinct values of an ascending array to its front, and return their number."""
    count = min(len(hashes), 1)
    for place in range(1, len(hashes)):
        if hashes[place] != hashes[count - 1]:
            hashes[count] = hashes[place]
            count += 1
    return count


def shingle_room(text_bytes: int) -> int:
    """Return how many tokens a text of so many bytes can have, one more for `fill_tokens` to write."""
    return text_bytes // 2 + 2


def _hash_tokens(buffer: NDArray[np.uint8], position: int, most: int) -> tuple[NDArray[np.uint64], int]:
    """Hash the tokens from a position on: `most` or one more, and give the place after them."""
    tokens = np.empty(min(most + 1, shingle_room(len(buffer) - position)), np.uint64)
    count, position = fill_tokens(buffer, KINDS, position, most, tokens)
    return tokens[:count], position


def _combine(tokens: NDArray[np.uint64], size: int) -> NDArray[np.uint64]:
    """Combine each window of `size` token hashes; fewer tokens make one window."""
    shingles = np.empty(len(tokens), np.uint64)
    return shingles[: fill_shingles(tokens, size, shingles)]


@lean_kernel
def fill_tokens(
    buffer: NDArray[np.uint8],
    kinds: NDArray[np.uint8],
    position: int,
    most: int,
    tokens: NDArray[np.uint64],
) -> tuple[int, int]:
    """Hash tokens of valid UTF-8 by FNV-1a: `most` or one more.

    Args:
        buffer: (B,) the text.
        kinds: `KINDS`.
        position: where to begin.
        most: tokens, after which no other is begun.
        tokens: filled; as long as `shingle_room` says, or of `most` + 1.

    Returns:
        How many tokens were written, and the place after them.
    """
    count, inside = 0, False
    value = FNV_OFFSET
    while position < len(buffer) and count < most:
        byte = buffer[position]
        if byte < ASCII and kinds[byte] == _OTHER:  # of most texts most characters
            value = (value ^ np.uint64(byte)) * FNV_PRIME
            inside = True
            position += 1
            continue
        code, width = code_point(buffer, position)
        kind = kinds[code]
        if kind != _OTHER and inside:
            tokens[count] = value
            count, inside, value = count + 1, False, FNV_OFFSET
        if kind != _SPACE:
            for offset in range(width):
                value = (value ^ np.uint64(buffer[position + offset])) * FNV_PRIME
            inside = True
        if kind == _OWN_TOKEN:
            tokens[count] = value
            count, inside, value = count + 1, False, FNV_OFFSET
        position += width
    if inside:
        tokens[count] = value
        count += 1
    return count, position


@lean_kernel
def fill_shingles(tokens: NDArray[np.uint64], size: int, shingles: NDArray[np.uint64]) -> int:
    """Combine each window of `size` token hashes, and return how many there are.

    Args:
        tokens: (T,) of a text; fewer than `size` make one window, none make none.
        size: tokens in a shingle.
        shingles: (T or more,) filled.
    """
    if len(tokens) == 0:
        return 0
    width = min(size, len(tokens))
    count = len(tokens) - width + 1
    for start in range(count):
        value = np.uint64(0)
        for offset in range(width):
            value = value * GOLDEN + tokens[start + offset]
        shingles[start] = fmix64(value)
    return count
