"""Compared texts: signatures and shingles of texts as they are compared, after normalisation.

    text -> what is compared of it, a part at a time -> hashes of shingles, a block at a time

What is compared of a document may be many times as long as the document, and most of its shingles may be
the same (`stages.dedup.normalization`). So of long texts neither is held: only the distinct hashes are.
"""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from stages.dedup.containment import WINDOW, winnowed
from stages.dedup.minhash import signature_of, signatures
from stages.dedup.normalization import ShingleConfig, compared_parts, compared_texts
from stages.dedup.shingle_sets import LONG_TEXT, ShingleSets, shingle_sets, text_slices
from stages.dedup.shingles import joined_blocks, keep_distinct, shingle_hashes

_ROOM = 1 << 17
"""Hashes that there is room for at first: 1 MiB."""
_GROWTH = 5, 4
"""How much more room there is each time; what is moved is moved by the system, without a copy."""


def compared_signatures(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], config: ShingleConfig, *, num_perm: int
) -> NDArray[np.uint32]:
    """Return the signatures of texts as they are compared: (D, num_perm) uint32.

    Args:
        data: (B,) valid UTF-8, texts end to end.
        offsets: (D + 1,) where each text begins.
        config: what makes no difference, and what a shingle is.
        num_perm: entries of a signature.
    """
    if config.as_they_are:
        return signatures(data, offsets, size=config.size, num_perm=num_perm)
    found = [np.empty((0, num_perm), np.uint32)]
    for part, blocks in _compared(data, offsets, config):
        if blocks is not None:
            found.append(signature_of(blocks, num_perm=num_perm)[None])
        else:
            texts = compared_texts(data, part, config)
            found.append(signatures(*texts, size=config.size, num_perm=num_perm))
    return np.concatenate(found)


def compared_sets(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], config: ShingleConfig
) -> Iterator[ShingleSets]:
    """Yield the shingle sets of texts as they are compared, those of some texts at a time."""
    if config.as_they_are:
        yield from shingle_sets(data, offsets, size=config.size)
        return
    for part, blocks in _compared(data, offsets, config):
        if blocks is not None:
            values = distinct_of(blocks)
            yield ShingleSets(values, np.array([0, len(values)]))
        else:
            yield from shingle_sets(*compared_texts(data, part, config), size=config.size)


def compared_winnowed(text: NDArray[np.uint8], config: ShingleConfig) -> NDArray[np.uint64]:
    """Return the distinct hashes that are selected of a text as it is compared, ascending."""
    if config.as_they_are:
        return winnowed(shingle_hashes(text, size=config.size))
    return distinct_of(_selected(joined_blocks(compared_parts(text, config), size=config.size)))


def distinct_of(blocks: Iterable[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Return the distinct hashes of some blocks, ascending; repeats are not held for long."""
    room, count, known = np.empty(_ROOM, np.uint64), 0, 0
    for block in blocks:
        if count + len(block) > len(room) and count >= 2 * known:
            count = known = _distinct(room[:count])
        if count + len(block) > len(room):
            more, of = _GROWTH
            room.resize(max(len(room) * more // of, count + len(block)), refcheck=False)
        room[count : count + len(block)] = block
        count += len(block)
    count = _distinct(room[:count])
    return room[:count] if 2 * count > len(room) else room[:count].copy()


def _distinct(hashes: NDArray[np.uint64]) -> int:
    """Move the distinct hashes to the front, ascending, and return their number."""
    hashes.sort()
    return keep_distinct(hashes)


def _compared(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], config: ShingleConfig
) -> Iterator[tuple[NDArray[np.int64], Iterator[NDArray[np.uint64]] | None]]:
    """Yield the offsets of some texts, or of a long one, with the hashes of its shingles."""
    for first, last in text_slices(offsets):
        part = offsets[first : last + 1]
        if part[-1] - part[0] <= LONG_TEXT:
            yield part, None
        else:
            parts = compared_parts(data[part[0] : part[-1]], config)
            yield part, joined_blocks(parts, size=config.size)


def _selected(blocks: Iterable[NDArray[np.uint64]]) -> Iterator[NDArray[np.uint64]]:
    """Yield what `winnowed` selects of the hashes of some blocks together."""
    carried = np.empty(0, np.uint64)
    """The last hashes of what was: a window of them begins in the next block."""
    whole = False
    for block in blocks:
        hashes = np.concatenate([carried, block])
        if len(hashes) < WINDOW:
            carried = hashes
            continue
        yield winnowed(hashes)
        carried, whole = hashes[len(hashes) - WINDOW + 1 :], True
    if not whole:
        yield winnowed(carried)
