"""Pairs: dedup's candidate pairs, verified by exact Jaccard similarity.

The sets of shingles are those that `pipeline.steps.dedup.hashing` wrote, once for each document. They
are mapped, so what is held is one batch of pairs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.dedup.edges import EdgeWriter, ranks_of
from pipeline.steps.dedup.expand import BATCH_PAIRS, PLAIN, PairCode, distinct, expanded
from pipeline.steps.dedup.hashing import HashedDocuments, open_hashed
from pipeline.steps.dedup.pieces import band_key
from pipeline.steps.dedup.runs import UnitRun
from pipeline.steps.records import UnitRecord
from stages.dedup.jaccard import similarities
from stages.dedup.lsh import MinHashConfig, band_shape

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
