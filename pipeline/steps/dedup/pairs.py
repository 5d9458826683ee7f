"""Pairs: dedup's candidate pairs, verified by exact Jaccard similarity.

The sets of shingles are those that `pipeline.steps.dedup.hashing` wrote, once for each document. They
are mapped, so what is held is one batch of pairs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from typing import cast

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.dedup.hashing import HashedDocuments, open_hashed
from pipeline.steps.dedup.pieces import band_key
from pipeline.steps.dedup.runs import UnitRun
from pipeline.steps.records import UnitRecord
from stages.dedup.jaccard import similarities
from stages.dedup.lsh import MinHashConfig, band_shape
from stages.store.arrays import array_writer, open_array

BATCH_PAIRS = 1 << 20
"""Candidate pairs, repeated over bands, that are expanded together (8 bytes each, and copies)."""
BATCH_DOCUMENTS = 1 << 14
"""Documents whose candidates are looked up together, unless these are too many."""
MAX_HEADS = 1 << 22
"""Candidates that are looked up together (8 bytes each, twice while they are joined)."""
OPEN_PIECES = 256
"""Pieces of bands that a task keeps open: all of 18 million documents'."""
OPEN_RUNS = 64
"""Runs of units whose sets of shingles a task keeps open, two files each."""

_Band = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Members (M, 3) and heads (H,) of a piece of a band."""
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
"""A pair is one number: its better document above, its worse one below. Documents fit in 31 bits."""


@dataclass(frozen=True)
class PairRange:
    """A run of units whose documents are to be verified against better-ranked ones."""

    run: UnitRun
    firsts: tuple[int, ...]
    """The number of the first document of each run of units, of those after it too."""
    pieces: int
    minhash: MinHashConfig


@dataclass(frozen=True)
class _Members:
    """The candidates of some documents in all bands, without writing out a pair."""

    document: NDArray[np.int64]
    """(M,) the worse document."""
    start: NDArray[np.int64]
    """(M,) where its slice begins in `heads`."""
    count: NDArray[np.int64]
    """(M,) documents that it is compared with."""
    heads: NDArray[np.int64]


class PairsRecord(UnitRecord):
    """Candidate pairs of a run of units."""

    compared: int
    verified: int


def pairs_key(number: int) -> str:
    """Return the folder of the verified pairs of a run of units."""
    return f"dedup/pairs/{number:05d}"


def verify_pairs(workspace: Workspace, work: PairRange) -> PairsRecord:
    """Verify the documents of a run of units against their better-ranked candidates."""
    folder = workspace.create(pairs_key(work.run.number))
    hashed = lru_cache(OPEN_RUNS)(partial(open_hashed, workspace, work.firsts))
    compared = verified = 0
    with (
        array_writer(folder / "edges.npy", dtype="<i8", shape=(2,)) as append_edges,
        array_writer(folder / "similarity.npy", dtype="<f8") as append_similarities,
    ):
        for pairs in _batches(workspace, work):
            measured = _measure(work, hashed, pairs)
            high = np.flatnonzero(measured >= work.minhash.threshold)
            better, worse = _better(pairs[high]), _worse(pairs[high])
            order = np.argsort(_as_pairs(worse, better))
            append_edges(np.column_stack([better, worse])[order])
            append_similarities(measured[high[order]])
            compared += len(pairs)
            verified += len(high)
    return PairsRecord(compared=compared, verified=verified)


def _as_pairs(better: NDArray[np.int64], worse: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return each pair as one number, so that pairs are sorted as fast as numbers."""
    return better.astype(np.uint64) << _HALF | worse.astype(np.uint64)


def _better(pairs: NDArray[np.uint64]) -> NDArray[np.int64]:
    return (pairs >> _HALF).astype(np.int64)


def _worse(pairs: NDArray[np.uint64]) -> NDArray[np.int64]:
    return (pairs & _LOW).astype(np.int64)


def _distinct(pairs: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the distinct pairs, ascending: three times as fast as `np.unique`, which hashes them."""
    ordered = np.sort(pairs)
    new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    distinct: NDArray[np.uint64] = ordered[new]
    return distinct


def _batches(workspace: Workspace, work: PairRange) -> Iterator[NDArray[np.uint64]]:
    """Yield the run's candidate pairs, ascending by worse from batch to batch.

    Within a batch they are distinct and ascend by better.
    """
    held: list[NDArray[np.uint64]] = []
    size = 0
    for pairs in _small_batches(workspace, work):
        if held and size + len(pairs) > BATCH_PAIRS:
            yield _distinct(np.concatenate(held))
            held, size = [], 0
        held.append(pairs)
        size += len(pairs)
    if held:
        yield _distinct(np.concatenate(held))


def _small_batches(workspace: Workspace, work: PairRange) -> Iterator[NDArray[np.uint64]]:
    """Yield distinct pairs of ranges of documents."""
    open_band = lru_cache(OPEN_PIECES)(partial(_open_band, workspace))
    starts = range(work.run.first, work.run.last, BATCH_DOCUMENTS)
    ranges = [(first, min(first + BATCH_DOCUMENTS, work.run.last)) for first in reversed(starts)]
    while ranges:
        first, last = ranges.pop()
        parts = _parts(work, open_band, first, last)
        if last - first > 1 and sum(int(part[:, 2].sum()) for part, _ in parts) > MAX_HEADS:
            middle = (first + last) // 2
            ranges += [(middle, last), (first, middle)]
            continue
        if parts:
            yield from _pairs_of(_members(parts), first, last)


def _pairs_of(members: _Members, first: int, last: int) -> Iterator[NDArray[np.uint64]]:
    """Yield the distinct pairs of documents [first, last), ascending by worse from array to array."""
    counts = np.bincount(members.document - first, members.count, last - first).astype(np.int64)
    for low, high in _cuts(counts):
        pairs = _expand(members, first + low, first + high)
        if len(pairs):
            yield _distinct(pairs)


def _cuts(counts: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield ranges of documents with at most `BATCH_PAIRS` pairs, or of one document with more."""
    pairs = np.cumsum(counts)
    start = 0
    while start < len(counts):
        before = pairs[start - 1] if start else 0
        end = max(int(np.searchsorted(pairs, before + BATCH_PAIRS, side="right")), start + 1)
        yield start, end
        start = end


def _open_band(workspace: Workspace, band: int, piece: int) -> _Band:
    """Return the members and the heads of one piece of a band, mapped."""
    folder = workspace.path(band_key(band, piece))
    members, heads = (open_array(folder / name, dtype="<i8") for name in ("members.npy", "heads.npy"))
    return cast("_Band", (members, heads))


def _parts(
    work: PairRange, open_band: Callable[[int, int], _Band], first: int, last: int
) -> list[_Band]:
    """Return the members among documents [first, last) of each piece, if any, and the piece's heads."""
    bands = band_shape(work.minhash.threshold, work.minhash.num_perm)[0]
    parts = []
    for band, piece in product(range(bands), range(work.pieces)):
        members, heads = open_band(band, piece)
        low, high = np.searchsorted(members[:, 0], (first, last))
        compared = members[low:high]
        compared = compared[compared[:, 2] > 0]
        if len(compared):
            parts.append((compared, heads))
    return parts


def _members(parts: Sequence[_Band]) -> _Members:
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


def _with_heads(members: NDArray[np.int64], heads: NDArray[np.int64]) -> _Band:
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
    return _as_pairs(better, np.repeat(members.document[chosen], counts))


def _measure(
    work: PairRange, hashed: Callable[[int], HashedDocuments], pairs: NDArray[np.uint64]
) -> NDArray[np.float64]:
    """Return the exact similarity of each pair; pairs are ascending by their better document.

    Args:
        work: the run of the worse documents.
        hashed: gives the sets of shingles of a run.
        pairs: (P,) uint64.
    """
    own = hashed(work.run.number)
    better, worse = _better(pairs), own.rows(_worse(pairs))
    similarity = np.zeros(len(pairs))
    run_of = np.searchsorted(work.firsts, better, side="right") - 1
    for number in np.unique(run_of).tolist():
        low, high = np.searchsorted(run_of, (number, number + 1))
        others = hashed(number)
        rows = others.rows(better[low:high]), worse[low:high]
        threshold = work.minhash.threshold
        similarity[low:high] = similarities(others.sets, own.sets, rows=rows, threshold=threshold)
    return similarity
