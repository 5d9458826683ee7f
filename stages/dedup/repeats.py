"""Repeats: the spans that stand more than once, each with the first place of the same span.

A place is one number: the document above, the span's ordinal below, 32 bits each. The first place of a
span is in its best-ranked document, and there the least ordinal.

    document 0: A B    document 1: B C B    ->    (0 1, 0 1)  (1 0, 0 1)  (1 2, 0 1)
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.dedup.buckets import shared_keys  # one table of keys for documents and spans
from stages.kernels import lean_kernel

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_LAST = np.uint64(0xFFFFFFFFFFFFFFFF)
MAX_DOCUMENTS = 1 << 31
"""That places can tell apart; a bit is left for those that are gone."""
GONE = np.uint64(1 << 63)
"""The bit of a place whose document is gone: it counts, and ranks behind all others."""


class SpanBlock(NamedTuple):
    """Spans of some documents, ascending by place from block to block."""

    keys: NDArray[np.uint64]
    """(N,)"""
    checks: NDArray[np.uint32]
    """(N,)"""
    places: NDArray[np.uint64]
    """(N,)"""
    ranks: NDArray[np.int64]
    """(N,) of their documents, less is better."""


class _Buckets(NamedTuple):
    """What is known of each span that stands more than once."""

    first: NDArray[np.uint64]
    """(B,) its first place."""
    order: NDArray[np.uint64]
    """(B,) the rank of that document above, the ordinal below."""
    check: NDArray[np.uint32]
    """(B,) of the first."""
    documents: NDArray[np.int64]
    """(B,) that hold it."""
    seen: NDArray[np.int64]
    """(B,) the last document that was counted."""


def places_of(document: int, ordinals: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Return the places of some spans of a document."""
    return np.uint64(document) << _HALF | ordinals.astype(np.uint64)


def documents_of(places: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the document of each place."""
    return (places >> _HALF).astype(np.int64)


def ordinals_of(places: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the ordinal of each place."""
    return (places & _LOW).astype(np.int64)


def find_repeats(
    read: Callable[[], Iterable[SpanBlock]], *, min_documents: int, room: int = 0
) -> Iterator[NDArray[np.uint64]]:
    """Yield the places of spans that stand more than once, each with the first place of the span.

    The first place itself is among them. What is held follows the distinct spans.

    Args:
        read: gives the blocks from the start; called three times.
        min_documents: in how many a span must stand; 1 counts repeats in one document too.
        room: distinct spans that there is room for from the start.

    Returns:
        Blocks of (N, 2) uint64, ascending by place.
    """
    shared = shared_keys(((block.keys, block.places.view(np.int64)) for block in read()), room=room)
    count = len(shared.keys)
    buckets = _Buckets(
        np.zeros(count, np.uint64),
        np.full(count, _LAST, np.uint64),
        np.zeros(count, np.uint32),
        np.zeros(count, np.int64),
        np.full(count, -1, np.int64),
    )
    for block in read():
        _gather(block, shared.find(block.keys), buckets)
    for block in read():
        found = np.empty((len(block.keys), 2), np.uint64)
        yield found[: _repeats(block, shared.find(block.keys), buckets, min_documents, found)]


@lean_kernel
def _gather(block: SpanBlock, bucket_of: NDArray[np.int32], buckets: _Buckets) -> None:
    """Find the first place of each span, and count its documents."""
    for row in range(len(bucket_of)):
        bucket = bucket_of[row]
        if bucket < 0:
            continue
        place = block.places[row]
        order = np.uint64(block.ranks[row]) << _HALF | (place & _LOW)
        if order < buckets.order[bucket]:
            buckets.order[bucket], buckets.first[bucket] = order, place
            buckets.check[bucket] = block.checks[row]
        document = np.int64(place >> _HALF)
        if buckets.seen[bucket] != document:
            buckets.seen[bucket] = document
            buckets.documents[bucket] += 1


@lean_kernel
def _repeats(
    block: SpanBlock,
    bucket_of: NDArray[np.int32],
    buckets: _Buckets,
    min_documents: int,
    found: NDArray[np.uint64],
) -> int:
    """Fill in the places of spans that stand in enough documents, and return how many there are."""
    count = 0
    for row in range(len(bucket_of)):
        bucket = bucket_of[row]
        if bucket < 0 or buckets.documents[bucket] < min_documents:
            continue
        if block.checks[row] != buckets.check[bucket]:  # another span of the same key
            continue
        found[count, 0], found[count, 1] = block.places[row], buckets.first[bucket]
        count += 1
    return count
