"""Hashing: the sets of shingles of all documents that share a bucket, each computed once.

    dedup/shingles/RUN/documents.npy   (C,) uint32, candidates of a run of units, ascending;
                                       the run's first document is 0
    dedup/shingles/RUN/ptr.npy         (C + 1,) int64, where each one's shingles begin
    dedup/shingles/RUN/values.npy      (V,) uint64, ascending and distinct in each

A document is compared with documents of any run. Reading the texts of all runs for each run would cost
the square of the corpus.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.dedup.pieces import band_key
from pipeline.steps.dedup.runs import UnitRun
from pipeline.steps.records import UnitRecord
from pipeline.steps.units import Unit
from stages.columns import utf8_of
from stages.dedup.lsh import MinHashConfig, band_shape
from stages.dedup.shingle_sets import ShingleSets, shingle_sets
from stages.store.arrays import array_writer, open_array, write_array


@dataclass(frozen=True)
class CandidateRun:
    """A run of units whose candidates are hashed."""

    run: UnitRun
    pieces: int
    minhash: MinHashConfig


class HashingRecord(UnitRecord):
    """What was hashed of a run of units."""

    candidates: int
    shingles: int


@dataclass(frozen=True)
class HashedDocuments:
    """The sets of shingles of a run's candidates, mapped."""

    first: int
    """The number of the run's first document."""
    documents: NDArray[np.uint32]
    sets: ShingleSets

    def rows(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which set is that of each document: (N,) int64. All of them are candidates."""
        return np.searchsorted(self.documents, numbers - self.first)


def shingles_key(run: int) -> str:
    """Return the folder of the sets of shingles of a run of units."""
    return f"dedup/shingles/{run:05d}"


def hash_candidates(workspace: Workspace, work: CandidateRun) -> HashingRecord:
    """Write the sets of shingles of the documents of a run of units that share a bucket."""
    folder = workspace.create(shingles_key(work.run.number))
    candidates = np.flatnonzero(_shares_bucket(workspace, work))
    write_array(folder / "documents.npy", candidates.astype("<u4"))
    ends = [np.zeros(1, np.int64)]
    with array_writer(folder / "values.npy", dtype="<u8") as append:
        for data, offsets in _texts(workspace, work.run, candidates + work.run.first):
            for sets in shingle_sets(data, offsets, size=work.minhash.size):
                append(sets.values)
                ends.append(ends[-1][-1] + sets.ptr[1:])
    ptr = np.concatenate(ends)
    write_array(folder / "ptr.npy", ptr)
    return HashingRecord(candidates=len(candidates), shingles=int(ptr[-1]))


def open_hashed(workspace: Workspace, firsts: tuple[int, ...], run: int) -> HashedDocuments:
    """Return the sets of shingles of a run's candidates.

    Args:
        workspace: where they are.
        firsts: the number of the first document of each run.
        run: its number.
    """
    folder = workspace.path(shingles_key(run))
    kinds = (("documents", "<u4"), ("values", "<u8"), ("ptr", "<i8"))
    arrays: list[Any] = [open_array(folder / f"{name}.npy", dtype=dtype) for name, dtype in kinds]
    documents, values, ptr = arrays
    return HashedDocuments(firsts[run], documents, ShingleSets(values, ptr))


def _shares_bucket(workspace: Workspace, work: CandidateRun) -> NDArray[np.bool_]:
    """Return which documents of the run share a bucket with another one, in any band: (N,)."""
    first, last = work.run.first, work.run.last
    shares = np.zeros(last - first, np.bool_)
    bands, _ = band_shape(work.minhash.threshold, work.minhash.num_perm)
    for band in range(bands):
        for piece in range(work.pieces):
            members = open_array(workspace.path(band_key(band, piece)) / "members.npy", dtype="<i8")
            low, high = np.searchsorted(members[:, 0], (first, last))
            shares[members[low:high, 0] - first] = True
    return shares


def _texts(
    workspace: Workspace, run: UnitRun, numbers: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int64]]]:
    """Yield the texts of some documents of a run, those of a row group at a time, in UTF-8."""
    for unit in run.units:
        low, high = np.searchsorted(numbers, (unit.first, unit.last))
        if low < high:
            yield from _texts_of_unit(workspace, unit, numbers[low:high])


def _texts_of_unit(
    workspace: Workspace, unit: Unit, numbers: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int64]]]:
    """Yield the texts of some documents of a unit, reading only the row groups that hold them."""
    with pq.ParquetFile(workspace.path(unit.table)) as file:
        first = unit.first
        for group in range(file.num_row_groups):
            last = first + file.metadata.row_group(group).num_rows
            low, high = np.searchsorted(numbers, (first, last))
            if low < high:
                texts = file.read_row_group(group, columns=["text"], use_threads=False).column("text")
                yield utf8_of(texts.take(pa.array(numbers[low:high] - first)))
                del texts  # one row group is held
            first = last
