"""Hashing: the sets of shingles of all documents that share a bucket, each computed once.

    dedup/shingles/RUN/index.npy    (2, C + 1) int64: the candidates of a run of units, ascending, the
                                    run's first document being 0, and the number of its documents;
                                    where the shingles of each begin, and where the last ones end
    dedup/shingles/RUN/values.npy   (V,) uint64: shingles, ascending and distinct in each candidate

A document is compared with documents of any run. Reading the texts of all runs for each run would cost
the square of the corpus.

Pairs: dedup's candidate pairs, verified by exact Jaccard similarity.

The sets of shingles are those that `pipeline.steps.dedup.hashing` wrote, once for each document. They
are mapped, so what is held is one batch of pairs.
"""

from collections.abc import Callable, Iterator
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
from pipeline.steps.dedup.edges import (
    BATCH_PAIRS,
    PLAIN,
    EdgeWriter,
    PairCode,
    distinct,
    expanded,
    ranks_of,
)
from pipeline.steps.dedup.pieces import band_key
from pipeline.steps.dedup.runs import UnitRun
from pipeline.steps.records import UnitRecord
from pipeline.steps.units import Unit
from stages.columns import utf8_of
from stages.dedup.compared import compared_sets
from stages.dedup.jaccard import similarities
from stages.dedup.lsh import MinHashConfig, band_shape
from stages.dedup.shingle_sets import ShingleSets
from stages.store.arrays import array_writer, open_array, write_array

INDEX = "index.npy"


@dataclass(frozen=True)
class CandidateRun:
    """A run of units whose candidates are hashed."""

    run: UnitRun
    pieces: int
    minhash: MinHashConfig
    earlier: int = 0
    """Documents of earlier runs: of these, those alone that a new one is compared with."""


class HashingRecord(UnitRecord):
    """What was hashed of a run of units."""

    candidates: int
    shingles: int


@dataclass(frozen=True)
class HashedDocuments:
    """The sets of shingles of a run's candidates, mapped."""

    first: int
    """The number of the run's first document."""
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


def shingles_key(run: int, folder: str = SHINGLES_FOLDER) -> str:
    """Return the folder of the sets of shingles of a run of units."""
    return f"{folder}/{run:05d}"


def hash_candidates(workspace: Workspace, work: CandidateRun) -> HashingRecord:
    """Write the sets of shingles of the documents of a run of units that share a bucket."""
    folder = workspace.create(shingles_key(work.run.number))
    return write_hashed(workspace, folder, np.flatnonzero(_shares_bucket(workspace, work)), work)


def write_hashed(
    workspace: Workspace, folder: Path, candidates: NDArray[np.int64], work: CandidateRun
) -> HashingRecord:
    """Write the sets of shingles of some documents of a run of units.

    Args:
        workspace: where its texts are.
        folder: for index.npy and values.npy.
        candidates: (C,) ascending; the run's first document is 0.
        work: the run.
    """
    lengths = [np.zeros(1, np.int64)]
    with array_writer(folder / "values.npy", dtype="<u8") as append:
        for sets in _sets(workspace, work, candidates + work.run.first):
            append(sets.values)
            lengths.append(np.diff(sets.ptr))
            del sets  # those of a long text are not held beside the next
    ptr = np.cumsum(np.concatenate(lengths))
    documents = np.append(candidates, work.run.last - work.run.first)
    write_array(folder / INDEX, np.stack([documents, ptr]))
    return HashingRecord(candidates=len(candidates), shingles=int(ptr[-1]))


def open_hashed(
    workspace: Workspace, firsts: tuple[int, ...], run: int, *, folder: str = SHINGLES_FOLDER
) -> HashedDocuments:
    """Return the sets of shingles of a run's candidates.

    Args:
        workspace: where they are.
        firsts: the number of the first document of each run.
        run: its number.
        folder: of all runs' sets.
    """
    place = workspace.path(shingles_key(run, folder))
    index: Any = open_array(place / INDEX, dtype="<i8")
    values: Any = open_array(place / "values.npy", dtype="<u8")
    return HashedDocuments(firsts[run], index[0], ShingleSets(values, index[1]))


def _shares_bucket(workspace: Workspace, work: CandidateRun) -> NDArray[np.bool_]:
    """Return which documents of the run share a bucket with another one, in any band: (N,)."""
    first, last = work.run.first, work.run.last
    shares = np.zeros(last - first, np.bool_)
    bands, _ = band_shape(work.minhash.threshold, work.minhash.num_perm)
    for band in range(bands):
        for piece in range(work.pieces):
            folder = workspace.path(band_key(band, piece))
            if first < work.earlier:
                sharing = open_array(folder / "earlier.npy", dtype="<i8")
            else:
                sharing = open_array(folder / "members.npy", dtype="<i8")[:, 0]
            low, high = np.searchsorted(sharing, (first, last))
            shares[sharing[low:high] - first] = True
    return shares


def _sets(workspace: Workspace, work: CandidateRun, numbers: NDArray[np.int64]) -> Iterator[ShingleSets]:
    """Yield the sets of shingles of some documents of a run in their order, those of some at a time."""
    for unit in work.run.units:
        low, high = np.searchsorted(numbers, (unit.first, unit.last))
        for column in texts_at(workspace, unit, numbers[low:high]):
            yield from compared_sets(*utf8_of(column), work.minhash)
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


OPEN_RUNS = 64
"""Runs of units whose sets of shingles a task keeps open, two files each."""
PAIRS_FOLDER = "dedup/pairs"


@dataclass(frozen=True)
class PairRange:
    """A run of units whose documents are to be verified against better-ranked ones."""

    run: UnitRun
    firsts: tuple[int, ...]
    """The number of the first document of each run of units, of those after it too."""
    pieces: int
    minhash: MinHashConfig
    ranked: bool = False
    code: PairCode = PLAIN


class PairsRecord(UnitRecord):
    """Candidate pairs of a run of units."""

    compared: int
    verified: int


def pairs_key(number: int) -> str:
    """Return the folder of the verified pairs of a run of units."""
    return f"{PAIRS_FOLDER}/{number:05d}"


def verify_pairs(workspace: Workspace, work: PairRange) -> PairsRecord:
    """Verify the documents of a run of units against their better-ranked candidates."""
    folder = workspace.create(pairs_key(work.run.number))
    hashed = lru_cache(OPEN_RUNS)(partial(open_hashed, workspace, work.firsts))
    compared = verified = 0
    ranks = ranks_of(workspace, work.ranked)
    with EdgeWriter(folder, work.firsts, ranks=ranks, own=True) as writer:
        for pairs in _batches(workspace, work):
            measured = _measure(work, hashed, pairs)
            high = np.flatnonzero(measured >= work.minhash.threshold)
            writer.add(work.code.better(pairs[high]), work.code.worse(pairs[high]), measured[high])
            compared += len(pairs)
            verified += len(high)
    return PairsRecord(compared=compared, verified=verified)


def _batches(workspace: Workspace, work: PairRange) -> Iterator[NDArray[np.uint64]]:
    """Yield the run's candidate pairs, ascending by worse from batch to batch.

    Within a batch they are distinct and ascend by better.
    """
    bands, _ = band_shape(work.minhash.threshold, work.minhash.num_perm)
    pieces = [band_key(band, piece) for band, piece in product(range(bands), range(work.pieces))]
    held: list[NDArray[np.uint64]] = []
    size = 0
    for pairs in expanded(workspace, pieces, work.run.first, work.run.last, code=work.code):
        if held and size + len(pairs) > BATCH_PAIRS:
            yield distinct(np.concatenate(held))
            held, size = [], 0
        held.append(pairs)
        size += len(pairs)
    if held:
        yield distinct(np.concatenate(held))


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
    better, worse = work.code.better(pairs), own.rows(work.code.worse(pairs))
    similarity = np.zeros(len(pairs))
    run_of = np.searchsorted(work.firsts, better, side="right") - 1
    for number in np.unique(run_of).tolist():
        low, high = np.searchsorted(run_of, (number, number + 1))
        others = hashed(number)
        rows = others.rows(better[low:high]), worse[low:high]
        threshold = work.minhash.threshold
        similarity[low:high] = similarities(others.sets, own.sets, rows=rows, threshold=threshold)
    return similarity
