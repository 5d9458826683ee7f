"""Pairs: dedup's candidate pairs, verified on the texts by exact Jaccard similarity.

The worse documents of a batch of pairs are held as sets of shingles; the better ones are read past
them, row group by row group, each group once a batch. So what is held is one batch and one row group.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import cast

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.dedup.pieces import band_key
from pipeline.steps.dedup.runs import UnitRun
from pipeline.steps.records import UnitRecord
from pipeline.steps.units import Unit
from stages.dedup.jaccard import similarities
from stages.dedup.lsh import MinHashConfig, band_shape
from stages.dedup.shingles import shingle_set
from stages.store.arrays import array_writer, open_array

BATCH_PAIRS = 1 << 20
"""Candidate pairs, repeated over bands, that are expanded together (8 bytes each, and copies)."""
BATCH_BYTES = 32 << 20
"""Text whose shingles are held together; these take up to twice as much."""
BATCH_DOCUMENTS = 1 << 14
"""Documents whose candidates are looked up together: in each band up to 64 (8 bytes) apiece."""
OPEN_PIECES = 256
"""Pieces of bands that a task keeps open: all of 18 million documents'."""

_Band = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Members (M, 3) and heads (H,) of a piece of a band."""
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
"""A pair is one number: its better document above, its worse one below. Documents fit in 31 bits."""


@dataclass(frozen=True)
class PairRange:
    """A run of units whose documents are to be verified against better-ranked ones."""

    before: tuple[Unit, ...]
    """All units that stand before it."""
    run: UnitRun
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
    compared = verified = 0
    with (
        array_writer(folder / "edges.npy", dtype="<i8", shape=(2,)) as append_edges,
        array_writer(folder / "similarity.npy", dtype="<f8") as append_similarities,
    ):
        for pairs, text_bytes in _batches(workspace, work):
            measured = _measure(workspace, work, pairs, text_bytes)
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


def _batches(workspace: Workspace, work: PairRange) -> Iterator[tuple[NDArray[np.uint64], int]]:
    """Yield the run's candidate pairs, ascending by worse from batch to batch.

    Within a batch they are distinct and ascend by better. With each come the bytes of the texts of its
    worse documents.
    """
    held: list[NDArray[np.uint64]] = []
    num_pairs = text_bytes = 0
    for pairs, size in _small_batches(workspace, work):
        if held and (num_pairs + len(pairs) > BATCH_PAIRS or text_bytes + size > BATCH_BYTES):
            yield _distinct(np.concatenate(held)), text_bytes
            held, num_pairs, text_bytes = [], 0, 0
        held.append(pairs)
        num_pairs, text_bytes = num_pairs + len(pairs), text_bytes + size
    if held:
        yield _distinct(np.concatenate(held)), text_bytes


def _small_batches(workspace: Workspace, work: PairRange) -> Iterator[tuple[NDArray[np.uint64], int]]:
    """Yield distinct pairs of ranges of documents, with the bytes of their worse documents' texts."""
    first_of_all, end = work.run.first, work.run.last
    sizes = np.concatenate(
        [
            pq.read_table(workspace.path(unit.table), columns=["text_bytes"], use_threads=False)[
                "text_bytes"
            ].to_numpy()
            for unit in work.run.units
        ]
    )
    open_band = lru_cache(OPEN_PIECES)(partial(_open_band, workspace))
    for first in range(first_of_all, end, BATCH_DOCUMENTS):
        last = min(first + BATCH_DOCUMENTS, end)
        members = _members(work, open_band, first, last)
        if not len(members.document):
            continue
        counts = np.bincount(members.document - first, members.count, last - first).astype(np.int64)
        texts = np.where(counts > 0, sizes[first - first_of_all : last - first_of_all], 0)
        for low, high in _cuts(counts, texts):
            pairs = _expand(members, first + low, first + high)
            if len(pairs):
                yield _distinct(pairs), int(texts[low:high].sum())


def _cuts(counts: NDArray[np.int64], texts: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield ranges of documents within the bounds of a batch, or of one document over them."""
    pairs, size = np.cumsum(counts), np.cumsum(texts)
    start = 0
    while start < len(counts):
        before = (pairs[start - 1], size[start - 1]) if start else (0, 0)
        end = min(
            int(np.searchsorted(pairs, before[0] + BATCH_PAIRS, side="right")),
            int(np.searchsorted(size, before[1] + BATCH_BYTES, side="right")),
        )
        end = max(end, start + 1)
        yield start, end
        start = end


def _open_band(workspace: Workspace, band: int, piece: int) -> _Band:
    """Return the members and the heads of one piece of a band, mapped."""
    folder = workspace.path(band_key(band, piece))
    members, heads = (open_array(folder / name, dtype="<i8") for name in ("members.npy", "heads.npy"))
    return cast("_Band", (members, heads))


def _members(work: PairRange, open_band: Callable[[int, int], _Band], first: int, last: int) -> _Members:
    """Gather the members of documents [first, last) over all bands and pieces."""
    bands = band_shape(work.minhash.threshold, work.minhash.num_perm)[0]
    members, heads, offset = [np.empty((0, 3), np.int64)], [np.empty(0, np.int64)], 0
    for band in range(bands):
        for piece in range(work.pieces):
            found, of_all = open_band(band, piece)
            low, high = np.searchsorted(found[:, 0], (first, last))
            if low < high:
                part, needed = _with_heads(found[low:high], of_all)
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
    workspace: Workspace, work: PairRange, pairs: NDArray[np.uint64], text_bytes: int
) -> NDArray[np.float64]:
    """Return the exact similarity of each pair; pairs are ascending by their better document.

    Args:
        workspace: where the texts are.
        work: the run of the worse documents, and the units before it.
        pairs: (P,) uint64.
        text_bytes: no fewer than the texts of the worse documents have.
    """
    size, threshold = work.minhash.size, work.minhash.threshold
    better = _better(pairs)
    worse = _worse(pairs) - work.run.first
    named = np.zeros(work.run.last - work.run.first, np.bool_)
    named[worse] = True
    rows = (np.cumsum(named) - 1)[worse]
    values, ptr = _worse_sets(workspace, work, np.flatnonzero(named) + work.run.first, text_bytes)
    similarity = np.zeros(len(pairs))
    units = (*work.before, *work.run.units)
    ends = np.fromiter((unit.last for unit in units), np.int64, len(units))
    for number in np.unique(np.searchsorted(ends, better, side="right")).tolist():
        unit = units[number]
        low, high = np.searchsorted(better, (unit.first, unit.last))
        for first, text in _texts(workspace, unit, better[low:high]):
            shingles = shingle_set(text, size=size)
            start, end = np.searchsorted(better, (first, first + 1))
            similarity[start:end] = similarities(
                shingles, values, ptr, rows=rows[start:end], threshold=threshold
            )
            del shingles  # those of a long text are not held beside the next
    return similarity


def _worse_sets(
    workspace: Workspace, work: PairRange, numbers: NDArray[np.int64], text_bytes: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the shingles of some of the run's documents, end to end, and where each one's begin."""
    values = np.empty(text_bytes // 2 + len(numbers), np.uint64)  # what is not filled takes nothing
    ptr = np.zeros(len(numbers) + 1, np.int64)
    texts = (text for unit in work.run.units for _, text in _texts(workspace, unit, numbers))
    for row, text in enumerate(texts):
        shingles = shingle_set(text, size=work.minhash.size)
        ptr[row + 1] = ptr[row] + len(shingles)
        values[ptr[row] : ptr[row + 1]] = shingles
    return values, ptr


def _texts(workspace: Workspace, unit: Unit, wanted: NDArray[np.int64]) -> Iterator[tuple[int, str]]:
    """Yield the texts of some documents of a unit, reading only the row groups that hold them."""
    numbers = np.unique(wanted)
    low, high = np.searchsorted(numbers, (unit.first, unit.last))
    if low == high:
        return
    with pq.ParquetFile(workspace.path(unit.table)) as file:
        first = unit.first
        for group in range(file.num_row_groups):
            last = first + file.metadata.row_group(group).num_rows
            low, high = np.searchsorted(numbers, (first, last))
            if low < high:
                texts = file.read_row_group(group, columns=["text"], use_threads=False).column("text")
                for number in numbers[low:high]:
                    yield int(number), texts[int(number) - first].as_py()
            first = last
