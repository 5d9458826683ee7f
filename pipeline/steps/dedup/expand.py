"""Expand: candidate pairs of a range of documents, from the files of many pieces of keys.

A piece names for each document a slice of its bucket's best-ranked ones; pairs are written out for a
batch of documents at a time, where those of all pieces are merged.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from stages.store.arrays import open_array

BATCH_PAIRS = 1 << 20
"""Candidate pairs, repeated over pieces, that are expanded together (8 bytes each, and copies)."""
BATCH_DOCUMENTS = 1 << 14
"""Documents whose candidates are looked up together, unless these are too many."""
MAX_HEADS = 1 << 22
"""Candidates that are looked up together (8 bytes each, twice while they are joined)."""
OPEN_PIECES = 256
"""Pieces of bands that a task keeps open: all of 18 million documents'."""

_Piece = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Members (M, 3) and heads (H,) of a piece."""
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
"""A pair is one number: its better document above, its worse one below. Documents fit in 31 bits."""


@dataclass(frozen=True)
class _Members:
    """The candidates of some documents in all pieces, without writing out a pair."""

    document: NDArray[np.int64]
    """(M,) the worse document."""
    start: NDArray[np.int64]
    """(M,) where its slice begins in `heads`."""
    count: NDArray[np.int64]
    """(M,) documents that it is compared with."""
    heads: NDArray[np.int64]


def as_pairs(better: NDArray[np.int64], worse: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return each pair as one number, so that pairs are sorted as fast as numbers."""
    return better.astype(np.uint64) << _HALF | worse.astype(np.uint64)


def better_of(pairs: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the better document of each pair."""
    return (pairs >> _HALF).astype(np.int64)


def worse_of(pairs: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the worse document of each pair."""
    return (pairs & _LOW).astype(np.int64)


def distinct(pairs: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the distinct pairs, ascending: three times as fast as `np.unique`, which hashes them."""
    ordered = np.sort(pairs)
    new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    found: NDArray[np.uint64] = ordered[new]
    return found


def expanded(
    workspace: Workspace,
    pieces: Sequence[str],
    first: int,
    last: int,
    *,
    merge: Callable[[NDArray[np.uint64]], NDArray[np.uint64]] = distinct,
) -> Iterator[NDArray[np.uint64]]:
    """Yield the candidate pairs of documents [first, last), of some documents at a time.

    Args:
        workspace: where the pieces are.
        pieces: their folders, each with members.npy and heads.npy.
        first: number of the first document.
        last: number after the last one.
        merge: makes the pairs of some documents, repeated over pieces, ascending and distinct.
    """
    opened = lru_cache(OPEN_PIECES)(partial(_open_piece, workspace))
    starts = range(first, last, BATCH_DOCUMENTS)
    ranges = [(start, min(start + BATCH_DOCUMENTS, last)) for start in reversed(starts)]
    while ranges:
        low, high = ranges.pop()
        parts = _parts(map(opened, pieces), low, high)
        if high - low > 1 and sum(int(part[:, 2].sum()) for part, _ in parts) > MAX_HEADS:
            middle = (low + high) // 2
            ranges += [(middle, high), (low, middle)]
            continue
        if parts:
            yield from _pairs_of(_members(parts), low, high, merge)


def _pairs_of(
    members: _Members,
    first: int,
    last: int,
    merge: Callable[[NDArray[np.uint64]], NDArray[np.uint64]],
) -> Iterator[NDArray[np.uint64]]:
    """Yield the pairs of documents [first, last), ascending by worse from array to array."""
    counts = np.bincount(members.document - first, members.count, last - first).astype(np.int64)
    for low, high in _cuts(counts):
        pairs = _expand(members, first + low, first + high)
        if len(pairs):
            yield merge(pairs)


def _cuts(counts: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield ranges of documents with at most `BATCH_PAIRS` pairs, or of one document with more."""
    pairs = np.cumsum(counts)
    start = 0
    while start < len(counts):
        before = pairs[start - 1] if start else 0
        end = max(int(np.searchsorted(pairs, before + BATCH_PAIRS, side="right")), start + 1)
        yield start, end
        start = end


def _open_piece(workspace: Workspace, piece: str) -> _Piece:
    """Return the members and the heads of one piece, mapped."""
    folder = workspace.path(piece)
    members, heads = (open_array(folder / name, dtype="<i8") for name in ("members.npy", "heads.npy"))
    return cast("_Piece", (members, heads))


def _parts(pieces: Iterator[_Piece], first: int, last: int) -> list[_Piece]:
    """Return the members among documents [first, last) of each piece, if any, and the piece's heads."""
    parts = []
    for members, heads in pieces:
        low, high = np.searchsorted(members[:, 0], (first, last))
        compared = members[low:high]
        compared = compared[compared[:, 2] > 0]
        if len(compared):
            parts.append((compared, heads))
    return parts


def _members(parts: Sequence[_Piece]) -> _Members:
    """Join the members of some pieces, with those heads alone that they need."""
    members, heads, offset = [], [], 0
    for compared, of_all in parts:
        part, needed = _with_heads(compared, of_all)
        part[:, 1] += offset
        members.append(part)
        heads.append(needed)
        offset += len(needed)
    joined = np.concatenate(members)
    return _Members(joined[:, 0], joined[:, 1], joined[:, 2], np.concatenate(heads))


def _with_heads(members: NDArray[np.int64], heads: NDArray[np.int64]) -> _Piece:
    """Return members that refer to a copy of those heads alone that they need, and that copy."""
    starts, bucket = np.unique(members[:, 1], return_inverse=True)
    sizes = np.zeros(len(starts), np.int64)
    np.maximum.at(sizes, bucket, members[:, 2])
    ends = np.cumsum(sizes)
    places = np.repeat(starts - (ends - sizes), sizes) + np.arange(ends[-1])
    return np.column_stack([members[:, 0], (ends - sizes)[bucket], members[:, 2]]), heads[places]


def _expand(members: _Members, first: int, last: int) -> NDArray[np.uint64]:
    """Write out the pairs whose worse document lies in [first, last)."""
    chosen = np.flatnonzero((members.document >= first) & (members.document < last))
    counts = members.count[chosen]
    ends = np.cumsum(counts)
    within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
    better = members.heads[np.repeat(members.start[chosen], counts) + within]
    return as_pairs(better, np.repeat(members.document[chosen], counts))
