"""Hashing: the sets of shingles of all documents that share a bucket, each computed once.

    dedup/shingles/GROUP/index.npy  (2, C + 1) int64: the candidates of a group of units, ascending, the
                                    group's first document being 0, and the number of its documents;
                                    where the shingles of each begin, and where the last ones end
    dedup/shingles/GROUP/values.npy  (V,) uint64: shingles, ascending and distinct in each candidate

A document is compared with documents of any group. Reading the texts of all groups for each group would
cost the square of the corpus.

Pairs: dedup's candidate pairs, verified by exact Jaccard similarity.

The sets of shingles are those that `pipeline.steps.dedup.hashing` wrote, once for each document. They
are mapped, so what is held is one batch of pairs.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.dedup.band_keys import band_key
from pipeline.steps.dedup.edges import (
    BATCH_PAIRS,
    EdgeWriter,
    distinct,
    expanded,
    ranks_of,
)
from pipeline.steps.dedup.method import GroupWork
from pipeline.steps.records import UnitRecord
from pipeline.steps.units import Unit
from stages.columns import utf8_of
from stages.dedup.compared_texts import compared_sets
from stages.dedup.jaccard import similarities
from stages.dedup.shingle_sets import ShingleSets
from stages.store.arrays import array_writer, open_array, write_array

INDEX = "index.npy"


class HashingRecord(UnitRecord):
    """What was hashed of a group of units."""

    candidates: int
    shingles: int


@dataclass(frozen=True)
class HashedDocuments:
    """The sets of shingles of a group's candidates, mapped."""

    first: int
    """The number of the group's first document."""
    documents: NDArray[np.int64]
    """(C + 1,) ascending; the last one is no candidate."""
    sets: ShingleSets

    def rows(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which set is that of each document: (N,) int64. All of them are candidates."""
        wanted = numbers - self.first
        rows = np.searchsorted(self.documents, wanted)
        assert np.array_equal(self.documents[rows], wanted), "a pair is of documents that share a bucket"
        return rows


SHINGLES_FOLDER = "dedup/shingles"


def shingles_key(group: int, folder: str = SHINGLES_FOLDER) -> str:
    """Return the folder of the sets of shingles of a group of units."""
    return f"{folder}/{group:05d}"


def hash_candidates(workspace: Workspace, work: GroupWork) -> HashingRecord:
    """Write the sets of shingles of the documents of a group of units that share a bucket."""
    folder = workspace.create(shingles_key(work.group.number))
    return write_hashed(workspace, folder, np.flatnonzero(_shares_bucket(workspace, work)), work)


def write_hashed(
    workspace: Workspace, folder: Path, candidates: NDArray[np.int64], work: GroupWork
) -> HashingRecord:
    """Write the sets of shingles of some documents of a group of units.

    Args:
        workspace: where its texts are.
        folder: for index.npy and values.npy.
        candidates: (C,) ascending; the group's first document is 0.
        work: the group.
    """
    lengths = [np.zeros(1, np.int64)]
    with array_writer(folder / "values.npy", dtype="<u8") as append:
        for sets in _sets(workspace, work, candidates + work.group.first):
            append(sets.values)
            lengths.append(np.diff(sets.ptr))
            del sets  # those of a long text are not held beside the next
    ptr = np.cumsum(np.concatenate(lengths))
    documents = np.append(candidates, work.group.last - work.group.first)
    write_array(folder / INDEX, np.stack([documents, ptr]))
    return HashingRecord(candidates=len(candidates), shingles=int(ptr[-1]))


def open_hashed(
    workspace: Workspace, firsts: tuple[int, ...], group: int, *, folder: str = SHINGLES_FOLDER
) -> HashedDocuments:
    """Return the sets of shingles of a group's candidates.

    Args:
        workspace: where they are.
        firsts: the number of the first document of each group.
        group: its number.
        folder: of all groups' sets.
    """
    place = workspace.path(shingles_key(group, folder))
    index: Any = open_array(place / INDEX, dtype="<i8")
    values: Any = open_array(place / "values.npy", dtype="<u8")
    return HashedDocuments(firsts[group], index[0], ShingleSets(values, index[1]))


def _shares_bucket(workspace: Workspace, work: GroupWork) -> NDArray[np.bool_]:
    """Return which documents of the group share a bucket with another one, in any band: (N,)."""
    first, last = work.group.first, work.group.last
    shares = np.zeros(last - first, np.bool_)
    for band in range(work.corpus.shape[0]):
        for partition in range(work.corpus.partitions):
            folder = workspace.path(band_key(band, partition))
            if first < work.corpus.earlier:
                sharing = open_array(folder / "earlier.npy", dtype="<i8")
            else:
                sharing = open_array(folder / "members.npy", dtype="<i8")[:, 0]
            low, high = np.searchsorted(sharing, (first, last))
            shares[sharing[low:high] - first] = True
    return shares


def _sets(workspace: Workspace, work: GroupWork, numbers: NDArray[np.int64]) -> Iterator[ShingleSets]:
    """Yield the sets of shingles of some documents of a group in order, those of some at a time."""
    for unit in work.group.units:
        low, high = np.searchsorted(numbers, (unit.first, unit.last))
        for column in texts_at(workspace, unit, numbers[low:high]):
            yield from compared_sets(*utf8_of(column), work.corpus.settings.minhash)
            del column  # one row group is held


def texts_at(workspace: Workspace, unit: Unit, numbers: NDArray[np.int64]) -> Iterator[pa.ChunkedArray]:
    """Yield the texts of some documents of a unit, reading only the row groups that hold them."""
    if not len(numbers):
        return
    with pq.ParquetFile(workspace.path(unit.table)) as file:
        first = unit.first
        for group in range(file.num_row_groups):
            last = first + file.metadata.row_group(group).num_rows
            low, high = np.searchsorted(numbers, (first, last))
            if low < high:
                texts = [file.read_row_group(group, columns=["text"], use_threads=False).column("text")]
                yield texts.pop().take(pa.array(numbers[low:high] - first))
            first = last


OPEN_GROUPS = 64
"""Groups of units whose sets of shingles a task keeps open, two files each."""
PAIRS_FOLDER = "dedup/pairs"


class PairsRecord(UnitRecord):
    """Candidate pairs of a group of units."""

    compared: int
    verified: int


def pairs_key(number: int) -> str:
    """Return the folder of the verified pairs of a group of units."""
    return f"{PAIRS_FOLDER}/{number:05d}"


def verify_pairs(workspace: Workspace, work: GroupWork) -> PairsRecord:
    """Verify the documents of a group of units against their better-ranked candidates."""
    threshold = work.corpus.settings.minhash.threshold

    def jaccard(own: Rows, others: Rows) -> NDArray[np.float64]:
        rows = others.rows, own.rows
        return similarities(others.sets, own.sets, rows=rows, threshold=threshold)

    verified = PairVerification(work, jaccard, threshold, own=True)
    return write_verified(workspace, pairs_key(work.group.number), verified, _batches(workspace, work))


@dataclass(frozen=True)
class Rows:
    """Sets of shingles, one of each pair."""

    sets: ShingleSets
    rows: NDArray[np.int64]
    """(P,) which."""


@dataclass(frozen=True)
class PairVerification:
    """How the pairs of a group of units are verified."""

    work: GroupWork
    compare: Callable[[Rows, Rows], NDArray[np.float64]]
    """How alike pairs are, (P,): of the worse documents, those of the group, and of the better ones."""
    threshold: float
    shingles: str = SHINGLES_FOLDER
    """Where the sets of shingles are."""
    own: bool = False
    """Whether pairs come ascending by their worse document."""


def write_verified(
    workspace: Workspace, key: str, verified: PairVerification, batches: Iterable[NDArray[np.uint64]]
) -> PairsRecord:
    """Write the candidate pairs that are alike enough.

    Args:
        workspace: where sets of shingles are.
        key: of the folder that is written.
        verified: how.
        batches: of pairs, (P,) uint64 each, ascending by their better document.
    """
    work, corpus = verified.work, verified.work.corpus
    opened = partial(open_hashed, workspace, corpus.firsts, folder=verified.shingles)
    hashed, code = lru_cache(OPEN_GROUPS)(opened), work.code
    compared = found = 0
    ranks, folder = ranks_of(workspace, corpus.ranked), workspace.create(key)
    with EdgeWriter(folder, corpus.firsts, ranks=ranks, own=verified.own) as writer:
        for pairs in batches:
            measured = _measure(verified, hashed, code.better(pairs), code.worse(pairs))
            high = np.flatnonzero(measured >= verified.threshold)
            writer.add(code.better(pairs[high]), code.worse(pairs[high]), measured[high])
            compared += len(pairs)
            found += len(high)
    return PairsRecord(compared=compared, verified=found)


def _batches(workspace: Workspace, work: GroupWork) -> Iterator[NDArray[np.uint64]]:
    """Yield the group's candidate pairs, ascending by worse from batch to batch.

    Within a batch they are distinct and ascend by better.
    """
    bands, _ = work.corpus.shape
    partitions = [
        band_key(band, partition)
        for band, partition in product(range(bands), range(work.corpus.partitions))
    ]
    buffer: list[NDArray[np.uint64]] = []
    size = 0
    for pairs in expanded(workspace, partitions, work.group.first, work.group.last, code=work.code):
        if buffer and size + len(pairs) > BATCH_PAIRS:
            yield distinct(np.concatenate(buffer))
            buffer, size = [], 0
        buffer.append(pairs)
        size += len(pairs)
    if buffer:
        yield distinct(np.concatenate(buffer))


def _measure(
    verified: PairVerification,
    hashed: Callable[[int], HashedDocuments],
    better: NDArray[np.int64],
    worse: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return how alike pairs are, which ascend by their better document: (P,)."""
    own, firsts = hashed(verified.work.group.number), verified.work.corpus.firsts
    rows, found = own.rows(worse), np.zeros(len(better))
    group_of = np.searchsorted(firsts, better, side="right") - 1
    for number in np.unique(group_of).tolist():
        low, high = np.searchsorted(group_of, (number, number + 1))
        others = hashed(number)
        there = Rows(others.sets, others.rows(better[low:high]))
        found[low:high] = verified.compare(Rows(own.sets, rows[low:high]), there)
    return found
